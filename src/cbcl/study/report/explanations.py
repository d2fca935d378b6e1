"""Our runs measured as the paper's claims, and what may explain a difference; D as in the paper."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cbcl.study.records import RunRecord
from cbcl.study.report.paper import LIMITED, NETWORKS, RADII, STATISTICS, TUNED, Claim, Measure
from cbcl.study.report.scores import accuracies, average, drop, last, omega
from cbcl.vision.backbones.catalogue import CATALOGUE

# What the paper leaves open about a learner of ours,
UNSPECIFIED_LEARNERS = {
    "trad-agg": "the paper names neither the linkage nor the number of clusters",
    "k-means": "the paper does not say how many clusters a class gets",
    "remove-centroids": "the paper does not say which centroids are removed",
    "flb": "at a fixed rate and number of passes, much depends on the scale of the features "
    "and on the first weights",
}
# and about its features.
UNSPECIFIED_FEATURES = {
    "vgg16": "from which layer of VGG-16 the features are is not said there",
    "surf-words": "the size of the vocabulary, and from what it was made, is not said there",
}


class Explanation(NamedTuple):
    """A reason, or candidates for one, of which none was measured by itself."""

    reason: str = ""
    candidates: tuple[str, ...] = ()


def measure_run(claim: Claim, record: RunRecord, measure: Measure | None = None) -> float:
    """Return our run's number for a claim, in the claim's unit; or another measure of it.

    >>> from cbcl.study.report.paper import only
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


def explain(
    claim: Claim, backbone: str, difference: float | None, spread: float | None
) -> Explanation:
    """Return why our number, with that backbone, may differ from the claim's.

    The difference and the spread, our standard deviation over orders, are in the claim's unit; None
    is not known. Within twice both deviations together there is nothing to explain. Beyond, all
    that is known to differ is named.

    >>> from cbcl.study.report.paper import only
    >>> claim = only("CBCL", "average", "cifar100", where="Table 5")
    >>> explain(claim, "resnet50-keras", 0.4, 0.3).reason
    'within the spread of orders'
    >>> explain(claim, "resnet50-keras", 2.0, 0.3).candidates[0]
    'ResNet-50 here, ResNet-34 there'
    """
    if backbone not in NETWORKS:
        raise ValueError(
            f"backbone={backbone!r} is not known here: give one of {', '.join(NETWORKS)}."
        )
    if claim.protocol.learner is None or difference is None or math.isnan(difference):
        return Explanation("not run here")
    deviations = [std for std in (claim.std, spread) if std is not None and not math.isnan(std)]
    if abs(difference) <= 2.0 * math.hypot(*deviations):
        return Explanation("within the spread of orders")
    return Explanation(candidates=tuple(_candidates(claim, backbone)))


def _candidates(claim: Claim, backbone: str) -> Iterator[str]:
    """Yield all that differs or may differ, from the most particular to the most general."""
    if claim.suspect:
        yield claim.suspect
    if claim.measure == "megabytes":
        numbers = f", {CATALOGUE[backbone].dimension} a centroid" if backbone in CATALOGUE else ""
        yield f"here it is a file of all that is needed, in float32 numbers{numbers}"
        return
    setting = claim.protocol
    if (here := NETWORKS[backbone]) != (there := NETWORKS[str(setting.backbone)]):
        yield f"{here} here, {there} there"
    if setting.shots:
        yield (
            "how it was made is not known: "
            "the published code overwrites the shots that it draws with all the data"
        )
    if claim.measure == "omega_base":
        yield f"the accuracy on {setting.base} classes depends much on which they are"
    yield from _learner_candidates(str(setting.learner), setting.shots)
    if setting.backbone in UNSPECIFIED_FEATURES:
        yield UNSPECIFIED_FEATURES[setting.backbone]
    statistics = STATISTICS[setting.data]
    if statistics.of > statistics.classes:
        yield (
            f"which {statistics.classes} of {statistics.of} classes take part, and which pictures "
            "are for testing, is drawn here and not said there"
        )
    yield "how pictures were scaled and cropped is not said there"


def _learner_candidates(learner: str, shots: int | None) -> Iterator[str]:
    if learner in UNSPECIFIED_LEARNERS:
        yield UNSPECIFIED_LEARNERS[learner]
    if learner in TUNED:
        yield (
            "D is chosen by the spread and the number of the vectors here, "
            f"from {RADII[0]:g} to {RADII[-1]:g} there"
        )
    merges = learner in LIMITED and learner != "remove-centroids"
    if merges and not shots:
        yield (
            "in a full memory a centroid counts for the vectors behind it here, "
            "and once in the published code"
        )
