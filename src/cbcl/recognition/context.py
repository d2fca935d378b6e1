"""Context that a head works in: the settings of a memory, and numbers of its backbone."""

from __future__ import annotations

import math

from cbcl.heads.base import Context
from cbcl.memory.state import MemoryState
from cbcl.recognition.cosines import measured_of
from cbcl.vision.backbones.catalogue import is_catalogued

INITIAL_LIMIT = 0.8  # relative distance: see `initial_limit_of`


def context_of(state: MemoryState) -> Context:
    """Return the settings of a memory, and what is known of its backbone."""
    about = state.about
    return Context(
        state.settings,
        about.private,
        not state.rows,
        measured_of(about),
        initial_limit_of(about.backbone),
    )


def initial_limit_of(backbone: str) -> float:
    """Return the distance that is too far while too little was learned to tell.

    It fits the networks known by name: on the photos of three data sets it keeps 80 to 97 of 100
    photos of the one class that is known from one to three photos; docs/method.md has what it
    refuses. For any other backbone nothing is known, and there is no limit.
    """
    return INITIAL_LIMIT if is_catalogued(backbone) else math.inf
