"""Groups of photos that nobody has named: how pure they are, and how many photos they leave out.

    python study/benchmarks/grouping.py FOLDER --about NAME

FOLDER holds one folder a class. Of five to eight classes, drawn at random, 40 photos are grouped as
the teaching page groups unknown ones (`group_alike`), and by Agg-Var clustering in random order, in
which a photo belongs to the centroid that it became or moved. The purity is the share of grouped
photos that show what most of their group show; `grouped` the share of photos in a group of two or
more. Means over draws, at several least cosines; the run is appended to results/grouping.jsonl.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from contest import record
from numpy.typing import NDArray

import cbcl
from cbcl import Recognizer
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.directions import as_directions
from cbcl.recognition.grouping import group_alike
from cbcl.vision.finding import find_labelled

RECORDS = Path(__file__).parent.parent / "results" / "grouping.jsonl"
PHOTOS = 40
PER_CLASS = 10  # that are embedded
CLASSES = (5, 8)
COSINES = (0.5, 0.55, 0.6, 0.65, 0.7, 0.75)


def by_agg_var(directions: Float32s, least_cosine: float) -> list[list[int]]:
    radius = np.sqrt(2.0 - 2.0 * least_cosine)
    centroids: list[NDArray[Any]] = []
    groups: list[list[int]] = []
    for row, direction in enumerate(directions):
        distances = [float(np.linalg.norm(centroid - direction)) for centroid in centroids]
        nearest = int(np.argmin(distances)) if distances else 0
        if distances and distances[nearest] < radius:
            groups[nearest].append(row)
            centroids[nearest] = directions[groups[nearest]].mean(axis=0)
        else:
            centroids.append(direction)
            groups.append([row])
    return [group for group in groups if len(group) > 1]


WAYS: dict[str, Callable[[Float32s, float], list[list[int]]]] = {
    "average linkage": group_alike,
    "Agg-Var": by_agg_var,
}


def load(folder: Path, leave_out: str, backbone: str) -> tuple[Float32s, NDArray[Any], str]:
    """Return the directions of ten photos of each class, their labels, and the backbone."""
    rng = np.random.default_rng(0)
    by_label: dict[str, list[Path]] = {}
    for label, path in find_labelled([folder]):
        if label != leave_out:
            by_label.setdefault(label, []).append(path)
    drawn = {
        label: [paths[row] for row in rng.permutation(len(paths))[:PER_CLASS]]
        for label, paths in by_label.items()
    }
    with (
        tempfile.TemporaryDirectory() as place,
        Recognizer(Path(place, "m.cbcl"), backbone) as recognizer,
    ):
        vectors = recognizer.embed([path for paths in drawn.values() for path in paths])
        seen = recognizer.backbone
    labels = np.repeat([*drawn], [len(paths) for paths in drawn.values()])
    return as_directions(vectors), labels, f"{seen.name} {seen.fingerprint}"


def draw(labels: NDArray[Any], seed: int) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    classes = rng.choice(np.unique(labels), rng.integers(CLASSES[0], CLASSES[1] + 1), replace=False)
    each = PHOTOS // len(classes)
    rows = [rng.permutation(np.flatnonzero(labels == label))[:each] for label in classes]
    return rng.permutation(np.concatenate(rows))


def score(groups: list[list[int]], labels: NDArray[Any]) -> tuple[float, float, float]:
    """Return the number of groups, their purity, and the share of photos in one."""
    alike = sum(Counter(labels[group].tolist()).most_common(1)[0][1] for group in groups)
    grouped = sum(map(len, groups))
    return len(groups), alike / grouped if grouped else np.nan, grouped / len(labels)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--about", help="the data set's name", required=True)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--backbone", default="efficientnet-lite0@2views")
    parser.add_argument("--draws", type=int, default=60)
    args = parser.parse_args()
    directions, labels, backbone = load(args.data, args.leave_out, args.backbone)
    draws = [draw(labels, seed) for seed in range(args.draws)]
    things = float(np.mean([len(np.unique(labels[rows])) for rows in draws]))
    print(f"{args.about}, {args.draws} draws of {PHOTOS} photos of {things:.1f} things")
    results: list[dict[str, object]] = []
    for name, group in WAYS.items():
        for cosine in COSINES:
            scores = [score(group(directions[rows], cosine), labels[rows]) for rows in draws]
            groups, purity, grouped = np.nanmean(scores, axis=0).tolist()
            mean = {"groups": groups, "purity": purity, "grouped": grouped}
            results.append({"way": name, "least_cosine": cosine, **mean})
            words = "   ".join(f"{key} {value:.3f}" for key, value in mean.items())
            print(f"{name:<16} {cosine:.2f}   {words}")
    protocol = {"photos": PHOTOS, "things": things, "seeds": args.draws, "left_out": args.leave_out}
    about = {"about": args.about, "backbone": backbone, "protocol": protocol}
    with RECORDS.open("a") as file:
        file.write(json.dumps(record([cbcl, np], results, **about)) + "\n")


if __name__ == "__main__":
    main()
