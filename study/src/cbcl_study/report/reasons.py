"""Reasons for differences between the paper's numbers and ours, as sentences.

They are candidates: none was measured by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from cbcl_study.paper import NETWORKS, OWN_RESNET34, STATISTICS, Claim
from cbcl_study.report.aggregate import DATA, format_claim

# What the paper leaves open about a learner of ours,
UNSPECIFIED_LEARNERS = {
    "trad-agg": "The paper names neither the linkage nor the number of clusters of Trad-Agg.",
    "k-means": "It does not say how many clusters a class gets in K-means.",
    "remove-centroids": "It does not say which centroids Remove-Centroids removes.",
    "flb": "At FLB's fixed rate and number of passes, much depends on the scale of the features "
    "and on the first weights.",
}
# and about its features.
UNSPECIFIED_FEATURES = {
    "vgg16": "From which layer of VGG-16 the features are is not said there.",
    "surf-words": "The size of the vocabulary, and from what it was made, is not said there.",
}
ESTIMATED_ANEW = (
    "The ResNet-34 here is a public copy whose batch statistics had drifted and were estimated "
    "anew, on other pictures."
)


def reasons(claims: Iterable[Claim], backbones: Sequence[str]) -> list[str]:
    """Return what may explain differences of some claims, each sentence once.

    >>> from cbcl_study.paper import only
    >>> reasons([only("CBCL", "average", "cifar100", where="Table 5")], ["resnet50-keras"])
    ['The backbone is ResNet-50 here and ResNet-34 there.']
    """
    run = [claim for claim in claims if claim.protocol.learner]
    sentences = [sentence for claim in run for sentence in _particular(claim, backbones)]
    return [*dict.fromkeys(sentences), *suspicions(claims)]


def _particular(claim: Claim, backbones: Sequence[str]) -> Iterator[str]:
    """Yield what differs or may differ in the claim's own setting."""
    setting = claim.protocol
    there = NETWORKS.get(str(setting.backbone), "")
    here = [NETWORKS[name] for name in backbones if name in setting.ours and name != "pixels"]
    others = [name for name in dict.fromkeys(here) if name != there]
    if others:
        yield f"The backbone is {' or '.join(others)} here and {there} there."
    if OWN_RESNET34 in backbones:
        yield ESTIMATED_ANEW
    if claim.measure == "omega_base":
        yield f"The accuracy on {setting.base} classes depends much on which they are."
    if setting.learner in UNSPECIFIED_LEARNERS:
        yield UNSPECIFIED_LEARNERS[setting.learner]
    if setting.backbone in UNSPECIFIED_FEATURES:
        yield UNSPECIFIED_FEATURES[setting.backbone]
    statistics = STATISTICS[setting.data]
    if statistics.of > statistics.classes:
        yield (
            f"Which {statistics.classes} of {statistics.of} classes of {DATA[setting.data]} take "
            "part, and which pictures are for testing, is drawn here and not said there."
        )


def suspicions(claims: Iterable[Claim]) -> list[str]:
    """Return a sentence for each reason to doubt some of the claims, with their numbers."""
    numbers: dict[str, dict[str, list[str]]] = {}  # by reason and method
    for claim in claims:
        if claim.suspect:
            methods = numbers.setdefault(claim.suspect, {})
            methods.setdefault(claim.method, []).append(format_claim(claim))
    sentences = []
    for suspect, methods in numbers.items():
        stated = []
        for method, values in methods.items():
            different = list(dict.fromkeys(values))
            listed = ", ".join(different) if len(different) <= 3 else "numbers"
            stated.append(f"{method} {listed}")
        sentences.append(f"On the paper's {' and '.join(stated)}: {suspect}.")
    return sentences
