"""Contents of a page without a server: a graph, and examples that it may show beside an answer.

d features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from cbcl.heads.base import ClassRecord, HeadModel
from cbcl.method.arrays import Float32s

MAX_PER_LABEL = 12  # examples, the latest: a person looks at three


class PortableExample(NamedTuple):
    """A picture that was learned, to be shown where it is near."""

    label: str
    jpeg: bytes
    direction: Float32s  # (d,)


class PortableModel(NamedTuple):
    """A graph for pictures of any size, and what a page shows beside its answers."""

    graph: bytes
    labels: list[str]
    at_least: int  # pixels a side that are enough
    examples: Sequence[PortableExample]  # in the order of the output `example_distance`


def portable_examples(
    model: HeadModel, records: Mapping[str, ClassRecord[Any]]
) -> list[PortableExample]:
    """Return the latest examples of every label whose vectors and thumbnails are kept."""
    shown: list[PortableExample] = []
    for label, record in records.items():
        of_label = []
        for example in record.examples:
            direction = model.vector_of(label, example)
            if direction is not None and example.jpeg:
                of_label.append(PortableExample(label, example.jpeg, direction))
        shown += of_label[-MAX_PER_LABEL:]
    return shown
