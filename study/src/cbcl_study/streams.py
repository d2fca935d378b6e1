"""Streams: classes in a random order, a few at a time, each with rows to learn and to test.

n vectors, t classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Int64s

TRAINING_SHARE = 0.8  # of each class, where a data set has no split of its own

USUAL_SEED = 1993  # of the one order in which many papers on class-incremental learning report

# Each kind of draw has its own generator: the order of the classes, say, is the same for any shots.
SPLIT, ORDER, SHOTS = range(3)


class Protocol(NamedTuple):
    """The number of classes at a time, and of vectors of each."""

    increment: int = 10  # classes at a time
    base: int | None = None  # classes of the first increment, where it differs
    shots: int | None = None  # vectors of each class to learn from; None: all
    classes: int = 100  # at most so many take part, drawn at random
    whole_base: bool = False  # the first increment learns from all vectors, the others from shots
    usual_order: bool = False  # of the classes: the one of many papers, whatever the seed


class Stream(NamedTuple):
    """Classes in the order in which they are learned, with the rows of each."""

    classes: tuple[str, ...]
    sizes: tuple[int, ...]  # of the increments, in classes
    learned: tuple[Int64s, ...]  # rows to learn from, class by class
    tested: tuple[Int64s, ...]  # rows to test on, class by class

    def increments(self) -> Iterator[tuple[int, Int64s]]:
        """Yield the number of classes known after each increment, and its new rows."""
        known = 0
        for size in self.sizes:
            rows = np.concatenate(self.learned[known : known + size])
            known += size
            yield known, rows


def stream(
    labels: NDArray[Any], test: NDArray[np.bool_] | None, protocol: Protocol, seed: int
) -> Stream:
    """Return a stream of the classes of a data set.

    Without a split of its own, four fifths of each class are learned. The rows of a class come in a
    random order, and the first of them are the shots: five are among the ten.

    >>> labels = np.repeat(["cup", "key", "pen", "toy"], 10)
    >>> four = stream(labels, None, Protocol(increment=2, shots=3), seed=0)
    >>> four.classes, four.sizes
    (('toy', 'cup', 'pen', 'key'), (2, 2))
    >>> [len(rows) for rows in four.learned], [len(rows) for rows in four.tested]
    ([3, 3, 3, 3], [2, 2, 2, 2])
    """
    _check(protocol)
    all_labels = np.unique(labels)
    split, shots = _generator(seed, SPLIT), _generator(seed, SHOTS)
    learned, tested = {}, {}
    for label in all_labels.tolist():
        rows = np.flatnonzero(labels == label)
        if test is None:
            rows = split.permutation(rows)
            # One to test on, where there are two.
            cut = max(1, min(round(TRAINING_SHARE * len(rows)), len(rows) - 1))
            of_class, tested[label] = rows[:cut], np.sort(rows[cut:])
        else:
            of_class, tested[label] = rows[~test[rows]], rows[test[rows]]
        learned[label] = shots.permutation(np.sort(of_class))
    empty = [label for label, rows in learned.items() if not len(rows)]
    if empty:
        raise ValueError(
            f"there is nothing to learn {empty[0]!r} from: all its pictures are for testing."
        )
    order = _order(all_labels, protocol, seed)
    if not any(len(tested[label]) for label in order):
        raise ValueError("there is nothing to test on: a class needs two pictures, at least.")
    sizes = _sizes(len(order), protocol)
    whole = sizes[0] if protocol.whole_base else 0  # so many classes have no limit of shots
    return Stream(
        order,
        sizes,
        (
            *(learned[label] for label in order[:whole]),
            *(learned[label][: protocol.shots] for label in order[whole:]),
        ),
        tuple(tested[label] for label in order),
    )


def _order(labels: NDArray[Any], protocol: Protocol, seed: int) -> tuple[str, ...]:
    """Return the classes that take part, in their order.

    The usual one is that of iCaRL's code, which others took over: numpy's old generator shuffles
    the numbers of the classes, by name.
    """
    usual = np.random.RandomState(USUAL_SEED)
    generator = usual if protocol.usual_order else _generator(seed, ORDER)
    return tuple(map(str, generator.permutation(labels)[: protocol.classes]))


def _sizes(classes: int, protocol: Protocol) -> tuple[int, ...]:
    """Return the number of classes of each increment; the last may have fewer."""
    first = min(protocol.base or protocol.increment, classes)
    starts = range(first, classes, protocol.increment)
    return (first, *(min(protocol.increment, classes - start) for start in starts))


def _generator(seed: int, purpose: int) -> np.random.Generator:
    return np.random.default_rng([seed, purpose])


def _check(protocol: Protocol) -> None:
    for name in ("increment", "base", "shots", "classes"):
        value = getattr(protocol, name)
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1.")
    if protocol.whole_base and protocol.shots is None:
        raise ValueError("whole_base needs shots: without them, all increments learn from all.")
