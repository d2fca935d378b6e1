"""Contents of a memory, to be compared."""

from __future__ import annotations

from typing import Any

from cbcl import Recognizer


def known(recognizer: Recognizer) -> dict[str, Any]:
    """Return all that is known, bit by bit, except the numbers of examples."""
    memory = recognizer._memory
    view = memory.view()
    return {
        label: (
            stored.concepts.centroids.tobytes(),
            stored.concepts.counts.tobytes(),
            stored.spread,
            [
                (one.centroid, one.rank, one.jpeg, one.vector.tobytes())
                for one in memory.thumbnails(view, label)
            ],
        )
        for label, stored in memory.load(view).items()
    }
