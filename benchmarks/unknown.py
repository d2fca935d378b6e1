"""Open-set recognition and calibration on real photos.

    python benchmarks/unknown.py FOLDER --about Caltech-101 --leave-out BACKGROUND_Google --shots 5

FOLDER holds one folder a class. Some classes, drawn at random, are learned from a few photos each;
then up to 30 other photos of each are recognized, and as many of classes that were not learned.
Means over draws of: the share whose first guess is right; the share of known photos refused (called
unknown); the share of unknown photos found (called so); the area under the ROC curve of known
against unknown (0.5 is chance); and the calibration error (ten bins) of the confidence in the
answer, "unknown" being right for a class that was not learned. Each run is appended to
results/unknown.jsonl with its record.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import PIL
from contest import record
from numpy.typing import NDArray
from rich.progress import Progress
from sklearn.metrics import roc_auc_score

import cbcl
from cbcl import Recognizer
from cbcl.method.confidence import Scale, spread_of
from cbcl.method.knowledge import Options, learn
from cbcl.recognition.answer import Answer, answers
from cbcl.recognition.embedder import initial_limit_of
from cbcl.vision.finding import find_labelled

RECORDS = Path(__file__).parent.parent / "results" / "unknown.jsonl"
MAX_ASKED = 30  # photos of a class


def calibration_error(confidences: NDArray[Any], right: NDArray[Any]) -> float:
    bins = np.minimum((confidences * 10).astype(int), 9)
    gaps = [
        abs(confidences[bins == b].mean() - right[bins == b].mean()) * np.mean(bins == b)
        for b in np.unique(bins)
    ]
    return float(np.sum(gaps))


def draw(
    vectors: NDArray[np.float32],
    labels: NDArray[Any],
    known: int,
    shots: int,
    initial_limit: float,
    seed: int,
) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    classes = rng.permutation(np.unique(labels))
    rows = {label: rng.permutation(np.flatnonzero(labels == label)) for label in classes}
    learned = np.concatenate([rows[label][:shots] for label in classes[:known]])
    asked = np.concatenate([rows[label][shots : shots + MAX_ASKED] for label in classes[:known]])
    strange = rng.permutation(np.concatenate([rows[label] for label in classes[known:]]))[
        : len(asked)
    ]

    knowledge = learn(None, vectors[learned], labels[learned], Options())
    spreads = [
        spread_of(vectors[learned][labels[learned] == label], knowledge.radius)
        for label in knowledge.concepts
    ]
    scale = Scale.of(spreads, knowledge.index, initial_limit)
    of_known, of_unknown = (answers(vectors[some], knowledge, scale) for some in (asked, strange))
    right = np.array([answer.ranking[0].label for answer in of_known]) == labels[asked]
    return {
        "right": float(right.mean()),
        "refused": _refused(of_known),
        "found": _refused(of_unknown),
        "area": _area(
            [answer.strangeness for answer in of_known],
            [answer.strangeness for answer in of_unknown],
        ),
        "area_by_distance_alone": _area(
            *([one.evidence[0].distance for one in of] for of in (of_known, of_unknown))
        ),
        "calibration_error": calibration_error(
            np.array([answer.confidence for answer in [*of_known, *of_unknown]]),
            np.array(
                [
                    *(
                        answer.label == label
                        for answer, label in zip(of_known, labels[asked], strict=True)
                    ),
                    *(answer.label is None for answer in of_unknown),
                ]
            ),
        ),
    }


def _area(known: list[float], unknown: list[float]) -> float:
    return float(roc_auc_score([0] * len(known) + [1] * len(unknown), [*known, *unknown]))


def _refused(some: list[Answer]) -> float:
    return float(np.mean([answer.label is None for answer in some]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--leave-out", default="")
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--known", type=int, default=10)
    parser.add_argument("--shots", type=int, default=5)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--about", help="the data set's name", required=True)
    args = parser.parse_args()
    files = [
        (label, path) for label, path in find_labelled([args.folder]) if label != args.leave_out
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        Recognizer(Path(folder, "m.cbcl"), args.backbone) as recognizer,
        Progress() as bar,
    ):
        task = bar.add_task("looking", total=len(files))
        vectors = recognizer.embed(
            [path for _, path in files], progress=lambda done, _: bar.update(task, completed=done)
        )
        backbone = recognizer.backbone
    labels = np.array([label for label, _ in files])
    initial_limit = initial_limit_of(backbone.name)
    draws = [
        draw(vectors, labels, args.known, args.shots, initial_limit, seed)
        for seed in range(args.draws)
    ]
    means = {name: float(np.mean([one[name] for one in draws])) for name in draws[0]}
    print(
        f"{args.about}, {args.backbone}: {args.known} known, {args.shots} shots: "
        + ", ".join(f"{k} {v:.3f}" for k, v in means.items())
    )
    made = record(
        [cbcl, np, onnxruntime, PIL],
        [dict(means)],
        about=args.about,
        backbone=f"{backbone.name} {backbone.fingerprint}",
        protocol={
            "known": args.known,
            "shots": args.shots,
            "seeds": args.draws,
            "asked": MAX_ASKED,
            "photos": len(files),
        },
        draws=draws,
    )
    with RECORDS.open("a") as file:
        file.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    main()
