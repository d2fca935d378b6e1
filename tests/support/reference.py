"""Reference: Algorithms 1 to 3 of the paper, word for word, one number at a time.

State is kept in the precision the library stores: float32 centroids, whole counts. A distance is
the float64 root of the float64 sum of squares, in the order of summation that docs/method.md fixes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from cbcl.method.arrays import Float32s, Float64s
from cbcl.method.centroids.concepts import Concepts


def distance(a: Float32s, b: Float32s) -> float:
    sums = [0.0] * 8
    for i, (p, q) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
        sums[i % 8] += (p - q) * (p - q)
    total = 0.0
    for part in sums:
        total += part
    return math.sqrt(total)


def agg_var(vectors: Float32s, radius: float, known: Concepts | None = None) -> Concepts:
    centroids: list[Float32s] = [] if known is None else list(known.centroids)
    counts: list[int] = [] if known is None else known.counts.tolist()
    for x in np.asarray(vectors, dtype=np.float32):
        nearest = -1
        least = math.inf
        for j, c in enumerate(centroids):
            if distance(c, x) < least:
                nearest = j
                least = distance(c, x)
        if nearest >= 0 and least < radius:
            w = counts[nearest]
            mean = (w * centroids[nearest].astype(np.float64) + x.astype(np.float64)) / (w + 1)
            centroids[nearest] = mean.astype(np.float32)
            counts[nearest] += 1
        else:
            centroids.append(x.copy())
            counts.append(1)
    return Concepts(np.array(centroids), np.array(counts))


def agg_var_float64(vectors: Float64s, radius: float) -> tuple[Float64s, list[int], float]:
    """Run Algorithm 1 in float64; also return its closest decision, as a share of the distance."""
    centroids: list[Float64s] = []
    counts: list[int] = []
    closest_call = math.inf
    for x in vectors:
        distances = np.array([np.linalg.norm(c - x) for c in centroids])
        if len(distances):
            ordered = np.sort(distances)
            gaps = [abs(ordered[0] - radius), *(ordered[1:2] - ordered[0])]
            closest_call = min(closest_call, min(gaps) / max(float(ordered[0]), 1e-300))
        if len(distances) and distances.min() < radius:
            j = int(distances.argmin())
            centroids[j] = (counts[j] * centroids[j] + x) / (counts[j] + 1)
            counts[j] += 1
        else:
            centroids.append(x)
            counts.append(1)
    return np.array(centroids), counts, closest_call


def votes(x: Float32s, classes: Sequence[Concepts], n: int) -> list[float]:
    """Return Pred'(y) of each class; only coincident centroids vote where there are any."""
    every = [(distance(c, x), y) for y, known in enumerate(classes) for c in known.centroids]
    closest = sorted(every, key=lambda pair: pair[0])[:n]
    sizes = [int(known.counts.sum()) for known in classes]
    coincident = {y for d, y in every if d == 0.0}
    if coincident:
        return [1e300 * (1.0 / sizes[y]) if y in coincident else 0.0 for y in range(len(classes))]
    pred = [0.0] * len(classes)
    for d, y in closest:
        pred[y] += 1.0 / d
    return [p * (1.0 / size) for p, size in zip(pred, sizes, strict=True)]


def shares(sizes: Sequence[int], limit: int) -> list[int]:
    """Return each class's part of `limit` in proportion to its size, at least 1: equation 4."""
    owed = dict(enumerate(sizes))
    given = dict.fromkeys(owed, 1)
    # A class whose part is below one has it already, and takes no further share.
    while True:
        left = limit - (len(sizes) - len(owed))
        small = [y for y, size in owed.items() if size * left < sum(owed.values())]
        if not small:
            break
        for y in small:
            del owed[y]
    whole = sum(owed.values())
    for y, size in owed.items():
        given[y] = size * left // whole
    for y in sorted(owed, key=lambda y: (-(owed[y] * left % whole), y)):
        if sum(given.values()) < limit:
            given[y] += 1
    return [given[y] for y in range(len(sizes))]
