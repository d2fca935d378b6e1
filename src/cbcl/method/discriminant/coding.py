"""Rows of numbers in few bytes: 16, eight or four bits a number, and a scale for each row.

n rows, d numbers. What is stored is what is computed with, so a memory answers the same before and
after it is saved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s, Matrix, read_only
from cbcl.method.discriminant.directions import MIN_EMBEDDING

Codes = NDArray[np.int8]
FOUR_BIT_STEP = 0.335  # of a row's root mean square: the least error for a normal distribution


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Rows as whole numbers, to be multiplied by their scales; measurements as they are."""

    codes: NDArray[Any]  # (n, d), int8 or int16; float32 for measurements
    scales: Float32s  # (n,)

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def values(self) -> Float32s:
        """The rows: (n, d)."""
        values: Float32s = self.codes * self.scales[:, np.newaxis]
        return values

    def take(self, rows: slice | NDArray[np.int64]) -> CodedRows:
        """Return some of the rows."""
        return CodedRows(read_only(self.codes[rows]), read_only(self.scales[rows]))

    def join(self, other: CodedRows) -> CodedRows:
        """Return these rows and the others."""
        return CodedRows(
            read_only(np.concatenate([self.codes, other.codes])),
            read_only(np.concatenate([self.scales, other.scales])),
        )


def encode(rows: Matrix, bits: int = 8) -> CodedRows:
    """Code rows in 16, eight or four bits; those of fewer than 64 numbers stay as they are.

    >>> row = np.linspace(-1.0, 1.0, 64)[np.newaxis]
    >>> bool(np.abs(encode(row).values - row).max() < 1 / 200)
    True
    """
    n, d = rows.shape
    if d < MIN_EMBEDDING:
        values = np.ascontiguousarray(rows, dtype=np.float32)
        return CodedRows(read_only(values.copy()), read_only(np.ones(n, dtype=np.float32)))
    if bits == 4:
        mean_squares = np.einsum("nd,nd->n", rows, rows, dtype=np.float64) / d
        steps = FOUR_BIT_STEP * np.sqrt(mean_squares)
        most = 7
    else:
        most = (1 << (bits - 1)) - 1
        steps = np.abs(rows).max(axis=1, initial=0.0) / most
    scales = steps.astype(np.float32)
    scales[scales < np.finfo(np.float32).tiny] = 1.0  # of a row of zeros
    codes = rows / scales[:, np.newaxis]
    np.rint(codes, out=codes)
    np.clip(codes, -most, most, out=codes)
    whole = codes.astype(np.int16 if bits == 16 else np.int8)
    return CodedRows(read_only(whole), read_only(scales))


def empty_rows(d: int) -> CodedRows:
    """Return no rows, of d numbers."""
    return encode(np.empty((0, d), dtype=np.float32))


def pack_four_bits(codes: Codes) -> NDArray[np.uint8]:
    """Return codes from -8 to 7 two to a byte: (n, d) to (n, ceil(d / 2)).

    >>> unpack_four_bits(pack_four_bits(np.int8([[-7, 7, 3]])), 3).tolist()
    [[-7, 7, 3]]
    """
    n, d = codes.shape
    nibbles = np.zeros((n, d + d % 2), dtype=np.uint8)
    nibbles[:, :d] = codes.astype(np.uint8) & 15
    packed: NDArray[np.uint8] = nibbles[:, ::2] | (nibbles[:, 1::2] << 4)
    return packed


def unpack_four_bits(packed: NDArray[np.uint8], d: int) -> Codes:
    """Return what `pack_four_bits` packed: (n, d)."""
    nibbles = np.empty((len(packed), 2 * packed.shape[1]), dtype=np.uint8)
    nibbles[:, ::2] = packed & 15
    nibbles[:, 1::2] = packed >> 4
    return ((nibbles[:, :d] ^ 8).astype(np.int8) - 8).astype(np.int8)
