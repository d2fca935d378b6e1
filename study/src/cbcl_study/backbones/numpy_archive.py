"""Weights from other frameworks: pickles of numpy arrays, and the files in a .tar.gz archive."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import tarfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import Subject
from cbcl.vision.weights.safe_pickle import (
    FileFormatError,
    are_non_negative_ints,
    convert_errors,
    read_pickle_bytes,
    resolve_global,
)

SCALARS = bool | int | float | complex | str | bytes | np.generic | np.ndarray | None

MAX_UNPACKED_BYTES = 512 << 20  # of a compressed archive


def read_numpy_pickle(data: bytes, name: Subject = "the pickle") -> object:
    """Return numpy arrays and numbers in dicts, lists and tuples; arrays of objects are refused.

    >>> read_numpy_pickle(pickle.dumps({"kernel": np.float32([1, 2])}))
    {'kernel': array([1., 2.], dtype=float32)}
    """
    advice = "download it again, or give a pickle of numpy arrays and plain numbers alone"
    with convert_errors(name, advice):
        checked = io.BytesIO(read_pickle_bytes(io.BytesIO(data)))
        return _replace_stand_ins(NumpyUnpickler(checked).load(), {})


class Dtype:
    """Stand-in for numpy.dtype, which does not check the state it is given."""

    def __init__(self, code: str, *_: object) -> None:
        if not re.fullmatch(r"[biufc](1|2|4|8|16)", code):
            raise FileFormatError(f"holds an array of {code!r}, which are not numbers")
        self.code = code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = {"<": "<", ">": ">", "|": "|"}[state[1]]


class Array:
    """Stand-in for numpy.ndarray; `array` is set with the state."""

    array: NDArray[Any] | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.array = _make_array(data, dtype, shape, "F" if is_fortran else "C")


def _make_array(
    data: bytes, dtype: Dtype, shape: tuple[int, ...], order: str, *_: object
) -> NDArray[Any]:
    numbers = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
    if not are_non_negative_ints(shape) or prod(shape) != len(numbers):
        problem = f"is damaged: it has {len(numbers)} numbers for an array of shape {shape}"
        raise FileFormatError(problem)
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
        module = module.replace("numpy._core", "numpy.core")  # which numpy 2 renamed
        return resolve_global(known, module, name, "numpy arrays")

    def scalar(self, dtype: Dtype, data: bytes) -> object:
        return _make_array(data, dtype, (), "C")[()]

    def from_buffer(self, *arguments: Any) -> NDArray[Any]:
        return _make_array(*arguments)


def _replace_stand_ins(value: object, done: dict[int, object]) -> object:
    """Put arrays in place of stand-ins, each object once (`done`, by id), however often nested."""
    if isinstance(value, SCALARS):
        return value
    if id(value) in done:
        return done[id(value)]
    match value:
        case Array(array=np.ndarray() as array):
            plain: object = array
        case dict():
            plain = {
                _replace_stand_ins(key, done): _replace_stand_ins(item, done)
                for key, item in value.items()
            }
        case list():
            plain = [_replace_stand_ins(item, done) for item in value]
        case tuple():
            plain = tuple(_replace_stand_ins(item, done) for item in value)
        case _:
            kind = type(value).__name__
            raise FileFormatError(f"holds a {kind}, which is neither an array nor a plain number")
    done[id(value)] = plain
    return plain


def read_members(source: Path, pattern: str) -> dict[str, bytes]:
    """Return the files of a .tar.gz archive whose names match; nothing is written to disk."""
    with gzip.open(source) as stream:
        content = stream.read(MAX_UNPACKED_BYTES + 1)
    if len(content) > MAX_UNPACKED_BYTES:
        raise FileFormatError(f"unpacks to more than {MAX_UNPACKED_BYTES} bytes")
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        members = [member for member in archive if re.fullmatch(pattern, member.name)]
        for member in members:
            if not member.isreg() or member.issparse() or member.size > len(content):
                raise FileFormatError("has a link or a hole where a file should be")
        return {
            member.name: file.read() for member in members if (file := archive.extractfile(member))
        }
