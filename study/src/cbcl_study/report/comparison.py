"""Claims of the paper beside our runs: the same measure, the difference, its test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from cbcl_study.paper import CLAIMS, Claim, Measure
from cbcl_study.records import RunRecord
from cbcl_study.report.aggregate import Records, RunGroup, runs_of
from cbcl_study.report.significance import Difference, difference
from cbcl_study.scores import Summary, accuracies, average, drop, last, omega, summary


class Comparison(NamedTuple):
    """A claim of the paper and our number with one backbone."""

    claim: Claim
    backbone: str
    ours: Summary
    gap: Difference  # ours less the paper's


def measure_run(claim: Claim, record: RunRecord, measure: Measure | None = None) -> float:
    """Return our run's number for a claim, in the claim's unit; or another measure of it.

    >>> from cbcl_study.paper import only
    >>> run = {"increments": [10, 10], "tested": [4] * 20, "right": [[3] * 10, [2] * 20]}
    >>> measure_run(only("CBCL", "average", "caltech101"), run)
    62.5
    """
    measure = measure or claim.measure
    if measure == "megabytes":
        return float(record["bytes"] / 1e6)
    if measure == "after":
        reached = np.cumsum(record["increments"]) == claim.classes_seen
        return 100.0 * float(accuracies(record)[reached][0]) if reached.any() else math.nan
    if measure in ("average", "last", "drop"):
        return 100.0 * {"average": average, "last": last, "drop": drop}[measure](record)
    return float(getattr(omega(record), measure.removeprefix("omega_")))


def claim_group(claim: Claim, backbone: str) -> RunGroup:
    """Return the runs for a claim of the paper, with a backbone of ours."""
    setting = claim.protocol
    if setting.learner is None or setting.increment is None:
        raise ValueError(
            f"{claim.what} ({claim.where}) is not run here: "
            "give a claim whose protocol has a learner."
        )
    rest = setting.increment, setting.base, setting.shots, setting.max_centroids
    return RunGroup(setting.data, backbone, setting.learner, *rest)


def measure_claim(
    records: Records, claim: Claim, backbone: str, measure: Measure | None = None
) -> Summary:
    """Return our number for a claim over the orders that were run."""
    runs = runs_of(records, claim_group(claim, backbone))
    return summary([measure_run(claim, run, measure) for run in runs])


def compare(records: Records, claim: Claim, backbone: str) -> Comparison:
    ours = measure_claim(records, claim, backbone)
    return Comparison(claim, backbone, ours, difference(ours, claim.value, claim.std))


def comparisons(records: Records, claims: Iterable[Claim] = CLAIMS) -> list[Comparison]:
    """Return each claim that was run, with each backbone that stands in for the paper's."""
    pairs = [
        (claim, backbone)
        for claim in claims
        if claim.protocol.learner is not None
        for backbone in claim.protocol.ours
    ]
    found = [compare(records, claim, backbone) for claim, backbone in pairs]
    return [comparison for comparison in found if comparison.ours.n]


def backbones_for(records: Records, claims: Sequence[Claim]) -> list[str]:
    """Return our backbones for some claims, the first in any case, others where they were run."""
    names = dict.fromkeys(name for claim in claims for name in claim.protocol.ours)
    run = {comparison.backbone for comparison in comparisons(records, claims)}
    return [name for place, name in enumerate(names) if place == 0 or name in run]
