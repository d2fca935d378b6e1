"""Active learning: the worth of ten labels by the order in which photos are labelled.

    python study/benchmarks/asking.py FOLDER --about NAME --known 10 --new 10 --shots 5

FOLDER holds one folder a class. Some classes, drawn at random, are learned by the default head from
a few photos each. Then there is a pool of photos without labels, of these and of new classes; a
person labels ten, in an order that is given at once, or one at a time, asking again after each. The
accuracy is the share of other photos, of all these classes, whose first guess is right then, as a
mean over draws; the orders differ, all else is the same. With --strangers, so many photos of the
pool are of yet other classes, one each, that are not tested: things of no interest. The worth of an
order is the number of photos, drawn from the pool at random, whose labels give the same accuracy.
Each run is appended to study/results/asking.jsonl.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from contest import record
from numpy.typing import NDArray

import cbcl
from cbcl import Recognizer
from cbcl.heads.discriminant.model import DiscriminantHeadModel
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.measured import Measured
from cbcl.method.discriminant.model import DiscriminantModel, learn_statistics
from cbcl.recognition.answer import Answer, as_answer
from cbcl.recognition.cosines import measured_of
from cbcl.recognition.suggestions import worth_asking
from cbcl.vision.finding import find_labelled

NO_MEMORY = Memory(Path("none.cbcl"))  # the answers have no examples
RECORDS = Path(__file__).parent.parent / "results" / "asking.jsonl"
LABELLED = 10
TESTED = 10  # photos of a class
RANDOM_COUNTS = (10, 20, 30, 40, 50, 60, 80, 100)  # labels drawn at random, to compare with
MIN_GAIN = 0.01  # of ten labels drawn at random, for a ratio to mean anything
REPEATS = 3  # of each random draw

Order: TypeAlias = Callable[[Float32s, Sequence[Answer]], Sequence[int]]


def by_margin(_: Float32s, given: Sequence[Answer]) -> list[int]:
    margins = [[*(guess.confidence for guess in answer.ranking), 0.0] for answer in given]
    return sorted(range(len(given)), key=lambda row: margins[row][0] - margins[row][1])


def by_confidence(_: Float32s, given: Sequence[Answer]) -> list[int]:
    return sorted(range(len(given)), key=lambda row: given[row].ranking[0].confidence)


def by_strangeness(_: Float32s, given: Sequence[Answer]) -> list[int]:
    return sorted(range(len(given)), key=lambda row: -given[row].strangeness)


def by_centres(matrix: Float32s, given: Sequence[Answer]) -> list[int]:
    """Choose the farthest from all that is known or chosen (k-center, greedily)."""
    away = np.array([answer.evidence[0].distance for answer in given])
    order: list[int] = []
    while len(order) < min(LABELLED, len(given)):
        away[order] = -1.0
        order.append(int(away.argmax()))
        away = np.minimum(away, np.linalg.norm(matrix - matrix[order[-1]], axis=1))
    return order


ORDERS: dict[str, Order] = {
    "margin": by_margin,
    "confidence": by_confidence,
    "strangeness": by_strangeness,
    "k-center": by_centres,
    "worth_asking": worth_asking,
}


class Trial:
    """One draw: the photos learned, the pool, and the photos to test with."""

    def __init__(
        self,
        vectors: Float32s,
        labels: NDArray[Any],
        measured: Measured,
        how: argparse.Namespace,
        seed: int,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.vectors, self.labels = vectors, labels.astype(object)
        self.measured = measured
        needed = how.shots + 2 * TESTED
        large = [label for label in np.unique(labels) if np.sum(labels == label) >= needed]
        classes = self.rng.permutation(large)[: how.known + how.new]
        rows = {label: self.rng.permutation(np.flatnonzero(labels == label)) for label in classes}
        self.learned = np.concatenate([rows[label][: how.shots] for label in classes[: how.known]])
        self.tested = np.concatenate(
            [rows[label][how.shots : how.shots + TESTED] for label in classes]
        )
        rest = np.concatenate([rows[label][how.shots + TESTED :][: how.pool] for label in classes])
        others = self.rng.permutation(np.setdiff1d(labels, classes))[: how.strangers]
        strangers = [self.rng.choice(np.flatnonzero(labels == label)) for label in others]
        pool = [*self.rng.permutation(rest)[: how.pool - len(strangers)], *strangers]
        self.pool = self.rng.permutation(np.array(pool))

    def know(self, more: Int64s) -> DiscriminantModel:
        """Learn these photos, too."""
        rows = np.concatenate([self.learned, more])
        known = learn_statistics(None, self.vectors[rows], self.labels[rows], self.measured.copy)
        return replace(known, cosines=self.measured.cosines)

    def ask(self, more: Int64s, pool: Int64s) -> list[Answer]:
        model = DiscriminantHeadModel(self.know(more))
        verdicts = model.answer(DirectionSight(self.vectors[pool]))
        return [as_answer(verdict, {}, NO_MEMORY, -1.0) for verdict in verdicts]

    def right(self, more: Int64s) -> float:
        """Return the share of first guesses that are right after learning these photos, too."""
        knowledge = self.know(more)
        guesses = knowledge.classes[knowledge.winners(self.vectors[self.tested])]
        return float(np.mean(guesses == self.labels[self.tested]))

    def at_once(self, order: Order) -> float:
        given = self.ask(self.pool[:0], self.pool)
        chosen = list(order(as_directions(self.vectors[self.pool]), given))[:LABELLED]
        return self.right(self.pool[chosen])

    def one_at_a_time(self, order: Order) -> float:
        more, pool = self.pool[:0], self.pool
        for _ in range(LABELLED):
            chosen = order(as_directions(self.vectors[pool]), self.ask(more, pool))[0]
            more, pool = np.append(more, pool[chosen]), np.delete(pool, chosen)
        return self.right(more)

    def at_random(self, count: int) -> float:
        return float(
            np.mean([self.right(self.rng.permutation(self.pool)[:count]) for _ in range(REPEATS)])
        )


def draw(trial: Trial) -> dict[str, float]:
    """Return the accuracy of each order, of random draws, and of learning nothing more."""
    accuracy = {"nothing": trial.right(trial.pool[:0])}
    for count in RANDOM_COUNTS:
        if count <= len(trial.pool):
            accuracy[f"random {count}"] = trial.at_random(count)
    for name, order in ORDERS.items():
        accuracy[f"{name}, at once"] = trial.at_once(order)
        accuracy[f"{name}, one at a time"] = trial.one_at_a_time(order)
    return accuracy


def worth(means: dict[str, float], right: float) -> float:
    """Return the number of random labels that give the same accuracy."""
    counts = [0, *(count for count in RANDOM_COUNTS if f"random {count}" in means)]
    shares = [means["nothing"], *(means[f"random {count}"] for count in counts[1:])]
    return float(
        np.interp(right, np.maximum.accumulate(shares) + 1e-9 * np.arange(len(shares)), counts)
    )


def load(path: Path, leave_out: str, backbone: str) -> tuple[Float32s, NDArray[Any], MemoryInfo]:
    """Return vectors, their labels, and the description of a memory of these."""
    files = [(label, one) for label, one in find_labelled([path]) if label != leave_out]
    with (
        tempfile.TemporaryDirectory() as folder,
        Recognizer(Path(folder, "m.cbcl"), backbone) as recognizer,
    ):
        vectors = recognizer.embed([one for _, one in files])
        seen = recognizer.backbone
    about = MemoryInfo(seen.name, seen.fingerprint, vectors.shape[1], False, cbcl.__version__)
    return vectors, np.array([label for label, _ in files]), about


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--backbone", default="efficientnet-lite0@2views")
    parser.add_argument("--known", type=int, default=10)
    parser.add_argument("--new", type=int, default=10)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--pool", type=int, default=100)
    parser.add_argument("--strangers", type=int, default=0)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--about", help="the data set's name", required=True)
    args = parser.parse_args()
    vectors, labels, about = load(args.data, args.leave_out, args.backbone)
    measured = measured_of(about)
    trials = (Trial(vectors, labels, measured, args, seed) for seed in range(args.draws))
    draws = [draw(trial) for trial in trials]
    means = {name: float(np.mean([one[name] for one in draws])) for name in draws[0]}
    known = f"{args.known} known with {args.shots} photos each"
    others = f"{args.new} new, {args.strangers} strangers"
    print(f"{args.about}, {args.draws} draws: {known}, {others}")
    usual = means["random 10"] - means["nothing"]
    results: list[dict[str, object]] = []
    for name, right in means.items():
        labels_like = worth(means, right)
        gain = (right - means["nothing"]) / usual if usual > MIN_GAIN else math.nan
        ratio = None if math.isnan(gain) else gain
        results.append({"order": name, "right": right, "worth": labels_like, "ratio": ratio})
        gained = f"gain {gain:5.2f} x that of ten at random"
        print(f"{name:<30} right {right:.3f}   {gained}   worth {labels_like:5.1f} labels")
    made = record(
        [cbcl, np],
        results,
        about=args.about,
        backbone=f"{about.backbone} {about.fingerprint}",
        protocol={
            "known": args.known,
            "new": args.new,
            "shots": args.shots,
            "pool": args.pool,
            "strangers": args.strangers,
            "left_out": args.leave_out,
            "labelled": LABELLED,
            "tested": TESTED,
            "times": REPEATS,
            "seeds": args.draws,
        },
        draws=draws,
    )
    with RECORDS.open("a") as file:
        file.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
