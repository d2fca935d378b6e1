"""The paper's numbers, as claims that a run can be compared with.

`paper.toml` has them all, in the paper's order, one line a claim: all of its tables, and what its
text says in numbers. Where the paper contradicts itself is in study/tests/test_paper.py.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

Measure: TypeAlias = Literal[
    "average", "last", "after", "drop", "omega_base", "omega_new", "omega_all", "megabytes"
]

# A public copy that is shown whole pictures; docs/backbones.md says how it is made.
OWN_RESNET34 = "resnet34-whole.onnx"
NETWORKS = {
    "resnet18": "ResNet-18",
    "resnet34": "ResNet-34",
    OWN_RESNET34: "ResNet-34",
    "resnet50": "ResNet-50",
    "vgg16": "VGG-16",
    "surf-words": "visual words of SURF descriptors",
    "resnet50-keras": "ResNet-50",
    "efficientnet-lite0": "EfficientNet-Lite0",
    "visual-words": "visual words of dense gradient histograms",
    "pixels": "a network trained on the pictures",
}
STAND_INS = {  # our backbones for the paper's
    "resnet18": ("resnet50-keras", "efficientnet-lite0"),
    "resnet34": ("resnet50-keras", OWN_RESNET34),
    "resnet50": ("resnet50-keras",),
    "vgg16": ("vgg16",),
    "surf-words": ("visual-words",),
}
LEARNERS = {  # our learners for the paper's methods
    "CBCL": "cbcl",
    "FLB": "flb",
    "NCM": "ncm",
    "VGG-16": "cbcl",
    "Trad-Agg": "trad-agg",
    "K-means": "k-means",
    "Single-Centroid-Pred": "cbcl",  # which has one voter where there is a budget
    "Remove-Centroids": "remove-centroids",
    "FearNet": "fearnet",
    "BiC": "bic",
    "ResNet-34": "joint-resnet34",
}
TRAINED = ("bic", "joint-resnet34")  # learners that are networks, trained on the pictures
TUNED = ("cbcl", "remove-centroids")  # learners with a D
LIMITED = (*TUNED, "trad-agg", "k-means")  # learners with a K


class Statistics(NamedTuple):
    """Table 1 and section 4.1, on one data set."""

    classes: int  # that take part,
    of: int  # of so many
    pictures: int
    training: int | float  # pictures of a class, or the share of them
    testing: int | float
    increments: tuple[int, ...]  # classes at a time


class Setting(NamedTuple):
    """The conditions of a number: in the paper, and where it is run again, here."""

    data: str
    backbone: str | None  # None: the paper does not say
    increment: int | None  # classes at a time; 100: in one batch; None: the paper does not say
    base: int | None = None  # classes of the first increment, where it differs
    shots: int | None = None  # None: all
    max_centroids: int | None = None  # None: means nothing to the learner
    learner: str | None = None  # ours; None: not run again here
    ours: tuple[str, ...] = ()  # our backbones that stand in for the paper's


class Claim(NamedTuple):
    """One number of the paper, in its unit: per cent, megabytes, or a share for Omega."""

    where: str
    what: str
    method: str  # the paper's name
    value: float
    std: float | None
    measure: Measure
    classes_seen: int | None  # for "after"
    protocol: Setting
    suspect: str | None = None  # why the number may not be what it is said to be
    rather: Measure | None = None  # what it may be instead


def _claim(
    where: str,
    data: str,
    method: str,
    measure: Measure,
    value: float,
    *,
    backbone: str | None = None,
    what: str | None = None,
    std: float | None = None,
    seen: int | None = None,
    increment: int | None = None,
    base: int | None = None,
    shots: int | None = None,
    limit: int | None = None,
    suspect: str | None = None,
    rather: Measure | None = None,
) -> Claim:
    learner = LEARNERS.get(method)
    most = limit or (BUDGETS[data] if learner in LIMITED else None)
    ours = STAND_INS[backbone] if learner and backbone else ()
    if learner in TRAINED:
        ours = ("pixels",)
    setting = Setting(data, backbone, increment, base, shots, most, learner, ours)
    if what is None and measure == "megabytes":
        what = f"{most} centroids"
    words = what or _describe(method, setting, seen, limit)
    reason = SUSPECTS[suspect] if suspect else None
    return Claim(where, words, method, value, std, measure, seen, setting, reason, rather)


def _describe(method: str, setting: Setting, seen: int | None, limit: int | None) -> str:
    parts = [method]
    if setting.shots:
        parts.append(f"{setting.shots} shots")
    if setting.increment:
        first = f"{setting.base}, then " if setting.base else ""
        step = f"{first}{setting.increment} an increment"
        parts.append("all at once" if setting.increment == 100 else step)
    if seen:
        parts.append(f"{seen} classes")
    if limit:
        parts.append(f"K = {limit}")
    return ", ".join(parts)


def _claims_of(part: dict[str, Any]) -> list[Claim]:
    common = {name: value for name, value in part.items() if name != "claims"}
    return [_claim(**{**common, **claim}) for claim in part["claims"]]


class Published(NamedTuple):
    """Numbers of a method in another paper or a public reproduction of it, in per cent."""

    method: str
    data: str
    setting: int  # classes at a time
    last: float
    source: str
    average: float | None = None
    first: float | None = None  # accuracy after the first increment


_DATA = tomllib.loads(files(__package__).joinpath("paper.toml").read_text("utf-8"))
BUDGETS: dict[str, int] = _DATA["limits"]  # K
ORDERS: int = _DATA["protocol"]["orders"]
RADII: list[float] = _DATA["protocol"]["radii"]  # D
UNREDUCED: int = _DATA["protocol"]["unreduced"]
FLB: dict[str, Any] = _DATA["flb"]
STATISTICS = {
    data: Statistics(**{**numbers, "increments": tuple(numbers["increments"])})
    for data, numbers in _DATA["statistics"].items()
}
SUSPECTS: dict[str, str] = _DATA["suspects"]
PUBLISHED = tuple(Published(**numbers) for numbers in _DATA["published"])
CLAIMS = tuple(claim for part in _DATA["part"] for claim in _claims_of(part))


def claims_at(*places: str) -> list[Claim]:
    return [claim for claim in CLAIMS if claim.where in places]


def find_claims(
    method: str,
    measure: Measure,
    data: str,
    *,
    increment: int | None = None,
    shots: int | None = None,
    where: str = "",
) -> list[Claim]:
    """Return the claims on these, at places that begin so; increment None: any."""
    claims = []
    for claim in CLAIMS:
        setting = claim.protocol
        about = (claim.method, claim.measure, setting.data, setting.shots)
        if about != (method, measure, data, shots) or not claim.where.startswith(where):
            continue
        if increment in (None, setting.increment):
            claims.append(claim)
    return claims


def only(
    method: str, measure: Measure, data: str, *, shots: int | None = None, where: str = ""
) -> Claim:
    """Return the one claim on these.

    >>> only("CBCL", "average", "caltech101", shots=5).value
    87.7
    """
    claims = find_claims(method, measure, data, shots=shots, where=where)
    if len(claims) != 1:
        raise ValueError(
            f"{len(claims)} claims are {measure} of {method} on {data} with shots={shots}: "
            "name one."
        )
    return claims[0]


def published(method: str, data: str, setting: int) -> Published | None:
    """Return a method's numbers in another paper, so many classes at a time, if they are known."""
    found = (one for one in PUBLISHED if (one.method, one.data) == (method, data))
    return next((one for one in found if one.setting == setting), None)
