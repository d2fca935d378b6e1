"""Memories of the default head: views, copies, corrected pictures, negatives, and the upgrade."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from support.cells import CELLS, grids, see_cells
from support.memory_contents import known
from support.photos import NAMES, encoded, views
from support.statistics import bits

from cbcl import LabelError, MemoryFileError, Recognizer, load_backbone
from cbcl.heads.base import Settings
from cbcl.heads.discriminant import views as views_module
from cbcl.memory.check import check
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import MAX_VIEWS, MAX_WITNESSES, ClassStatistics
from cbcl.vision.decoding import Pixels

STORED = Path(__file__).parents[1] / "recognition" / "stored"
VECTORS = load_backbone(
    lambda vectors: [np.asarray(v, np.float32) for v in vectors], name="vectors"
)


POOL = grids(70)
DIRECTIONS = as_directions(np.stack(see_cells([Image.fromarray(one) for one in POOL])))


def made(path: Path, **options: Any) -> Recognizer:
    return Recognizer(path, CELLS, **options)


@pytest.fixture
def things(tmp_path: Path) -> Any:
    with made(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("cup", POOL[:5])
        recognizer.learn("key", POOL[5:10])
        yield recognizer


def statistics(recognizer: Recognizer, label: str) -> ClassStatistics:
    memory = recognizer._memory
    view = memory.view()
    kept: ClassStatistics = memory.records(view, [label])[label].known
    return kept


def find(rows: Any) -> list[int]:
    """Return which pictures of the pool these directions are of, though not to the last bit."""
    cosines = np.asarray(rows) @ DIRECTIONS.T
    assert (cosines.max(axis=1) > 0.99).all()
    return [int(number) for number in cosines.argmax(axis=1)]


def examples_of(recognizer: Recognizer, label: str | None) -> list[Any]:
    snapshot = recognizer.snapshot()
    return snapshot.examples(label) if label else snapshot.negatives()


def shown(recognizer: Recognizer, label: str) -> dict[int, int]:
    """Return which picture of the pool the thumbnail of each view shows, by the view's number."""
    examples = examples_of(recognizer, label)
    if not examples:
        return {}
    vectors = recognizer.embed([example.jpeg for example in examples])
    numbers = [example.place for example in examples]
    assert numbers == sorted({*numbers})
    return dict(zip(numbers, find(as_directions(vectors)), strict=True))


def assert_views_are(recognizer: Recognizer, label: str, pictures: Sequence[int]) -> None:
    """The views of a label are these pictures of the pool, in this order, as far as any are kept.

    Views, thumbnails and sketches each say so by themselves.
    """
    kept = statistics(recognizer, label)
    assert kept.n == len(pictures)
    first = kept.n - len(kept.views)
    if len(kept.views):
        assert find(kept.directions) == [*pictures[first:]]
    assert shown(recognizer, label) == dict(enumerate(pictures))
    assert len(kept.sketches) == len({*kept.sketches.tolist()}) == kept.n
    mean = DIRECTIONS[list(pictures)].mean(axis=0)
    np.testing.assert_allclose(kept.mean, mean, atol=0.02)


def test_a_picture_that_is_known_adds_nothing(things: Recognizer) -> None:
    before = known(things)
    result = things.learn("cup", [POOL[3], POOL[0]])
    assert (result.pictures, result.copies, result.totals) == ({"cup": 2}, {"cup": 2}, {"cup": 5})
    assert (result.moved, result.n_labels) == ({}, 2)
    assert known(things) == before
    result = things.learn("cup", [POOL[20], POOL[0], POOL[20]])
    assert (result.copies, result.totals) == ({"cup": 2}, {"cup": 6})
    assert_views_are(things, "cup", [0, 1, 2, 3, 4, 20])


def test_pictures_that_add_nothing_leave_no_step_and_push_none_out(things: Recognizer) -> None:
    before, revision = things.history(), things.snapshot().revision
    for _ in range(25):
        assert things.learn("cup", [POOL[3], POOL[0]]).copies == {"cup": 2}
    things.learn_many({"cup": [POOL[1]], "key": [POOL[6]]})
    assert (things.history(), things.snapshot().revision) == (before, revision)
    things.learn_many({"cup": [POOL[1]], "key": [POOL[6], POOL[20]]})
    assert things.snapshot().revision == revision + 1
    things.undo()
    assert things.undo().about == before[0].about


def test_nearly_the_same_photo_counts_once_and_changes_no_answer(tmp_path: Path) -> None:
    def burst(picture: Pixels) -> list[Any]:
        """As a camera held still gives them, or as they are sent on."""
        lighter = np.clip(picture * 1.03, 0, 255).astype(np.uint8)
        compressed = [encoded(picture, quality=quality) for quality in (90, 95)]
        return [*compressed, lighter, np.roll(picture, 2, axis=1)]

    with Recognizer(tmp_path / "a.cbcl") as one, Recognizer(tmp_path / "b.cbcl") as many:
        for name in NAMES[:3]:
            first, second = views(name, 2)
            one.learn(name, [first, second])
            many.learn(name, [first, second])
            result = many.learn(name, burst(first) + burst(second))
            assert (result.copies, result.totals) == ({name: 8}, {name: 2})
        assert known(many) == known(one)
        asked = [view for name in NAMES for view in views(name, 4, seed=1)]
        assert [answer[:5] for answer in many.recognize_many(asked)] == [
            answer[:5] for answer in one.recognize_many(asked)
        ]


def test_pictures_of_little_contrast_are_no_copies(tmp_path: Path) -> None:
    # All cosines are above 0.999. Rounding to eight bits makes the vectors shorter or longer by as
    # much as they differ.
    rng = np.random.default_rng(0)
    grey = (180 + rng.integers(-12, 13, (25, 8, 8, 1))).astype(np.uint8)
    with made(tmp_path / "grey.cbcl") as recognizer:
        result = recognizer.learn("grey", [*np.tile(grey.repeat(16, axis=1).repeat(16, axis=2), 3)])
        assert (result.copies, result.totals) == ({}, {"grey": 25})


def test_a_corrected_picture_moves(things: Recognizer) -> None:
    result = things.learn("key", [POOL[1], POOL[5], POOL[30]])
    assert (result.moved, result.copies) == ({"cup": 1}, {"key": 1})
    assert result.totals == {"key": 7}
    assert things.labels() == {"cup": 4, "key": 7}
    assert_views_are(things, "cup", [0, 2, 3, 4])
    assert_views_are(things, "key", [5, 6, 7, 8, 9, 1, 30])
    assert things.recognize(POOL[1]).label == "key"
    assert things.undo().action == "learn"
    assert_views_are(things, "cup", [0, 1, 2, 3, 4])


def test_a_label_that_loses_its_last_picture_is_forgotten(things: Recognizer) -> None:
    things.learn("pen", POOL[30:32])
    result = things.learn_many({"cup": POOL[30:32]})
    assert (result.moved, result.n_labels) == ({"pen": 2}, 2)
    assert [*things.labels()] == ["cup", "key"]
    with pytest.raises(LabelError, match="'pen' is not known"):
        things.snapshot().examples("pen")
    things.undo()
    assert things.labels() == {"cup": 5, "key": 5, "pen": 2}
    assert things.check() == []


@pytest.mark.parametrize(
    "batch",
    [
        {"pen": [30, 31], "owl": [30]},
        {"pen": [30], "owl": [30]},  # nothing is left of the pen
        {"cup": [5, 5], "key": [0, 5]},  # there and back
        {"pen": [0, 1], None: [0, 6], "cup": [6, 7]},
    ],
)
def test_several_labels_in_one_step_are_one_after_the_other(
    tmp_path: Path, batch: dict[str | None, list[int]]
) -> None:
    with made(tmp_path / "a.cbcl") as at_once, made(tmp_path / "b.cbcl") as in_turn:
        for recognizer in (at_once, in_turn):
            recognizer.learn("cup", POOL[:5])
            recognizer.learn("key", POOL[5:10])
        pictures = {label: [POOL[number] for number in some] for label, some in batch.items()}
        result = at_once.learn_many(pictures)
        each = [in_turn.learn(label, some) for label, some in pictures.items()]
        assert known(at_once) == known(in_turn)
        assert result.n_labels == len(at_once.labels())
        assert sum(result.moved.values()) == sum(sum(one.moved.values()) for one in each)
        assert {label: result.totals[label or ""] for label in batch} == {
            label: at_once.snapshot().n_negatives()
            if label is None
            else at_once.labels().get(label, 0)
            for label in batch
        }
        at_once.undo()
        assert at_once.labels() == {"cup": 5, "key": 5}


def test_what_is_none_of_these_is_unknown_and_changes_no_label(things: Recognizer) -> None:
    things.learn("pen", POOL[10:15])
    before = known(things)
    near = np.clip(POOL[40] * 0.9 + 10, 0, 255).astype(np.uint8)
    result = things.learn(None, POOL[40:43])
    assert (result.pictures, result.totals, result.n_labels) == ({"": 3}, {"": 3}, 3)
    after = known(things)
    assert {label: after[label] for label in before} == before
    assert things.labels() == {"cup": 5, "key": 5, "pen": 5}
    assert things.snapshot().n_negatives() == 3
    assert things.recognize(near).label is None
    for picture in (POOL[40], POOL[42]):
        answer = things.recognize(picture)
        assert answer.label is None
        assert answer.confidence > 0.9
    assert things.recognize(POOL[0]).label == "cup"
    assert_views_are(things, "", [40, 41, 42])
    assert things.history()[0].summary == "none of these (3)"
    assert [thing.label for thing in things.snapshot().things()] == ["cup", "key", "pen"]
    assert "" not in things.snapshot().examine().labels
    assert things.check() == []


def test_negatives_are_unlearned_undone_and_forgotten(things: Recognizer) -> None:
    before = known(things)
    things.learn(None, POOL[40:43])
    taught = known(things)
    first, *_ = things.snapshot().negatives()
    assert things.unlearn(first.number) == {"": 1}
    assert_views_are(things, "", [41, 42])
    things.forget(None)
    assert known(things) == before
    assert (things.snapshot().negatives(), things.snapshot().n_negatives()) == ([], 0)
    with pytest.raises(LabelError, match='nothing was taught as "none of these"'):
        things.forget(None)
    things.undo()
    things.undo()
    assert known(things) == taught
    for example in things.snapshot().negatives():
        things.unlearn(example.number)
    assert known(things) == before
    assert things.check() == []


def test_a_negative_may_turn_out_to_be_something_and_something_to_be_none(
    things: Recognizer,
) -> None:
    things.learn(None, [POOL[40]])
    assert things.learn("cup", [POOL[40]]).moved == {"": 1}
    assert things.snapshot().n_negatives() == 0
    assert things.recognize(POOL[40]).label == "cup"
    assert things.learn(None, [POOL[0]]).moved == {"cup": 1}
    assert things.recognize(POOL[0]).label is None
    assert_views_are(things, "cup", [1, 2, 3, 4, 40])


def test_negatives_alone_are_kept_but_answer_nothing(tmp_path: Path) -> None:
    with made(tmp_path / "none.cbcl") as recognizer:
        assert (recognizer.snapshot().negatives(), recognizer.snapshot().n_negatives()) == ([], 0)
        recognizer.learn(None, POOL[:2])
        assert (recognizer.labels(), recognizer.snapshot().n_negatives()) == ({}, 2)
        with pytest.raises(MemoryFileError, match="knows nothing"):
            recognizer.recognize(POOL[0])
        recognizer.learn("cup", POOL[2:5])
        assert recognizer.recognize(POOL[0]).label is None


def test_negatives_go_along_with_a_copy_an_export_and_another_memory(
    things: Recognizer, tmp_path: Path
) -> None:
    things.learn(None, POOL[40:43])
    things.save_copy(tmp_path / "copy.cbcl")
    things.export(tmp_path / "out")
    with made(tmp_path / "copy.cbcl") as copy, made(tmp_path / "new.cbcl") as new:
        assert known(copy) == known(things)
        new.import_(tmp_path / "out")
        for label in ("", *things.labels()):  # thumbnails are not exported
            assert bits(statistics(new, label)) == bits(statistics(things, label))
    with made(tmp_path / "other.cbcl") as other, made(tmp_path / "empty.cbcl") as empty:
        other.learn("pen", POOL[30:33])
        other.learn(None, [POOL[50], POOL[41]])
        assert other.adopt(things.path) == (["cup", "key"], [])
        assert_views_are(other, "", [50, 41, 40, 42])
        assert other.check() == []
        empty.adopt(things.path)
        assert known(empty) == known(things)
        empty.undo()
        assert empty.snapshot().n_negatives() == 0


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("learn"),
            st.sampled_from([None, "cup", "key"]),
            st.integers(0, 60),
            st.integers(1, 30),
        ),
        st.tuples(st.just("unlearn"), st.sampled_from(["", "cup", "key"]), st.integers(0, 60)),
        st.tuples(
            st.just("move"),
            st.sampled_from(["", "cup", "key"]),
            st.sampled_from([None, "cup", "key"]),
            st.integers(0, 60),
            st.integers(1, 9),
        ),
        st.tuples(st.just("merge"), st.sampled_from(["cup", "key"])),
        st.tuples(st.just("adopt"), st.sampled_from(["cup", "key"]), st.integers(0, 60)),
    ),
    min_size=3,
    max_size=7,
)


class Model:
    """The pictures of each label, in the order of its views."""

    def __init__(self) -> None:
        self.pictures: dict[str, list[int]] = {}

    def learn(self, label: str, numbers: Sequence[int]) -> None:
        for other, own in self.pictures.items():
            if other != label:
                own[:] = [number for number in own if number not in numbers]
        own = self.pictures.setdefault(label, [])
        own += [number for number in dict.fromkeys(numbers) if number not in own]
        self.pictures = {label: own for label, own in self.pictures.items() if own}


@given(steps=STEPS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_view_has_its_own_thumbnail_whatever_is_done(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    folder, model = tmp_path_factory.mktemp("views"), Model()
    states: list[dict[str, Any]] = []
    exact = True  # until what is only summarized is moved: then its thumbnail is seen
    with made(folder / "a.cbcl") as recognizer:
        for turn, (action, label, *about) in enumerate(steps):
            revision = recognizer.snapshot().revision
            own = model.pictures.get(label or "", [])
            if action == "learn":
                numbers = [number % len(POOL) for number in range(about[0], sum(about))]
                recognizer.learn(label, [POOL[number] for number in numbers])
                model.learn(label or "", numbers)
            elif action == "unlearn" and own:
                place = about[0] % len(own)
                examples = examples_of(recognizer, label)
                assert recognizer.unlearn(examples[place].number) == {label: 1}
                own.pop(place)
                model.learn(label, [])
            elif action == "move" and own and label != (about[0] or ""):
                places = [place % len(own) for place in range(about[1], about[1] + about[2])]
                examples = examples_of(recognizer, label)
                moved = {examples[place].number: own[place] for place in places}
                exact = exact and not _is_summarized(recognizer, label)
                assert recognizer.move(moved, about[0]).moved == {label: len(moved)}
                model.learn(about[0] or "", [moved[number] for number in sorted(moved)])
            elif action == "merge" and {"cup", "key"} <= {*model.pictures}:
                into = "key" if label == "cup" else "cup"
                views_of = [*model.pictures[into], *own]
                if _is_summarized(recognizer, label) and not _is_summarized(recognizer, into):
                    views_of = [*own, *model.pictures[into]]
                recognizer.merge(label, into)
                del model.pictures[label]
                model.pictures[into] = views_of
            elif action == "adopt" and not {about[0], about[0] + 1} & _others(model, label):
                with made(folder / f"{turn}.cbcl") as other:
                    other.learn(label, POOL[about[0] : about[0] + 2])
                    recognizer.adopt(other.path)
                model.learn(label, [about[0], about[0] + 1])
            else:
                continue
            if recognizer.snapshot().revision > revision:  # what adds nothing is no step
                states.append(known(recognizer))
            for each, pictures in model.pictures.items():
                assert_views_are(recognizer, each, pictures)
            assert recognizer.labels() == {
                each: len(own) for each, own in sorted(model.pictures.items()) if each
            }
        if (
            states
            and exact
            and not any(_is_summarized(recognizer, label) for label in model.pictures)
        ):
            with made(folder / "never.cbcl") as never:  # the rest was never shown
                for label, own in model.pictures.items():
                    never.learn(label or None, [POOL[number] for number in own])
                if model.pictures:
                    assert known(never) == known(recognizer)
        while len(states) > 1:
            recognizer.undo()
            states.pop()
            assert known(recognizer) == states[-1]
        assert not recognizer.path.exists() or check(recognizer.path) == []


def _is_summarized(recognizer: Recognizer, label: str) -> bool:
    return statistics(recognizer, label).summary is not None


def _others(model: Model, label: str) -> set[int]:
    return {number for other, own in model.pictures.items() if other != label for number in own}


def test_views_taken_out_of_a_summary_leave_the_mean_of_the_others(tmp_path: Path) -> None:
    with made(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("cup", POOL[:40])
        examples = recognizer.snapshot().examples("cup")
        for place in (3, 30, 0, 39):  # old ones, by their thumbnails, and new ones
            recognizer.unlearn(examples[place].number)
        rest = [number for number in range(40) if number not in (0, 3, 30, 39)]
        assert_views_are(recognizer, "cup", rest)
        mean = statistics(recognizer, "cup").mean
        off = np.linalg.norm(mean - DIRECTIONS[rest].mean(axis=0))
        assert off < 0.3 * np.linalg.norm(mean - DIRECTIONS[:40].mean(axis=0))


@pytest.mark.parametrize("label", ["cup", None])
def test_where_no_view_is_left_there_is_still_an_answer(tmp_path: Path, label: str | None) -> None:
    with made(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("key", POOL[60:63])
        recognizer.learn(label, POOL[: MAX_VIEWS + 1])
        for example in examples_of(recognizer, label)[-MAX_WITNESSES:]:
            recognizer.unlearn(example.number)
        left = MAX_VIEWS + 1 - MAX_WITNESSES
        assert_views_are(recognizer, label or "", range(left))
        assert len(statistics(recognizer, label or "").views) == 0
        assert recognizer.recognize(POOL[60]).label == "key"
        assert np.isfinite(recognizer.recognize(POOL[0]).strangeness)
        assert recognizer.snapshot().examine().asked == 3  # the keys
        assert all(0.0 <= pair.closeness <= 1.0 for pair in recognizer.snapshot().advise().alike)
        recognizer.learn(label, [POOL[50]])
        assert_views_are(recognizer, label or "", [*range(left), 50])
        if label is not None:
            recognizer.undo()
            recognizer.forget("key")
            problem = recognizer.snapshot().examine().problem
            assert problem is not None
            assert "all were taken back" in problem


def test_summaries_are_merged_and_their_views_keep_their_numbers(tmp_path: Path) -> None:
    with made(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("cup", POOL[:30])
        recognizer.learn("key", POOL[30:60])
        for example in recognizer.snapshot().examples("key")[-5:]:
            recognizer.unlearn(example.number)
        recognizer.merge("key", "cup")
        assert_views_are(recognizer, "cup", range(55))
        example = recognizer.snapshot().examples("cup")[54]
        recognizer.unlearn(example.number)
        assert_views_are(recognizer, "cup", range(54))
        assert recognizer.learn("pen", [POOL[40]]).moved == {"cup": 1}
        assert_views_are(recognizer, "cup", [*range(40), *range(41, 54)])


def test_of_very_many_views_the_latest_are_known_again_and_move(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).normal(size=(701, 64)).astype(np.float32)
    directions = as_directions(vectors)
    with Recognizer(tmp_path / "things.cbcl", "identity") as recognizer:
        recognizer.learn("cup", vectors[:100])
        recognizer.learn("key", vectors[100:])
        assert recognizer.learn("pen", vectors[700]).moved == {"key": 1}
        recognizer.merge("key", "cup")
        assert recognizer.labels() == {"cup": 700, "pen": 1}
        # 511 sketches are left of the key; one of the cup would have the number of another view.
        for number, moved in ((99, {}), (110, {}), (400, {"cup": 1}), (699, {"cup": 1})):
            assert recognizer.learn("pen", vectors[number]).moved == moved
        kept = statistics(recognizer, "cup")
        assert kept.n == 698
        np.testing.assert_allclose(
            kept.directions, directions[699 - len(kept.views) : 699], atol=0.01
        )
        rest = np.delete(directions[:700], [400, 699], axis=0)
        np.testing.assert_allclose(kept.mean, rest.mean(axis=0), atol=1e-3)
    assert check(tmp_path / "things.cbcl") == []


def test_merging_labels_that_share_pictures_counts_them_once(tmp_path: Path) -> None:
    with made(tmp_path / "a.cbcl") as one, made(tmp_path / "b.cbcl") as other:
        one.learn("cup", POOL[:6])
        other.learn("cup", [POOL[4], POOL[8], POOL[0], POOL[9]])
        assert one.adopt(other.path) == ([], ["cup"])
        assert_views_are(one, "cup", [0, 1, 2, 3, 4, 5, 8, 9])
        one.undo()
        other.rename("cup", "mug")
        one.adopt(other.path)  # now two labels have them
        one.merge("mug", "cup")
        assert_views_are(one, "cup", [0, 1, 2, 3, 4, 5, 8, 9])
        assert one.check() == []


def test_only_the_first_hundred_examples_and_the_latest_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views_module, "FIRST", 10)
    with made(tmp_path / "things.cbcl") as recognizer:
        recognizer.learn("cup", POOL[:33])
        latest = range(33 - len(statistics(recognizer, "cup").views), 33)
        assert shown(recognizer, "cup") == {number: number for number in [*range(10), *latest]}
        recognizer.learn("cup", POOL[33:35])
        latest = range(35 - len(statistics(recognizer, "cup").views), 35)
        assert shown(recognizer, "cup") == {number: number for number in [*range(10), *latest]}
        (thing,) = recognizer.snapshot().things()
        assert (thing.examples, thing.kept) == (35, 10 + len(latest))


def test_a_private_memory_learns_the_same_and_keeps_no_thumbnail(tmp_path: Path) -> None:
    with (
        made(tmp_path / "a.cbcl") as plain,
        made(tmp_path / "b.cbcl", private=True) as private,
    ):
        for recognizer in (plain, private):
            recognizer.learn("cup", POOL[:5])
            recognizer.learn("key", POOL[4:10])
            recognizer.learn(None, POOL[20:22])
        assert (private.snapshot().examples("key"), private.snapshot().negatives()) == ([], [])
        for label in ("", "cup", "key"):
            assert bits(statistics(private, label)) == bits(statistics(plain, label))
        answer, same = private.recognize(POOL[12]), plain.recognize(POOL[12])
        assert answer.ranking == same.ranking
        assert all(reason.examples == () for reason in answer.evidence)
        examined = private.snapshot().examine()
        np.testing.assert_array_equal(examined.matrix, plain.snapshot().examine().matrix)
        assert {missed.example for missed in examined.wrong} <= {0}


def test_a_memory_of_which_all_is_undone_keeps_its_head(tmp_path: Path) -> None:
    for head in ("discriminant", "vote"):
        with made(tmp_path / f"{head}.cbcl", head=head) as recognizer:
            recognizer.learn("cup", POOL[:3])
            recognizer.undo()
            assert recognizer.snapshot().settings == Settings(head=head)
        with made(tmp_path / f"{head}.cbcl") as recognizer:
            recognizer.learn("cup", POOL[:3])
            assert recognizer.snapshot().settings.head == head


def test_a_memory_cannot_go_on_by_another_head(tmp_path: Path) -> None:
    heads: tuple[tuple[Any, Any], ...] = (("discriminant", "vote"), ("vote", "discriminant"))
    for head, other in heads:
        with made(tmp_path / f"{head}.cbcl", head=head) as recognizer:
            recognizer.learn("cup", POOL[:3])
            before = known(recognizer)
        with made(tmp_path / f"{head}.cbcl", head=other) as recognizer:
            with pytest.raises(
                MemoryFileError, match=f"learns by the {head}, and cannot go on by the {other}"
            ):
                recognizer.learn("key", POOL[3:5])
            with pytest.raises(MemoryFileError, match="begin a new one, or leave that option out"):
                recognizer.learn("cup", POOL[3:5])
            assert known(recognizer) == before
            assert recognizer.recognize(POOL[0]).label == "cup"
    with (
        made(tmp_path / "vote.cbcl") as recognizer,
        pytest.raises(
            MemoryFileError, match="learns by the discriminant, but this one by the vote"
        ),
    ):
        recognizer.adopt(tmp_path / "discriminant.cbcl")


def test_options_of_the_vote_ask_for_the_vote(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^radius: only with head='vote'"):
        made(tmp_path / "a.cbcl", head="discriminant", radius=1.0)
    with pytest.raises(ValueError, match="'knn' is none of 'vote', 'discriminant'"):
        made(tmp_path / "a.cbcl", head="knn")
    with made(tmp_path / "a.cbcl", n_voters=3) as recognizer:
        recognizer.learn("cup", POOL[:3])
        assert recognizer.snapshot().settings == Settings(np.inf, 3, None, "vote")
        with pytest.raises(LabelError, match='by the vote, which cannot learn "none of these"'):
            recognizer.learn(None, POOL[5:6])
    with made(tmp_path / "b.cbcl") as recognizer:
        recognizer.learn("cup", POOL[:3])
        with pytest.raises(MemoryFileError, match=r"no radius and no number of voters\.$"):
            recognizer.tune({"cup": POOL[:3], "key": POOL[3:6]})
        with pytest.raises(MemoryFileError, match="needs no upgrade"):
            recognizer.upgrade()


def test_an_upgraded_memory_is_one_that_always_learned_by_the_discriminant(tmp_path: Path) -> None:
    for name, head in (("a", "vote"), ("b", "discriminant")):
        with made(tmp_path / f"{name}.cbcl", head=head) as recognizer:
            recognizer.learn("cup", [*POOL[:5], POOL[0]])
            recognizer.learn("key", POOL[5:40])
    with made(tmp_path / "a.cbcl") as old, made(tmp_path / "b.cbcl") as new:
        before, answers = known(old), old.recognize_many(POOL[:45])
        numbers = {
            label: [one.number for one in old.snapshot().examples(label)] for label in before
        }
        assert old.upgrade() == ["cup", "key"]
        assert old.snapshot().settings == new.snapshot().settings == Settings(head="discriminant")
        for label in ("cup", "key"):
            assert bits(statistics(old, label)) == bits(statistics(new, label))
            assert {one.number for one in old.snapshot().examples(label)} <= {*numbers[label]}
        assert_views_are(old, "cup", range(5))  # the copy is gone
        assert_views_are(old, "key", range(5, 40))
        assert [answer[:3] for answer in old.recognize_many(POOL[:45])] == [
            answer[:3] for answer in new.recognize_many(POOL[:45])
        ]
        assert old.recognize(POOL[2]).label == "cup"
        old.learn(None, [POOL[50]])
        assert old.check() == []
        assert [old.undo().action, old.undo().action] == ["learn", "upgrade"]
        assert known(old) == before
        assert old.recognize_many(POOL[:45]) == answers


@pytest.mark.parametrize("name", ["plain", "voters", "budget"])
def test_a_memory_that_keeps_not_all_its_vectors_stays_as_it_is(tmp_path: Path, name: str) -> None:
    path = tmp_path / "old.cbcl"
    shutil.copy(STORED / f"{name}.cbcl", path)
    with Recognizer(path, VECTORS) as recognizer:
        before, revision = known(recognizer), recognizer.snapshot().revision
        with pytest.raises(MemoryFileError, match=r"only some photos of .*'thing 0'"):
            recognizer.upgrade()
        assert (known(recognizer), recognizer.snapshot().revision) == (before, revision)
        assert recognizer.snapshot().settings.head == "vote"
