"""The interface of backbones, which turn pictures, or anything else, into vectors; their names.

Networks side by side are named A+B, views of a picture A@2views.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from cbcl.errors import PictureError, Subject
from cbcl.vision.decoding import Floats

VIEWS = ("@2views", "@whole", "@centre")  # suffixes: both views, or one of them


class Backbone(Protocol):
    """Pictures in, vectors out. Two backbones with one fingerprint give the same vectors."""

    @property
    def name(self) -> str: ...

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits of the weights and of all preprocessing."""

    @property
    def description(self) -> dict[str, Any]:
        """Preprocessing as JSON, for records; empty: unknown, or none."""

    @property
    def at_least(self) -> int | None:
        """Least pixels a side that a decoder must leave; None: things are not decoded."""

    @property
    def batch(self) -> int:
        """Best number of pictures for a call of `vectors`."""

    @property
    def threads(self) -> bool:
        """True if several threads may call `vectors` at once."""

    @property
    def state(self) -> bytes:
        """Fitted parameters, kept in the memory; empty for a pretrained network."""

    def vectors(self, things: Sequence[Any]) -> Floats:
        """Return one row per thing."""


@runtime_checkable
class Fittable(Protocol):
    """A backbone to be fitted to the first pictures that are learned."""

    @property
    def name(self) -> str: ...

    @property
    def at_least(self) -> int | None: ...

    def fit(self, pictures: Sequence[Image.Image]) -> Backbone: ...

    def restore(self, state: bytes) -> Backbone:
        """Return the fitted backbone of this `state`."""


def fingerprint(*parts: bytes | str | dict[str, Any]) -> str:
    """Return 32 hexadecimal digits that differ when a part does.

    >>> fingerprint("efficientnet-lite0", {"size": 224})
    '468436fd51876a5fec4973a6d241b72b'
    """
    digest = sha256()
    for part in parts:
        text = json.dumps(part, sort_keys=True) if isinstance(part, dict) else part
        # The text of a foreign file may have halves of characters, which UTF-8 cannot encode.
        data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
        digest.update(sha256(data).digest())
    return digest.hexdigest()[:32]


def is_file(name: str) -> bool:
    """Tell whether the name of a network is that of its file."""
    return name.endswith(".onnx")


def split_name(name: str) -> list[str]:
    """Return the parts of a name; the path of a file that exists may have a + in it.

    >>> split_name("resnet18@2views+resnet34")
    ['resnet18@2views', 'resnet34']
    """
    return [name] if is_file(name) and Path(name).exists() else name.split("+")


def split_views(part: str) -> tuple[str, str]:
    """Return the name of a network and the suffix of its views, which may be empty.

    >>> split_views("resnet18@2views"), split_views("resnet34")
    (('resnet18', '@2views'), ('resnet34', ''))
    """
    views = next((views for views in VIEWS if part.endswith(views)), "")
    return part.removesuffix(views), views


def network_names(name: str) -> list[str]:
    """Return the names of the networks in a backbone.

    >>> network_names("resnet18@2views+resnet34")
    ['resnet18', 'resnet34']
    """
    return [split_views(part)[0] for part in split_name(name)]


def map_files(name: str, change: Callable[[str], str]) -> str:
    """Return a name with its paths of files changed."""
    parts = []
    for part in split_name(name):
        network, views = split_views(part)
        parts.append(change(network) + views if is_file(network) else part)
    return "+".join(parts)


def short_name(name: str) -> str:
    """Return a name without the folders of files.

    >>> short_name("/home/ann/net.onnx@2views+timm/resnet18")
    'net.onnx@2views+timm/resnet18'
    """
    return map_files(name, lambda path: Path(path).name)


def subject_of(name: str) -> Subject:
    """Return a backbone's name as the subject of an error: a path if it is a file."""
    return Path(name) if split_name(name) == [name] and is_file(name) else short_name(name)


@dataclass(frozen=True)
class Function:
    """A user's function from a list of any things to vectors, identified by its name."""

    function: Callable[[Sequence[Any]], ArrayLike]
    name: str
    at_least: int | None = None  # pixels a side of its pictures; None: it takes any things

    batch: ClassVar[int] = 32
    threads: ClassVar[bool] = False
    state: ClassVar[bytes] = b""

    @property
    def fingerprint(self) -> str:
        return fingerprint("function", self.name)

    @property
    def description(self) -> dict[str, Any]:
        return {}

    def vectors(self, things: Sequence[Any]) -> Floats:
        # Numbers too large for float32 become infinite, which learning refuses.
        with np.errstate(over="ignore"):
            vectors = np.asarray(self.function(things), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(things):
            raise ValueError(
                f"{self.name} must give one vector for each of {len(things)} things, "
                f"but gave shape {vectors.shape}."
            )
        return vectors


def _as_vectors(things: Sequence[Any]) -> Any:
    try:
        return np.asarray(things, dtype=np.float64)
    except (TypeError, ValueError):
        problem = "takes vectors, all of one length, and these are something else"
        raise PictureError("identity", problem) from None


IDENTITY = Function(_as_vectors, "identity")
