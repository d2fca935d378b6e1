"""Backbones by name, by file or by function."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from cbcl.errors import WeightsError
from cbcl.vision.backbones.base import IDENTITY, Backbone, Fittable, Function
from cbcl.vision.backbones.catalogue import RECIPES, is_there, network
from cbcl.vision.backbones.network import read_network
from cbcl.vision.backbones.visual_words import UnfittedWords, VisualWords

DEFAULT = "efficientnet-lite0"


def load_backbone(
    source: str
    | os.PathLike[str]
    | Callable[[Sequence[Any]], ArrayLike]
    | Backbone
    | Fittable = DEFAULT,
    *,
    name: str | None = None,
    at_least: int | None = None,
) -> Backbone | Fittable:
    """What turns pictures, or anything else, into vectors.

    `source` is a name (`cbcl backbones list` tells them; "timm/NAME" with the extra `torch`), an ONNX file with a
    description of its preprocessing beside it (docs/backbones.md), or a function of your own that gives one vector for
    each of the things it is given. Such a function needs a `name`, which stands for it in the memory; with `at_least`,
    it is given pictures (PIL, RGB, upright) of no fewer pixels a side, else whatever you learn: text, sound, anything.

    >>> load_backbone(lambda words: [[len(word), word.count("e")] for word in words], name="letters").vectors(["tree"])
    array([[4., 2.]], dtype=float32)
    """
    if isinstance(source, str | os.PathLike):
        return _by_name(os.fspath(source))
    if hasattr(source, "vectors") or hasattr(source, "fit"):
        return cast("Backbone | Fittable", source)
    if not callable(source):
        raise ValueError(f"{source!r} is no backbone: give a name, an ONNX file or a function.")
    if not name:
        raise ValueError(
            "a function needs a name, which stands for it in the memory: name='my-encoder-1'."
        )
    return Function(source, name, at_least)


def restore(name: str, state: bytes) -> Backbone:
    """The backbone that a memory was learned through."""
    if name == UnfittedWords.name:
        return VisualWords.from_state(state)
    return cast("Backbone", _by_name(name))  # none of the others is to be fitted


def _by_name(name: str) -> Backbone | Fittable:
    if name in RECIPES:
        return network(name)
    if name == IDENTITY.name:
        return IDENTITY
    if name == UnfittedWords.name:
        return UnfittedWords()
    if name.startswith("timm/"):
        from cbcl.vision.backbones.pytorch import load_timm

        return load_timm(name)
    if name.endswith(".onnx"):
        return read_network(Path(name), name)
    known = [*RECIPES, UnfittedWords.name, IDENTITY.name]
    raise WeightsError(
        f"there is no backbone {name!r}: there are {', '.join(known)}, timm/NAME, and any file .onnx."
    )


def described() -> list[tuple[str, str, str, str]]:
    """The backbones known by name: name, numbers in a vector, whether it is here, where its weights come from."""
    rows = [
        (name, str(recipe.dimension), "yes" if is_there(name) else "no", recipe.weights)
        for name, recipe in RECIPES.items()
    ]
    words = (
        UnfittedWords.name,
        str(UnfittedWords().words),
        "yes",
        "made from the first pictures learned",
    )
    return [
        *rows,
        words,
        (IDENTITY.name, "any", "yes", "none: for vectors"),
        ("timm/NAME", "any", "", "downloaded by timm"),
    ]


def tried(name: str) -> tuple[str, str, str, str]:
    """Run a backbone on a made-up picture: name, numbers in a vector, fingerprint, pictures a second."""
    backbone = load_backbone(name)
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (480, 640, 3), dtype=np.uint8))
    ready = backbone.fit([picture]) if isinstance(backbone, Fittable) else backbone
    if ready.at_least is None:
        raise WeightsError(f"{name} takes no pictures.")
    first = ready.vectors([picture])
    begun = perf_counter()
    again = [ready.vectors([picture]), ready.vectors([picture])]
    if not all((vectors == first).all() for vectors in again):
        raise WeightsError(
            f"{name} gives another vector for the same picture: it cannot be relied on."
        )
    return name, str(first.shape[1]), ready.fingerprint, f"{2 / (perf_counter() - begun):.0f}"
