"""Streams: the order of classes, the rows learned and tested, and that only the seed decides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cbcl.method.arrays import Int64s
from cbcl_study.streams import Protocol, Stream, stream

Labels = NDArray[Any]

COUNTS = {
    "ape": 30,
    "bee": 10,
    "cat": 25,
    "dog": 11,
    "elk": 50,
    "fox": 13,
    "gnu": 20,
    "hen": 17,
    "ibis": 12,
}


def labels(seed: int = 0) -> Labels:
    """The classes of a data set, mixed."""
    return np.random.default_rng(seed).permutation(np.repeat([*COUNTS], [*COUNTS.values()]))


def own_split(given: Labels, seed: int = 0) -> NDArray[np.bool_]:
    """A third of each class is for testing."""
    rng = np.random.default_rng(seed)
    test = np.zeros(len(given), dtype=bool)
    for label in COUNTS:
        rows = np.flatnonzero(given == label)
        test[rng.choice(rows, len(rows) // 3, replace=False)] = True
    return test


def by_class(found: Stream, part: tuple[Int64s, ...]) -> dict[str, list[int]]:
    return {label: rows.tolist() for label, rows in zip(found.classes, part, strict=True)}


def learned(found: Stream) -> dict[str, list[int]]:
    return by_class(found, found.learned)


def all_learned(found: Stream) -> list[list[int]]:
    return [rows.tolist() for rows in found.learned]


def asked(found: Stream) -> dict[str, list[int]]:
    return by_class(found, found.tested)


PROTOCOLS = st.builds(
    Protocol,
    increment=st.integers(1, 11),
    base=st.none() | st.integers(1, 11),
    shots=st.none() | st.integers(1, 40),
    classes=st.integers(1, 12),
    whole_base=st.booleans(),
    usual_order=st.booleans(),
).filter(lambda protocol: protocol.shots is not None or not protocol.whole_base)


@given(protocol=PROTOCOLS, seed=st.integers(0, 1000), split=st.booleans())
@settings(max_examples=100, deadline=None)
def test_no_row_is_learned_twice_or_both_learned_and_tested_and_each_belongs_to_its_class(
    protocol: Protocol, seed: int, split: bool
) -> None:
    given_labels = labels()
    found = stream(given_labels, own_split(given_labels) if split else None, protocol, seed)
    rows = np.concatenate([*found.learned, *found.tested])
    assert len(np.unique(rows)) == len(rows)
    for label, to_learn, to_test in zip(found.classes, found.learned, found.tested, strict=True):
        assert {*given_labels[to_learn], *given_labels[to_test]} == {label}


@given(protocol=PROTOCOLS, seed=st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_increments_are_as_large_as_asked_the_last_may_be_smaller_and_none_is_left_out(
    protocol: Protocol, seed: int
) -> None:
    given_labels = labels()
    found = stream(given_labels, None, protocol, seed)
    assert (
        len({*found.classes})
        == len(found.classes)
        == min(len(COUNTS), protocol.classes)
        == sum(found.sizes)
    )
    first, *rest = found.sizes
    assert first == min(protocol.base or protocol.increment, len(found.classes))
    assert all(size == protocol.increment for size in rest[:-1])
    assert all(1 <= size <= protocol.increment for size in rest)
    before = 0
    for known, rows in found.increments():
        assert {*given_labels[rows]} == {*found.classes[before:known]}
        np.testing.assert_array_equal(rows, np.concatenate(found.learned[before:known]))
        before = known
    assert before == len(found.classes)


@pytest.mark.parametrize(
    ("protocol", "sizes"),
    [
        (Protocol(increment=1, base=2), (2, 1, 1, 1, 1, 1, 1, 1)),
        (Protocol(increment=2), (2, 2, 2, 2, 1)),
        (Protocol(increment=3), (3, 3, 3)),
        (Protocol(increment=4, base=3), (3, 4, 2)),
        (Protocol(increment=2, classes=5), (2, 2, 1)),
        (Protocol(increment=2, base=50), (9,)),
        (Protocol(), (9,)),
    ],
)
def test_the_last_increment_has_what_is_left(protocol: Protocol, sizes: tuple[int, ...]) -> None:
    assert stream(labels(), None, protocol, 0).sizes == sizes


@pytest.mark.parametrize("split", [False, True])
def test_five_shots_are_among_the_ten_and_those_among_all(split: bool) -> None:
    test = own_split(labels()) if split else None
    for seed in range(5):
        five, ten, everything = (
            learned(stream(labels(), test, Protocol(shots=shots), seed)) for shots in (5, 10, None)
        )
        for label, rows in everything.items():
            assert five[label] == ten[label][:5]
            assert ten[label] == rows[:10]
            assert len(five[label]) == 5


def test_the_usual_order_is_that_of_papers_whatever_the_seed() -> None:
    named = np.repeat([f"{number:02d}" for number in range(100)], 4)
    usual, other = (
        [stream(named, None, Protocol(usual_order=flag, shots=1), seed) for seed in (0, 1)]
        for flag in (True, False)
    )
    assert usual[0].classes == usual[1].classes != other[0].classes
    # As printed in public code that has numpy shuffle a hundred numbers with seed 1993.
    first = ("68", "56", "78", "08", "23", "84", "90", "65", "74", "76")
    assert usual[0].classes[:10] == first
    assert all_learned(usual[0]) != all_learned(usual[1])  # the shots are the seed's


@given(protocol=PROTOCOLS, shots=st.integers(1, 40), seed=st.integers(0, 1000), split=st.booleans())
@settings(max_examples=100, deadline=None)
def test_with_a_whole_base_only_the_first_increment_learns_from_more(
    protocol: Protocol, shots: int, seed: int, split: bool
) -> None:
    test = own_split(labels()) if split else None
    few, base, everything = (
        stream(labels(), test, protocol._replace(shots=count, whole_base=whole), seed)
        for count, whole in ((shots, False), (shots, True), (None, False))
    )
    assert base.classes == few.classes
    assert base.sizes == few.sizes
    assert asked(base) == asked(few)
    first = base.sizes[0]
    assert all_learned(base)[:first] == all_learned(everything)[:first]
    assert all_learned(base)[first:] == all_learned(few)[first:]


@pytest.mark.parametrize("shots", [None, 5])
def test_what_is_learned_and_tested_of_a_class_does_not_depend_on_how_the_classes_come(
    shots: int | None,
) -> None:
    want = stream(labels(), None, Protocol(shots=shots), 3)
    for protocol in (Protocol(2), Protocol(1, base=2), Protocol(5), Protocol(3, classes=4)):
        found = stream(labels(), None, protocol._replace(shots=shots), 3)
        assert learned(found).items() <= learned(want).items()
        assert asked(found).items() <= asked(want).items()


def test_the_order_of_the_classes_is_the_same_for_any_shots_increment_and_split() -> None:
    want = stream(labels(), None, Protocol(), 3).classes
    assert {*want} == {*COUNTS}
    for protocol in (Protocol(2), Protocol(1, base=2), Protocol(shots=5), Protocol(20, shots=1)):
        assert stream(labels(), None, protocol, 3).classes == want
        assert stream(labels(), own_split(labels()), protocol, 3).classes == want
    assert stream(labels(), None, Protocol(classes=4), 3).classes == want[:4]


def test_the_test_rows_are_the_same_for_any_number_of_shots() -> None:
    want = asked(stream(labels(), None, Protocol(), 3))
    for shots in (1, 5, 10, 1000):
        assert asked(stream(labels(), None, Protocol(shots=shots), 3)) == want


def test_four_fifths_of_each_class_are_learned_where_there_is_no_split() -> None:
    found = stream(labels(), None, Protocol(), 0)
    for label, rows in learned(found).items():
        assert len(rows) == round(0.8 * COUNTS[label])
        assert len(rows) + len(asked(found)[label]) == COUNTS[label]
    few = stream(np.array(["one", *["two"] * 2, *["three"] * 3]), None, Protocol(), 0)
    assert {label: len(rows) for label, rows in learned(few).items()}["one"] == 1
    assert {label: len(rows) for label, rows in learned(few).items()}["three"] == 2


def test_a_split_of_its_own_is_kept_to() -> None:
    given_labels, test = labels(), own_split(labels())
    for seed in range(5):
        found = stream(given_labels, test, Protocol(), seed)
        for label in COUNTS:
            assert asked(found)[label] == np.flatnonzero((given_labels == label) & test).tolist()
            assert (
                sorted(learned(found)[label])
                == np.flatnonzero((given_labels == label) & ~test).tolist()
            )
        assert not test[
            np.concatenate(stream(given_labels, test, Protocol(shots=5), seed).learned)
        ].any()


def test_fewer_vectors_than_shots_are_all_learned() -> None:
    found = stream(labels(), None, Protocol(shots=20), 0)
    assert {label: len(rows) for label, rows in learned(found).items()} == {
        label: min(20, round(0.8 * count)) for label, count in COUNTS.items()
    }


def test_the_same_seed_is_the_same_stream() -> None:
    for seed in (0, 1, 99):
        first, again = (stream(labels(), None, Protocol(2, shots=5), seed) for _ in range(2))
        assert first.classes == again.classes
        assert learned(first) == learned(again)
        assert asked(first) == asked(again)


def test_the_seed_reaches_the_order() -> None:
    assert len({stream(labels(), None, Protocol(), seed).classes for seed in range(20)}) == 20


def test_the_seed_reaches_the_split() -> None:
    for label in COUNTS:
        splits = {
            tuple(sorted(asked(stream(labels(), None, Protocol(), seed))[label]))
            for seed in range(10)
        }
        assert len(splits) > 5, label


def test_the_seed_reaches_the_shots_also_where_the_split_is_given() -> None:
    test = own_split(labels())
    for label in COUNTS:
        shots = {
            tuple(sorted(learned(stream(labels(), test, Protocol(shots=3), seed))[label]))
            for seed in range(10)
        }
        assert len(shots) > 5, label


def test_every_class_comes_first_and_every_row_is_a_shot_about_equally_often() -> None:
    few = np.repeat(["ape", "bee", "cat", "dog"], 10)
    found = [stream(few, None, Protocol(shots=4), seed) for seed in range(600)]
    for place in (0, 3):
        firsts = np.unique([one.classes[place] for one in found], return_counts=True)[1]
        assert firsts.sum() == 600
        assert firsts.min() > 105  # 150 are expected, and 10.6 is the standard deviation
        assert firsts.max() < 195
    shown = np.bincount(
        np.concatenate([rows for one in found for rows in one.learned]), minlength=40
    )
    tested = np.bincount(
        np.concatenate([rows for one in found for rows in one.tested]), minlength=40
    )
    assert shown.min() > 180  # 240 and 12
    assert shown.max() < 300
    assert tested.min() > 70  # 120 and 10
    assert tested.max() < 170


def test_neither_the_global_generator_nor_the_arrays_given_are_touched() -> None:
    given_labels, test = labels(), own_split(labels())
    before = np.random.get_state(legacy=False)  # noqa: NPY002 (that is what is watched)
    given_labels.setflags(write=False)
    test.setflags(write=False)
    stream(given_labels, test, Protocol(), 0)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert str(before) == str(after)


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (Protocol(increment=0), "increment=0 must be at least 1"),
        (Protocol(increment=-2), "increment=-2 must be at least 1"),
        (Protocol(base=0), "base=0 must be at least 1"),
        (Protocol(shots=0), "shots=0 must be at least 1"),
        (Protocol(classes=0), "classes=0 must be at least 1"),
        (Protocol(whole_base=True), "whole_base needs shots"),
    ],
)
def test_what_is_no_protocol_is_refused(protocol: Protocol, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stream(labels(), None, protocol, 0)


@pytest.mark.parametrize(("count", "learned_from"), [(1, 1), (2, 1), (3, 2), (10, 8)])
def test_of_two_pictures_one_is_to_test_on_and_of_one_none(count: int, learned_from: int) -> None:
    given_labels = np.repeat(["few", "many"], [count, 20])
    for seed in range(5):
        found = stream(given_labels, None, Protocol(), seed)
        assert len(learned(found)["few"]) == learned_from
        assert len(asked(found)["few"]) == count - learned_from
        assert len(asked(found)["many"]) == 4


@pytest.mark.parametrize("split", [False, True])
def test_where_there_is_nothing_to_test_on_that_is_told(split: bool) -> None:
    given_labels = np.array(["ape", "bee", "cat"])
    test = np.zeros(3, dtype=bool) if split else None
    with pytest.raises(
        ValueError, match="there is nothing to test on: a class needs two pictures, at least"
    ):
        stream(given_labels, test, Protocol(), 0)


def test_a_class_that_can_only_be_tested_is_refused() -> None:
    test = own_split(labels()) | (labels() == "gnu")
    with pytest.raises(
        ValueError, match="there is nothing to learn 'gnu' from: all its pictures are for testing"
    ):
        stream(labels(), test, Protocol(), 0)
