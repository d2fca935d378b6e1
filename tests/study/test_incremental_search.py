"""The watch: whatever is learned, learned again, merged or forgotten, its answers are those of the knowledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Int64s, Matrix
from cbcl.method.knowledge import Knowledge, Options, VoteFunction, learn
from cbcl.method.voting import block_votes
from cbcl.study import incremental_search
from cbcl.study.incremental_search import Directions, IncrementalSearch

Labels = NDArray[Any]


class Source:
    """Vectors of classes that overlap, or on a lattice, where nearly all distances occur more than once."""

    def __init__(self, seed: int, d: int, classes: int, *, lattice: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.lattice = lattice
        self.means = self.rng.normal(size=(classes, d)) * (1.0 if d < 100 else 0.3)
        self.names = np.array(
            [f"{self.rng.integers(10**6):06d} {number}" for number in range(classes)]
        )

    def some(self, numbers: Any, count: int) -> tuple[Float32s, Labels]:
        rows = self.rng.permutation(np.repeat(numbers, count))
        vectors = self.means[rows] + self.rng.normal(size=(len(rows), self.means.shape[1]))
        return (np.round(vectors) if self.lattice else vectors).astype(np.float32), self.names[rows]


def agree(
    watched: IncrementalSearch, knowledge: Knowledge, vectors: Float32s, q: int | None = None
) -> None:
    q = len(vectors) if q is None else q
    want: Sequence[int] | Int64s = knowledge.winners(vectors[:q]) if q else ()
    np.testing.assert_array_equal(watched.winners(knowledge, q), want)


@pytest.mark.parametrize("limit", [None, 60])
@pytest.mark.parametrize("n", [1, 3, 10])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_the_knowledge_as_classes_come(
    seed: int, n: int, limit: int | None
) -> None:
    """With a limit, every increment changes every class."""
    source = Source(seed, 8, 12)
    vectors, _ = source.some(np.arange(12), 20)
    watched, known = IncrementalSearch(vectors), None
    for start in range(0, 12, 3):
        options = Options(radius=1.5, n_voters=n, max_centroids=limit, seed=seed)
        known = learn(known, *source.some(np.arange(start, start + 3), 30), options)
        agree(watched, known, vectors, 60 + 20 * start)
    assert known is not None
    assert len(known.index.owners) > 24


@pytest.fixture(scope="module")
def wide() -> tuple[Source, Float32s, Directions]:
    source = Source(0, 800, 40)
    vectors, _ = source.some(np.arange(40), 18)
    with one_thread():  # others may be busy
        return source, vectors, Directions(vectors)


@pytest.mark.parametrize("limit", [None, 150])
@pytest.mark.parametrize("n", [1, 3, 10])
def test_answers_are_those_of_the_knowledge_where_directions_rule_centroids_out(
    n: int, limit: int | None, wide: tuple[Source, Float32s, Directions]
) -> None:
    source, vectors, directions = wide
    assert directions.basis is not None
    assert directions.basis.shape == (800, incremental_search.DIRECTIONS)
    watched, known = IncrementalSearch(vectors, directions), None
    for start in range(0, 40, 20):
        known = learn(
            known,
            *source.some(np.arange(start, start + 20), 8),
            Options(radius=25.0, n_voters=n, max_centroids=limit),
        )
        agree(watched, known, vectors, 360 + 18 * start)


def test_few_features_need_no_directions() -> None:
    assert Directions(np.ones((3, 8), dtype=np.float32)).basis is None


def test_a_view_never_makes_vectors_more_distant_than_they_are(
    wide: tuple[Source, Float32s, Directions],
) -> None:
    source, vectors, directions = wide
    others, _ = source.some(np.arange(40), 1)
    others = np.concatenate([others, vectors[:20] + np.float32(0.01), 100.0 * others])
    one, other = directions.view(vectors), directions.view(others)
    for number in range(len(others)):
        true = np.sum((vectors.astype(np.float64) - others[number]) ** 2, axis=1)
        along = np.sum((one.along.astype(np.float64) - other.along[number]) ** 2, axis=1)
        least = along + (one.rest.astype(np.float64) - other.rest[number]) ** 2
        lengths = one.squares + other.squares[number]
        assert (least <= true + incremental_search.SLACK * lengths).all()


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    seed=st.integers(0, 10**6),
    d=st.sampled_from([1, 2, 8, 12]),
    lattice=st.booleans(),
)
def test_whatever_happens_answers_are_those_of_the_knowledge(
    data: st.DataObject, seed: int, d: int, lattice: bool
) -> None:
    """Learning, learning again, forgetting, another number of voters; with many ties; with more and fewer vectors."""
    source = Source(seed, d, 8, lattice=lattice)
    vectors, _ = source.some(np.arange(8), 8)
    radius = data.draw(st.sampled_from([0.0, 1.0, 2.0, np.inf]))
    limit = data.draw(st.sampled_from([None, None, 9, 20]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            incremental_search, "DIRECTIONS", data.draw(st.sampled_from([384, 1, 4]))
        )  # so that 2 and 8 are many
        patch.setattr(incremental_search, "ROWS", data.draw(st.sampled_from([512, 7])))
        watched = IncrementalSearch(vectors)
        known: Knowledge | None = None
        for _ in range(data.draw(st.integers(1, 6))):
            what = data.draw(st.sampled_from(["learn", "learn", "learn", "forget", "voters"]))
            if known is None or what == "learn":
                numbers = data.draw(st.sets(st.integers(0, 7), min_size=1, max_size=3))
                options = Options(
                    radius=radius, n_voters=known.n_voters if known else 1, max_centroids=limit
                )
                known = learn(
                    known, *source.some(sorted(numbers), data.draw(st.integers(1, 9))), options
                )
            elif what == "forget":
                known = known.without(data.draw(st.sampled_from([*known.concepts]))) or known
            else:
                known = replace(known, n_voters=data.draw(st.sampled_from([1, 2, 3, 10])))
            agree(watched, known, vectors, data.draw(st.integers(0, len(vectors))))
        assert known is not None
        agree(watched, known, vectors)


@pytest.mark.parametrize("n", [1, 3, 10])
def test_a_class_that_is_learned_again_is_looked_at_again(n: int) -> None:
    source = Source(4, 8, 5)
    vectors, _ = source.some(np.arange(5), 30)
    options = Options(radius=1.5, n_voters=n)
    known = learn(None, *source.some(np.arange(5), 5), options)
    watched = IncrementalSearch(vectors)
    agree(watched, known, vectors)
    before = known.winners(vectors)
    known = learn(known, *source.some([2], 60), options)
    agree(watched, known, vectors)
    assert (known.winners(vectors) != before).any()


@pytest.mark.parametrize("n", [1, 3, 10])
def test_a_class_that_was_forgotten_has_no_vote_and_can_come_back(n: int) -> None:
    source = Source(5, 8, 5)
    vectors, _ = source.some(np.arange(5), 30)
    all_of_it = learn(None, *source.some(np.arange(5), 9), Options(radius=1.0, n_voters=n))
    watched = IncrementalSearch(vectors)
    agree(watched, all_of_it, vectors)
    for label in source.names:
        less = all_of_it.without(label)
        assert less is not None
        agree(watched, less, vectors)
        assert label not in less.classes[watched.winners(less, len(vectors))]
        agree(watched, all_of_it, vectors)


@pytest.mark.parametrize("d", [4, 800])
def test_vectors_that_are_centroids_and_twins_of_two_classes_are_answered_as_the_method_does(
    d: int,
) -> None:
    rng = np.random.default_rng(d)
    spots = rng.normal(size=(12, d)).astype(np.float32)
    learned = np.concatenate([spots[:8], spots[:4], spots[:4], spots[8:]])
    names = np.array([*["pen"] * 8, *["cup"] * 4, *["key"] * 4, *["owl"] * 4])
    vectors = np.concatenate(
        [spots, spots, (spots[:-1] + spots[1:]) / 2, rng.normal(size=(9, d))]
    ).astype(np.float32)
    with one_thread():
        watched = IncrementalSearch(vectors)
    for n in (1, 3, 10):
        options = Options(radius=0.0, n_voters=n)
        known = learn(None, learned, names, options)
        agree(watched, known, vectors)
        for label in ("pen", "cup"):
            agree(watched, learn(known, spots[:2], np.array([label] * 2), options), vectors)


def test_one_class_is_the_answer_to_everything() -> None:
    source = Source(6, 8, 2)
    vectors, _ = source.some([0, 1], 10)
    assert (
        not IncrementalSearch(vectors)
        .winners(learn(None, *source.some([1], 3), Options(radius=0.0, n_voters=3)), 20)
        .any()
    )


def test_more_vectors_than_a_block_holds_are_answered() -> None:
    source = Source(7, 8, 6)
    vectors, _ = source.some(np.arange(6), 200)
    assert len(vectors) > 2 * incremental_search.ROWS
    watched, known = IncrementalSearch(vectors), None
    for number in range(6):
        known = learn(known, *source.some([number], 20), Options(radius=1.0, n_voters=3))
        agree(watched, known, vectors, 200 * (number + 1))


class Silent(Knowledge):
    """Knowledge that is not to be asked."""

    def winners(self, matrix: Matrix, vote: VoteFunction = block_votes) -> Int64s:
        raise AssertionError(f"asked about {len(matrix)} vectors")


@pytest.mark.parametrize("n", [1, 3, 10])
def test_the_method_is_only_asked_where_votes_are_close(n: int) -> None:
    source = Source(8, 8, 6)
    vectors, _ = source.some(np.arange(6), 30)
    known = learn(None, *source.some(np.arange(6), 30), Options(radius=1.0, n_voters=n))
    silent = Silent(known.concepts, known.radius, known.n_voters)
    np.testing.assert_array_equal(
        IncrementalSearch(vectors).winners(silent, len(vectors)), known.winners(vectors)
    )
    alike = Silent(dict.fromkeys(("cup", "key"), known.concepts[source.names[0]]), 1.0, n)
    with pytest.raises(AssertionError, match="asked about"):
        IncrementalSearch(vectors).winners(alike, len(vectors))


def test_only_what_is_new_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs: list[int] = []
    nearest = incremental_search._nearest

    def counted(block: Float32s, view: Any, centroids: Float32s, seen: Any, n: int) -> Any:
        pairs.append(len(block) * len(centroids))
        return nearest(block, view, centroids, seen, n)

    monkeypatch.setattr(incremental_search, "_nearest", counted)
    source = Source(9, 8, 4)
    vectors, _ = source.some(np.arange(4), 25)
    watched = IncrementalSearch(vectors)
    options = Options(radius=0.0, n_voters=2)
    first = learn(None, *source.some([0, 1], 10), options)
    agree(watched, first, vectors, 50)
    second = learn(first, *source.some([2, 3], 5), options)
    agree(watched, second, vectors, 100)
    assert pairs == [50 * 20, 50 * 10, 50 * 30]
    agree(watched, second, vectors, 100)
    assert len(pairs) == 3
    agree(watched, learn(second, *source.some([0], 1), options), vectors, 100)
    assert pairs[3:] == [100 * 31]


def test_what_is_watched_is_not_changed() -> None:
    source = Source(10, 8, 3)
    vectors, _ = source.some(np.arange(3), 10)
    copy = vectors.copy()
    vectors.setflags(write=False)
    known = learn(None, *source.some(np.arange(3), 10), Options(radius=1.0, n_voters=3))
    before = {label: concepts.centroids.copy() for label, concepts in known.concepts.items()}
    IncrementalSearch(vectors).winners(known, 30)
    np.testing.assert_array_equal(vectors, copy)
    for label, concepts in known.concepts.items():
        np.testing.assert_array_equal(concepts.centroids, before[label])
