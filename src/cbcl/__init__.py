"""Centroid-Based Concept Learning: new classes from a few examples, one after another, without forgetting."""

from importlib.metadata import version

from cbcl.method.budget import merge, reduce, remove
from cbcl.method.classifier import CBCLClassifier, Evidence
from cbcl.method.concepts import Concepts, agg_var
from cbcl.method.tuning import Tuning, tune
from cbcl.method.voting import rank_vote, vote

__version__ = version("cbcl")

__all__ = [
    "CBCLClassifier",
    "Concepts",
    "Evidence",
    "Tuning",
    "__version__",
    "agg_var",
    "merge",
    "rank_vote",
    "reduce",
    "remove",
    "tune",
    "vote",
]
