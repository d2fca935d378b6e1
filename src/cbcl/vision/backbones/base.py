"""What a backbone is: something that turns pictures, or anything else, into vectors, always the same way."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from cbcl.errors import PictureError
from cbcl.vision.decoding import Floats


class Backbone(Protocol):
    """Pictures in, vectors out. Two backbones with one fingerprint give the same vectors."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits, made from the weights and everything done to a picture before them."""

    @property
    def at_least(self) -> int | None:
        """Pixels a side that it needs of a picture; None: it takes things as they are, pictures or not."""

    @property
    def batch(self) -> int:
        """How many it is best given at a time."""

    @property
    def threads(self) -> bool:
        """Whether several threads may ask it at once."""

    @property
    def state(self) -> bytes:
        """What it was fitted to: kept in the memory, since nothing else has it."""

    def vectors(self, things: Sequence[Any]) -> Floats:
        """One row a thing."""


@runtime_checkable
class Fittable(Protocol):
    """What becomes a backbone by looking at pictures: the first that are learned."""

    @property
    def name(self) -> str: ...

    @property
    def at_least(self) -> int | None: ...

    def fit(self, pictures: Sequence[Image.Image]) -> Backbone: ...


def fingerprint(*parts: bytes | str | dict[str, Any]) -> str:
    """32 hexadecimal digits that differ when a part does.

    >>> fingerprint("efficientnet-lite0", {"size": 224})
    '468436fd51876a5fec4973a6d241b72b'
    """
    whole = sha256()
    for part in parts:
        text = json.dumps(part, sort_keys=True) if isinstance(part, dict) else part
        data = text.encode() if isinstance(text, str) else text
        whole.update(sha256(data).digest())
    return whole.hexdigest()[:32]


@dataclass(frozen=True)
class Function:
    """A function of the user's, from a list of anything to vectors. Its name stands for what it does."""

    function: Callable[[Sequence[Any]], ArrayLike]
    name: str
    at_least: int | None = (
        None  # to be given pictures of that many pixels a side, rather than things
    )

    batch: ClassVar[int] = 32
    threads: ClassVar[bool] = False
    state: ClassVar[bytes] = b""

    @property
    def fingerprint(self) -> str:
        return fingerprint("function", self.name)

    def vectors(self, things: Sequence[Any]) -> Floats:
        with np.errstate(
            over="ignore"
        ):  # what is too large for float32 is infinite, which learning refuses
            vectors = np.asarray(self.function(things), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(things):
            raise ValueError(
                f"{self.name} must give one vector for each of {len(things)} things, but gave shape {vectors.shape}."
            )
        return vectors


def _as_they_are(things: Sequence[Any]) -> Any:
    try:
        return np.asarray(things, dtype=np.float64)
    except (TypeError, ValueError):
        raise PictureError(
            "identity takes vectors, all of one length, and these are something else."
        ) from None


IDENTITY = Function(_as_they_are, "identity")
