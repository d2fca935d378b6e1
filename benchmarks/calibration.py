"""Confidence and "unknown" of the default head, on the study's vectors and streams.

    python benchmarks/calibration.py caltech101 --backbone efficientnet-lite0 --orders 5

The classes of a stream are learned ten at a time, with 5, 10 and all pictures of each. After every
increment the calibration error (ten bins) of the label's probability is measured on the test
pictures of the classes known. With 50 known and the other 50 not: the area under the ROC curve of
known against unknown, the share of known pictures refused, of unknown ones found, and the
calibration error of all answers. Each run is appended to results/calibration.jsonl.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from contest import record
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score
from unknown import calibration_error

import cbcl
from cbcl.method.statistical import Judgement, StatisticalKnowledge, learn_statistics
from cbcl.study.data.vectors import Features, features
from cbcl.study.streams import Protocol, stream

RECORDS = Path(__file__).parent.parent / "results" / "calibration.jsonl"
HALF = 50  # classes known, when the others are asked about
MAX_ASKED = 2000  # vectors at a time


def some(rows: NDArray[Any]) -> NDArray[Any]:
    return rows[:: max(1, len(rows) // MAX_ASKED)]


def confidences(judgement: Judgement) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the confidence of each answer, and whether it is "unknown"."""
    best, unknown = judgement.known * judgement.shares.max(axis=1), 1.0 - judgement.known
    return np.maximum(best, unknown), unknown > best


def strangers(
    data: Features, knowledge: StatisticalKnowledge, asked: NDArray[Any], others: NDArray[Any]
) -> dict[str, float]:
    known, unknown = (knowledge.judge(data.vectors[rows]) for rows in (asked, others))
    odds = [knowledge.calibration.log_odds_known(one.scores) for one in (known, unknown)]
    (sure, refused), (sure_unknown, found) = confidences(known), confidences(unknown)
    right = (knowledge.classes[known.shares.argmax(axis=1)] == data.labels[asked]) & ~refused
    truth = np.repeat([1, 0], [len(asked), len(others)])
    error = calibration_error(np.concatenate([sure, sure_unknown]), np.concatenate([right, found]))
    return {
        "area": float(roc_auc_score(truth, np.concatenate(odds))),
        "refused": float(refused.mean()),
        "found": float(found.mean()),
        "error_with_strangers": error,
    }


def run(data: Features, shots: int | None, seed: int) -> dict[str, Any]:
    classes = stream(data.labels, data.test, Protocol(shots=shots), seed)
    knowledge, errors, with_strangers = None, [], {}
    for known, rows in classes.increments():
        vectors = np.ascontiguousarray(data.vectors[rows])
        knowledge = learn_statistics(knowledge, vectors, data.labels[rows])
        asked = some(np.concatenate(classes.tested[:known]))
        shares = knowledge.judge(data.vectors[asked]).shares
        right = knowledge.classes[shares.argmax(axis=1)] == data.labels[asked]
        errors.append(calibration_error(shares.max(axis=1), right))
        if known == HALF:
            others = some(np.concatenate(classes.tested[HALF:]))
            with_strangers = strangers(data, knowledge, asked, others)
    return {"shots": shots, "seed": seed, "errors": errors, **with_strangers}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("data", help="a data set whose vectors are stored: `cbcl bench list`")
    parser.add_argument("--backbone", default="efficientnet-lite0")
    parser.add_argument("--orders", type=int, default=5, help="orders of the classes, from 0 on")
    options = parser.parse_args()
    data = features(options.data, options.backbone)
    results: list[dict[str, object]] = []
    print("shots  error: mean  worst   with strangers   area  refused           found")
    for shots in (5, 10, None):
        runs = [run(data, shots, seed) for seed in range(options.orders)]
        results += runs
        errors = np.array([one["errors"] for one in runs])
        mean = {name: np.mean([one[name] for one in runs]) for name in runs[0] if name != "shots"}
        refused = [one["refused"] for one in runs]
        print(
            f"{shots or 'all':>5}  {errors.mean():11.1%} {errors.max():6.1%} "
            f"{mean['error_with_strangers']:16.1%} {mean['area']:6.3f}  {mean['refused']:.1%} "
            f"({min(refused):.1%} to {max(refused):.1%})  {mean['found']:.1%}"
        )
    line = record([cbcl, np, sklearn], results, data=options.data, backbone=options.backbone)
    with RECORDS.open("a") as file:
        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
