"""Contents of a memory: vectors to learn, and what is known, to be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cbcl import Recognizer
from cbcl.heads.base import Settings
from cbcl.memory.packing import pack_class
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.store import Memory


def some(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return vectors for a memory of the backbone "identity"."""
    return np.random.default_rng(seed).normal(size=(count, 8)).astype(np.float32)


def known(recognizer: Recognizer) -> dict[str, Any]:
    """Return all that is known, bit by bit, except the numbers of examples.

    Of each label: the parts that its class is stored in, and its examples. The negatives, if there
    are any, are under the empty label.
    """
    memory = recognizer._memory
    view = memory.view()
    return {
        label: (
            pack_class(label, stored, view.head)[:-1],
            [
                (one.place, one.rank, one.jpeg, one.vector.tobytes())
                for one in memory.thumbnails(view, label)
            ],
        )
        for label, stored in memory.load(view, view.rows).items()
    }


def described(memory: Memory) -> tuple[MemoryInfo, Settings]:
    """Return what a memory says about itself."""
    view = memory.view()
    return view.about, view.settings


@contextmanager
def pair(folder: Path, backbone: Any = "identity", **options: Any) -> Iterator[list[Recognizer]]:
    """Two new memories with the same options."""
    names = ("a.cbcl", "b.cbcl")
    with ExitStack() as stack:
        yield [
            stack.enter_context(Recognizer(folder / name, backbone, **options)) for name in names
        ]
