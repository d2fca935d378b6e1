"""Centroid-Based Concept Learning: new classes from a few examples, one after another, without forgetting."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cbcl.errors import (
    BackboneError,
    CBCLError,
    LabelError,
    MemoryFileError,
    PictureError,
    WeightsError,
)

if TYPE_CHECKING:
    from cbcl.method.budget import merge, reduce
    from cbcl.method.classifier import CBCLClassifier
    from cbcl.method.concepts import Concepts, agg_var
    from cbcl.method.knowledge import Evidence
    from cbcl.method.tuning import Tuning, tune
    from cbcl.method.voting import vote
    from cbcl.recognition.answer import Answer
    from cbcl.recognition.recognizer import Recognizer
    from cbcl.vision.backbones import load_backbone

__version__ = version("cbcl")

__all__ = [
    "Answer",
    "BackboneError",
    "CBCLClassifier",
    "CBCLError",
    "Concepts",
    "Evidence",
    "LabelError",
    "MemoryFileError",
    "PictureError",
    "Recognizer",
    "Tuning",
    "WeightsError",
    "__version__",
    "agg_var",
    "load_backbone",
    "merge",
    "reduce",
    "tune",
    "vote",
]

# Loaded when asked for: scikit-learn alone takes most of a second, and a command line is started often.
_HOMES = {
    "Answer": "cbcl.recognition.answer",
    "CBCLClassifier": "cbcl.method.classifier",
    "Concepts": "cbcl.method.concepts",
    "Evidence": "cbcl.method.knowledge",
    "Recognizer": "cbcl.recognition.recognizer",
    "Tuning": "cbcl.method.tuning",
    "agg_var": "cbcl.method.concepts",
    "load_backbone": "cbcl.vision.backbones",
    "merge": "cbcl.method.budget",
    "reduce": "cbcl.method.budget",
    "tune": "cbcl.method.tuning",
    "vote": "cbcl.method.voting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
