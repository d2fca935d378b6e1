"""Learners of pictures: laws that all of them keep."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.picture_streams import (
    SIDE,
    SMALL,
    labelled,
    picture_stream,
    pictures_of,
    shorten,
    tensors,
)

torch: Any = pytest.importorskip("torch")

from cbcl_study.rivals.deep.bic import BiC  # noqa: E402
from cbcl_study.rivals.deep.eeil import EEIL  # noqa: E402
from cbcl_study.rivals.deep.finetune import FineTuning  # noqa: E402
from cbcl_study.rivals.deep.icarl import ICaRL  # noqa: E402
from cbcl_study.rivals.deep.joint import Joint  # noqa: E402
from cbcl_study.rivals.deep.learner import frozen  # noqa: E402
from cbcl_study.rivals.deep.lwf import LwFMC  # noqa: E402
from cbcl_study.rivals.deep.lwm import LwM  # noqa: E402

torch.set_num_threads(1)

LEARNERS: dict[str, Callable[[int], Any]] = {  # by their seed
    "ft": lambda seed: FineTuning(seed=seed, **SMALL),
    "lwf-mc": lambda seed: LwFMC(outputs=8, seed=seed, **SMALL),
    "lwm": lambda seed: LwM(outputs=8, seed=seed, **SMALL),
    "icarl": lambda seed: ICaRL(outputs=8, budget=12, seed=seed, **SMALL),
    "icarl-hybrid1": lambda seed: ICaRL(outputs=8, budget=12, hybrid1=True, seed=seed, **SMALL),
    "eeil": lambda seed: EEIL(budget=12, seed=seed, **SMALL),
    "bic": lambda seed: BiC(budget=24, seed=seed, **SMALL),
    "joint": lambda seed: Joint(seed=seed, **SMALL),
}
every = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
State = dict[str, NDArray[Any]]


def small(make: Callable[[int], Any], seed: int = 0) -> Any:
    return shorten(make(seed), epochs=1, batch=64)


@cache
def taught(make: Callable[[int], Any], seed: int = 0) -> Any:
    learner = small(make, seed)
    for x, y in picture_stream():
        learner.partial_fit(x, y)
    return learner


def same(these: State, those: State) -> bool:
    return all(np.array_equal(these[name], those[name]) for name in {*these, *those})


@every
def test_every_answer_is_a_label_seen_so_far(make: Callable[[int], Any]) -> None:
    learner, seen = small(make), set()
    for x, y in picture_stream():
        seen |= {*y.tolist()}
        assert {*learner.partial_fit(x, y).predict(x).tolist()} <= seen


@every
def test_a_seed_reaches_everything(make: Callable[[int], Any]) -> None:
    first, again, other = taught(make), taught.__wrapped__(make), taught(make, seed=1)
    assert same(first.state(), again.state())
    assert not same(first.state(), other.state())


@every
def test_the_global_generator_is_left_alone(make: Callable[[int], Any]) -> None:
    before = torch.random.get_rng_state()
    (x, y), (more, new), *_ = picture_stream()
    small(make).partial_fit(x, y).partial_fit(more, new).predict(x)
    assert torch.equal(torch.random.get_rng_state(), before)


@every
def test_a_resumed_run_ends_as_if_it_had_not_been_stopped(
    make: Callable[[int], Any], tmp_path: Path
) -> None:
    straight, stopped = small(make), small(make)
    *before, last = picture_stream()
    for x, y in before:
        straight.partial_fit(x, y)
        stopped.partial_fit(x, y)
    stopped.save(tmp_path / "checkpoint")
    resumed = small(make, seed=99).load(tmp_path / "checkpoint")
    if isinstance(resumed, Joint):
        resumed.seed = straight.seed  # it trains from the seed on, whenever it trains
    x, y = labelled(range(6), 5, seed=7)
    np.testing.assert_array_equal(resumed.predict(x), straight.predict(x))
    assert same(resumed.partial_fit(*last).state(), straight.partial_fit(*last).state())
    np.testing.assert_array_equal(resumed.predict(x), straight.predict(x))


@every
def test_predicting_changes_nothing(make: Callable[[int], Any]) -> None:
    learner, x = taught(make), pictures_of(3, 5, seed=1)
    before = learner.state()
    first = learner.predict(x)
    np.testing.assert_array_equal(learner.predict(x), first)
    assert same(learner.state(), before)


@every
def test_the_answer_to_a_picture_is_its_own(make: Callable[[int], Any]) -> None:
    learner = taught(make)
    x, _ = labelled(range(6), 3, seed=5)
    alone = [learner.predict(x[i : i + 1])[0] for i in range(len(x))]
    assert learner.predict(x).tolist() == alone  # batch norm uses its statistics, not the batch's


@every
def test_the_callers_arrays_are_neither_kept_nor_changed(make: Callable[[int], Any]) -> None:
    (x, y), (more, new), *_ = picture_stream()
    spoilt, kept, labels = x.copy(), small(make), y.copy()
    learner = small(make).partial_fit(spoilt, labels)
    np.testing.assert_array_equal(spoilt, x)
    spoilt[:], labels[:] = 0, "gone"
    learner.partial_fit(more, new)
    assert same(learner.state(), kept.partial_fit(x, y).partial_fit(more, new).state())


@every
def test_flat_pictures_and_floats_are_the_same_pictures(make: Callable[[int], Any]) -> None:
    (x, y), *_ = picture_stream()
    flat = x.reshape(len(x), -1).astype(np.float32)
    assert same(small(make).partial_fit(x, y).state(), small(make).partial_fit(flat, y).state())


@every
def test_new_classes_only(make: Callable[[int], Any]) -> None:
    learner = small(make).partial_fit(*labelled([0, 1], 4))
    with pytest.raises(ValueError, match=r"label class 1 was learned before"):
        learner.partial_fit(*labelled([2, 1], 4))
    assert learner.classes.size == 2


@every
def test_its_state_is_what_it_keeps(make: Callable[[int], Any]) -> None:
    state = taught(make).state()
    network = [array for name, array in state.items() if name.startswith("network.")]
    assert {array.dtype for array in network} == {np.dtype(np.float32)}
    assert state["mean"].shape == (SIDE, SIDE, 3)
    assert state["classes"].tolist() == list(dict.fromkeys(state["classes"].tolist()))
    assert state["sizes"].tolist() == [2, 2, 2]
    if "exemplars" in state:
        assert state["exemplars"].dtype == np.uint8
        assert state["exemplars"].shape == (state["exemplar_counts"].sum(), SIDE, SIDE, 3)


@every
def test_asked_before_it_learned_it_says_so(make: Callable[[int], Any]) -> None:
    with pytest.raises(ValueError, match="nothing was learned yet"):
        make(0).predict(pictures_of(0, 1, 0))
    with pytest.raises(ValueError, match="nothing was learned yet"):
        make(0).state()


@every
def test_three_increments_of_easy_pictures_beat_chance(make: Callable[[int], Any]) -> None:
    learner = shorten(make(0), epochs=12, rate=0.1)
    if isinstance(learner, EEIL):
        shorten(learner, epochs=1)  # of twelve times as many views
    for x, y in picture_stream(count=16):
        learner.partial_fit(x, y)
    x, y = labelled(range(6), 10, seed=9)
    floor = {FineTuning: 0.3, LwFMC: 0.3, LwM: 0.3}.get(type(learner), 0.6)
    assert np.mean(learner.predict(x) == y) >= floor


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (np.zeros((2, 8, 8, 4)), ["a", "b"], r"got an array of shape \(2, 8, 8, 4\)"),
        (np.zeros((2, 100)), ["a", "b"], r"got an array of shape \(2, 100\)"),
        (np.zeros((0, 8, 8, 3)), [], "got an array of shape"),
        (np.full((1, 8, 8, 3), 256), ["a"], "from 0 to 255"),
        (np.full((1, 8, 8, 3), np.nan), ["a"], "from 0 to 255"),
        (np.zeros((2, 8, 8, 3)), ["a"], "2 pictures need as many labels"),
        (np.zeros((2, 4, 4, 3)), ["a", "b"], r"shape \(4, 4, 3\), but those learned before"),
    ],
)
def test_other_input_is_refused(x: Any, y: Any, words: str) -> None:
    learner = small(LEARNERS["ft"]).partial_fit(*labelled([0, 1], 4))
    with pytest.raises(ValueError, match=words):
        learner.partial_fit(x, y)


def test_labels_may_be_numbers() -> None:
    x = np.concatenate([pictures_of(label, 4, 0) for label in (0, 1)])
    learner = small(LEARNERS["icarl"]).partial_fit(x, np.repeat([7, 3], 4))
    assert {*learner.predict(x).tolist()} <= {7, 3}


def test_another_methods_checkpoint_is_refused(tmp_path: Path) -> None:
    small(LEARNERS["ft"]).partial_fit(*labelled([0, 1], 4)).save(tmp_path / "checkpoint")
    with pytest.raises(ValueError, match="is a checkpoint of FineTuning"):
        small(LEARNERS["bic"]).load(tmp_path / "checkpoint")


@every
def test_the_mean_picture_is_of_the_first_increment(make: Callable[[int], Any]) -> None:
    stream = picture_stream()
    learner = taught(make)
    seen = stream if isinstance(learner, Joint) else stream[:1]  # the joint one has all of them
    x = np.concatenate([pictures for pictures, _ in seen])
    np.testing.assert_allclose(learner.state()["mean"], x.mean(axis=0) / 255.0, rtol=1e-6)


def test_a_teacher_is_a_copy_in_evaluation_mode_without_gradients() -> None:
    network = small(LEARNERS["ft"]).partial_fit(*labelled([0, 1], 4)).network
    network.train()
    teacher = frozen(network)
    assert network.training
    assert not any(module.training for module in teacher.modules())
    assert not any(p.requires_grad or p.grad is not None for p in teacher.parameters())
    before = tensors(teacher)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(1.0)
        teacher(torch.zeros(2, 3, SIDE, SIDE))
    assert all(torch.equal(tensor, before[name]) for name, tensor in tensors(teacher).items())
