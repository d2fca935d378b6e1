"""Speed of the discriminant against the vote in the same run: `heads.py [--large]`.

Vectors of 1280 features. Wanted, in medians of contestants that take turns, with two BLAS threads:
learning one more class takes at most 2 x the time of the vote, however many classes are known;
predicting 10,000 vectors among 100 classes at most 1.5 x; and from teaching one more view to the
changed answer it takes at most 25 ms with 10 things known, and 100 ms with 1,000. `--large` also
asks with 10,000 things known. The last line is a JSON record of the run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy
from contest import line, medians, record

import cbcl
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.centroids.model import CentroidModel, Options, learn
from cbcl.method.discriminant.model import DiscriminantModel, learn_statistics

D = 1280
CLASSES = 100
Rows = list[dict[str, object]]
Contest = dict[str, Callable[[], object]]


def embeddings(t: int, n: int, seed: int) -> tuple[Float32s, Int64s]:
    """Return n vectors of each of t classes, like the output of a network, and their labels."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(16, D)).astype(np.float32)
    centres = rng.normal(size=(t, D)).astype(np.float32)
    low = rng.normal(size=(t * n, 16)).astype(np.float32) @ mixing
    noise = rng.normal(size=(t * n, D)).astype(np.float32)
    vectors = np.repeat(centres, n, axis=0) + 0.3 * low + noise
    return np.maximum(vectors, 0.0), np.repeat(np.arange(t), n)


def know(t: int, n: int) -> DiscriminantModel:
    return learn_statistics(None, *embeddings(t, n, seed=1))


def know_by_vote(t: int, n: int) -> CentroidModel:
    return learn(None, *embeddings(t, n, seed=1), Options())


def learning() -> Rows:
    rows: Rows = []
    for n in (5, 500):
        vectors, _ = embeddings(1, n, seed=2)
        labels = np.full(n, CLASSES)
        contest: Contest = {
            "discriminant": partial(learn_statistics, know(CLASSES, n), vectors, labels),
            "vote": partial(learn, know_by_vote(CLASSES, n), vectors, labels, Options()),
        }
        seconds = medians(contest, 7)
        ratio = seconds["discriminant"] / seconds["vote"]
        work = f"learn a class of {n} after {CLASSES}: discriminant / vote"
        rows.append(line(work, seconds, ratio, "<= 2", ratio <= 2))
    vectors, _ = embeddings(1, 5, seed=2)
    few, many = know(CLASSES, 3), know(10_000, 3)
    many_known: Contest = {
        "10,000": partial(learn_statistics, many, vectors, np.full(5, 10_000)),
        "100": partial(learn_statistics, few, vectors, np.full(5, 10_000)),
        "vote": partial(learn, know_by_vote(10_000, 3), vectors, np.full(5, 10_000), Options()),
    }
    seconds = medians(many_known, 7)
    ratio = seconds["10,000"] / seconds["vote"]
    work = "learn a class of 5 after 10,000: discriminant / vote"
    return [*rows, line(work, seconds, ratio, "<= 2", ratio <= 2)]


def predicting() -> Rows:
    rows: Rows = []
    queries, _ = embeddings(CLASSES, 100, seed=3)
    for n in (5, 500):
        solved, vote = know(CLASSES, n), know_by_vote(CLASSES, n)
        contest: Contest = {
            "discriminant": partial(solved.winners, queries),
            "vote": partial(vote.winners, queries),
        }
        seconds = medians(contest, 7)
        ratio = seconds["discriminant"] / seconds["vote"]
        m = len(vote.index.owners)
        work = f"predict {len(queries):,}, {n} a class ({m:,} centroids): discriminant / vote"
        rows.append(line(work, seconds, ratio, "<= 1.5", ratio <= 1.5))
    return rows


def answering(t: int, milliseconds: float) -> Rows:
    """Teach one more view of a thing, and ask about another vector."""
    before = know(t, 3)
    before.judge(embeddings(1, 1, seed=5)[0])
    view, query = embeddings(1, 1, seed=4)[0], embeddings(1, 1, seed=5)[0]

    def teach_and_ask() -> object:
        return learn_statistics(before, view, np.zeros(1, dtype=np.int64)).judge(query)

    seconds = medians({"teach and ask": teach_and_ask}, 7 if t <= 1000 else 1)
    taken = 1e3 * seconds["teach and ask"]
    work = f"one more view to the changed answer, {t:,} known: of {milliseconds:g} ms"
    return [line(work, seconds, taken / milliseconds, "<= 1", taken <= milliseconds)]


def main() -> None:
    print(__doc__)
    limits = {10: 25.0, 100: 50.0, 1_000: 100.0}
    if "--large" in sys.argv:
        limits[10_000] = 10_000.0
    rows = [*learning(), *predicting()]
    for t, milliseconds in limits.items():
        rows += answering(t, milliseconds)
    data = f"generated, {D} features, seeds 0-5"
    print(json.dumps(record([cbcl, np, scipy], rows, data=data, load=os.getloadavg())))


if __name__ == "__main__":
    main()
