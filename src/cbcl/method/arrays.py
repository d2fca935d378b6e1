"""Array types of the method, and the validation of its inputs."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32s: TypeAlias = NDArray[np.float32]
Float64s: TypeAlias = NDArray[np.float64]
Int64s: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.floating[Any]]  # checked, two-dimensional, float32 or float64

Number = TypeVar("Number", bound=np.generic)


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return an array as it is, or of what is none; a mask is an error, not left out of account."""
    check_unmasked(values, name)
    return np.asarray(values)


def check_unmasked(values: object, name: str) -> None:
    """Raise a ValueError where some of the values are masked."""
    parts = values if isinstance(values, list | tuple) else (values,)
    for part in parts:
        if isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part):
            raise ValueError(f"{name} hold masked values, which are unknown: fill or remove them.")


def as_matrix(vectors: ArrayLike, name: str = "vectors") -> Matrix:
    """Return vectors as a float32 or float64 matrix; one that is such already is not copied."""
    array = as_array(vectors, name)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(
            f"{name} must be a matrix, one row a vector: got an array of shape {array.shape}."
        )
    return array


def as_float32(block: Matrix) -> Float32s:
    """Return a block of vectors as they are learned and compared: float32, C-contiguous."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite; the kernels report that
        return np.require(block, np.float32, ["C", "A"])


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Make an array read-only, and return it."""
    array.flags.writeable = False
    return array


def not_finite(name: str) -> ValueError:
    return ValueError(
        f"{name} hold NaN, infinity or a number too large for float32: remove or scale such rows."
    )


def as_radius(radius: object) -> float:
    if not isinstance(radius, Real) or isinstance(radius, bool) or not float(radius) >= 0.0:
        raise ValueError(
            f"radius={radius!r} is not a distance: give a number of at least 0, or math.inf."
        )
    return float(radius)


def as_count(count: object, name: str) -> int:
    if not isinstance(count, Integral) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{name}={count!r} is not a count: give a whole number of at least 1.")
    return int(count)
