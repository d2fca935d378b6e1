"""Weights in archives of other frameworks: pickles of numpy arrays, and the files in a .tar.gz."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import tarfile
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cbcl.vision.weights.safe_pickle import Refused, are_counts, known_name, naming, next_pickle

Tensor: TypeAlias = NDArray[Any]

MAX_UNPACKED = 512 << 20  # of a compressed archive


def read_numpy_pickle(data: bytes, name: str = "the pickle") -> object:
    """A pickle of numpy arrays and numbers in dicts, lists and tuples; arrays of objects are refused.

    >>> read_numpy_pickle(pickle.dumps({"kernel": np.float32([1, 2])}))
    {'kernel': array([1., 2.], dtype=float32)}
    """
    with naming(
        name, "download it again, or give a pickle of numpy arrays and plain numbers alone"
    ):
        return _plain(NumpyUnpickler(io.BytesIO(next_pickle(io.BytesIO(data)))).load(), {})


class Dtype:
    """Stands in for numpy.dtype, which would believe whatever state it is given."""

    def __init__(self, code: str, *_: object) -> None:
        if not re.fullmatch(r"[biufc](1|2|4|8|16)", code):
            raise Refused(f"holds an array of {code!r}, which are no numbers")
        self.code = code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = {"<": "<", ">": ">", "|": "|"}[state[1]]


class Array:
    """Stands in for numpy.ndarray until it is told its state."""

    array: Tensor | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.array = _array(data, dtype, shape, "F" if is_fortran else "C")


def _array(data: bytes, dtype: Dtype, shape: tuple[int, ...], order: str, *_: object) -> Tensor:
    numbers = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
    if not are_counts(shape) or prod(shape) != len(numbers):
        raise Refused(f"is damaged: it has {len(numbers)} numbers for an array of shape {shape}")
    return numbers.reshape(shape, order="F" if order == "F" else "C")


class NumpyUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        known: dict[str, object] = {
            "numpy.dtype": Dtype,
            "numpy.ndarray": "ndarray",
            "numpy.core.multiarray._reconstruct": Array,
            "numpy.core.multiarray.scalar": self.scalar,
            "numpy.core.numeric._frombuffer": self.from_buffer,
        }
        # numpy 2 renamed numpy.core
        return known_name(known, module.replace("numpy._core", "numpy.core"), name, "numpy arrays")

    def scalar(self, dtype: Dtype, data: bytes) -> object:
        return _array(data, dtype, (), "C")[()]

    def from_buffer(self, *described: Any) -> Tensor:
        return _array(*described)


def _plain(value: object, seen: dict[int, object]) -> object:
    """The same with arrays for their stand-ins; what is met twice is converted once, so nesting cannot multiply."""
    if id(value) in seen:
        return seen[id(value)]
    match value:
        case (
            None
            | bool()
            | int()
            | float()
            | complex()
            | str()
            | bytes()
            | np.generic()
            | np.ndarray()
        ):
            return value
        case Array(array=np.ndarray() as array):
            plain: object = array
        case dict():
            plain = {_plain(key, seen): _plain(item, seen) for key, item in value.items()}
        case list():
            plain = [_plain(item, seen) for item in value]
        case tuple():
            plain = tuple(_plain(item, seen) for item in value)
        case _:
            raise Refused(
                f"holds a {type(value).__name__}, which is neither an array nor a plain number"
            )
    seen[id(value)] = plain
    return plain


def read_members(source: Path, pattern: str) -> dict[str, bytes]:
    """The files of a .tar.gz archive whose names match, by name; nothing is written to disk."""
    with gzip.open(source) as stream:
        content = stream.read(MAX_UNPACKED + 1)
    if len(content) > MAX_UNPACKED:
        raise Refused(f"unpacks to more than {MAX_UNPACKED} bytes")
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        members = [member for member in archive if re.fullmatch(pattern, member.name)]
        if any(
            not member.isreg() or member.issparse() or member.size > len(content)
            for member in members
        ):
            raise Refused("has a link or a hole where a file should be")
        return {
            member.name: file.read() for member in members if (file := archive.extractfile(member))
        }
