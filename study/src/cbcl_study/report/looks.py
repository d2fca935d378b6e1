"""Colour, dashes and marker of each learner, the same in all figures: ours in colour."""

from __future__ import annotations

from cbcl_study.learners import LOGISTIC
from cbcl_study.report.figures import Look

DOTS, DASHES, LONG = (0, (1, 1.5)), (0, (4, 2)), (0, (8, 2))
DASH_DOT = (0, (5, 1.5, 1, 1.5))
OTHER = Look("quiet", "-", ".")
LOOKS = {
    "discriminant": Look("blue", "-", "^", width=1.7),
    "cbcl": Look("orange", "-", "o", width=1.7),
    "ncm": Look("green", DASHES, "v"),
    "slda": Look("purple", DASH_DOT, "s"),
    "slda-roots": Look("purple", DASHES, "X"),
    "ranpac": Look("quiet", DASHES, "D"),
    "ranpac-10000": Look("quiet", LONG, "d"),
    LOGISTIC: Look("ink", LONG, "P"),
    "probe": Look("ink", DOTS, "p"),
    "knn": Look("quiet", DOTS, "*"),
    "flb": Look("green", DOTS, "<"),
    "fearnet": Look("purple", DOTS, ">"),
    "mlp": Look("ink", DASHES, "h"),
    "ft": Look("quiet", DOTS, "x"),
    "lwf-mc": Look("quiet", DASHES, "s", is_hollow=True),
    "lwm": Look("quiet", DASH_DOT, "D", is_hollow=True),
    "icarl": Look("ink", DASHES, "v", is_hollow=True),
    "icarl-hybrid1": Look("ink", DOTS, "<", is_hollow=True),
    "eeil": Look("ink", DASH_DOT, "^", is_hollow=True),
    "bic": Look("ink", "-", "o", is_hollow=True),
    "remove-centroids": Look("ink", DASHES, "s"),
    "joint": Look("ink", LONG),
    "joint-resnet34": Look("ink", DOTS),
}


def look_of(learner: str) -> Look:
    return LOOKS.get(learner, OTHER)
