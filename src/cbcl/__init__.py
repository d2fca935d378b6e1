"""Centroid-Based Concept Learning: new classes from few examples, one after another.

The names below are the public interface: no other name is promised to stay where it is.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cbcl.errors import (
    BackboneError,
    CBCLError,
    DataError,
    LabelError,
    MemoryFileError,
    PictureError,
    WeightsError,
)

if TYPE_CHECKING:
    from cbcl.client import Client
    from cbcl.method.centroids.budget import reduce
    from cbcl.method.centroids.concepts import agg_var
    from cbcl.method.centroids.tuning import tune
    from cbcl.method.centroids.voting import vote
    from cbcl.method.classifiers import CBCLClassifier, DiscriminantClassifier
    from cbcl.recognition.answer import Answer
    from cbcl.recognition.recognizer import Recognizer
    from cbcl.recognition.snapshot import Snapshot
    from cbcl.vision.backbones import load_backbone

__version__ = version("cbcl")

__all__ = [
    "Answer",
    "BackboneError",
    "CBCLClassifier",
    "CBCLError",
    "Client",
    "DataError",
    "DiscriminantClassifier",
    "LabelError",
    "MemoryFileError",
    "PictureError",
    "Recognizer",
    "Snapshot",
    "WeightsError",
    "__version__",
    "agg_var",
    "load_backbone",
    "reduce",
    "tune",
    "vote",
]

# Imported on first use: scikit-learn alone takes most of a second, and a command starts often.
_MODULES = {
    "Answer": "cbcl.recognition.answer",
    "CBCLClassifier": "cbcl.method.classifiers",
    "Client": "cbcl.client",
    "DiscriminantClassifier": "cbcl.method.classifiers",
    "Recognizer": "cbcl.recognition.recognizer",
    "Snapshot": "cbcl.recognition.snapshot",
    "agg_var": "cbcl.method.centroids.concepts",
    "load_backbone": "cbcl.vision.backbones",
    "reduce": "cbcl.method.centroids.budget",
    "tune": "cbcl.method.centroids.tuning",
    "vote": "cbcl.method.centroids.voting",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return __all__
