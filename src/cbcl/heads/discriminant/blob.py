"""Statistics of a class as bytes, and back, checked both ways.

k views, d features. The bytes are a header and the arrays one after the other, in the order of
`_layout`: little-endian, without gaps.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import MAX_COUNT
from cbcl.method.arrays import read_only
from cbcl.method.discriminant.coding import CodedRows, pack_four_bits, unpack_four_bits
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.discriminant.statistics import (
    COARSE_AXES,
    FINE_AXES,
    MAX_SKETCHES,
    MAX_VIEWS,
    MAX_WITNESSES,
    ClassStatistics,
    Sketches,
    ViewSummary,
)

BLOB_VERSION = 1
HEADER = struct.Struct("<BqqHHH")  # version, n, n folded (0: no summary), views, fine, coarse
MAX_SCALE = float(np.finfo(np.float32).max) / (1 << 15)  # above it, 16 bits of it are infinite


def pack_statistics(statistics: ClassStatistics) -> bytes:
    """Return all but the sketches; ValueError: they could not be read again."""
    d, views, folded = statistics.dimension, statistics.views, statistics.summary
    check_statistics(statistics, d)
    if folded is None:
        counts = (0, len(views), 0, 0)
        arrays = [views.codes, views.scales]
    else:
        counts = (folded.n, len(views), len(folded.fine), len(folded.coarse))
        coarse = folded.coarse.codes
        arrays = [views.codes, views.scales, folded.mean.codes, folded.mean.scales]
        arrays += [folded.fine.codes, folded.fine.scales]
        arrays += [coarse if d < MIN_EMBEDDING else pack_four_bits(coarse), folded.coarse.scales]
        arrays += [folded.rest]
    record = np.empty((), _layout(d, *counts))
    for name, array in zip(record.dtype.names or (), arrays, strict=True):
        record[name] = array
    return HEADER.pack(BLOB_VERSION, statistics.n, *counts) + record.tobytes()


def unpack_statistics(blob: bytes, sketches: Sketches, d: int) -> ClassStatistics:
    """Read what `pack_statistics` returned; ValueError: it is not that."""
    try:
        version, n, *counts = HEADER.unpack_from(blob)
    except struct.error:
        raise ValueError("the header is cut off") from None
    n_folded, k, fine, coarse = counts
    if version != BLOB_VERSION or k > MAX_VIEWS or fine > FINE_AXES or coarse > COARSE_AXES:
        raise ValueError("the header is invalid")
    layout = _layout(d, *counts)
    if len(blob) != HEADER.size + layout.itemsize:
        raise ValueError(f"{len(blob)} bytes are not {HEADER.size + layout.itemsize}")
    record = np.frombuffer(blob, layout, 1, HEADER.size)[0]
    summary = None
    if n_folded:
        codes = record["coarse"] if d < MIN_EMBEDDING else unpack_four_bits(record["coarse"], d)
        summary = ViewSummary(
            n_folded,
            CodedRows(_native(record["mean"]), _native(record["mean_scale"])),
            CodedRows(_native(record["fine"]), _native(record["fine_scales"])),
            CodedRows(_native(codes), _native(record["coarse_scales"])),
            _native(record["rest"]),
        )
    views = CodedRows(_native(record["views"]), _native(record["view_scales"]))
    statistics = ClassStatistics(n, views, sketches, summary)
    check_statistics(statistics, d)
    return statistics


def check_statistics(statistics: ClassStatistics, d: int) -> None:
    """Raise ValueError for statistics of d features that no learning gives."""
    n, views, summary = statistics.n, statistics.views, statistics.summary
    sketches = statistics.sketches
    k, n_sketches = len(views), len(sketches)
    kinds = kinds_of_numbers(d)
    if summary is None:
        possible = k == n == n_sketches <= MAX_VIEWS
    else:
        possible = 1 <= summary.n <= n and n - summary.n <= k <= MAX_WITNESSES
        possible = possible and n_sketches <= MAX_SKETCHES
    if (sketches.shape, sketches.dtype.name) != ((n_sketches,), "uint64"):
        raise ValueError("the sketches are invalid")
    if not possible or not 1 <= n < MAX_COUNT:
        raise ValueError(f"{n} vectors cannot have {k} views and {n_sketches} sketches")
    _check_rows(views, kinds[0], d, MAX_VIEWS)
    if summary is not None:
        if len(summary.mean) != 1:
            raise ValueError("there is not one mean")
        _check_rows(summary.mean, kinds[1], d, 1)
        _check_rows(summary.fine, kinds[0], d, FINE_AXES)
        _check_rows(summary.coarse, kinds[0], d, COARSE_AXES)
        coarse, rest = summary.coarse.codes, summary.rest
        if d >= MIN_EMBEDDING and len(coarse) and (coarse.min() < -8 or coarse.max() > 7):
            raise ValueError("the coarse axes are not of four bits")
        if (rest.shape, rest.dtype) != ((d,), kinds[2]) or not _is_between(rest, np.inf):
            raise ValueError("the rest of the scatter is invalid")


def _check_rows(rows: CodedRows, kind: np.dtype[Any], d: int, most: int) -> None:
    codes, scales = rows.codes, rows.scales
    n = len(codes)
    if n > most or (codes.shape, codes.dtype) != ((n, d), kind):
        raise ValueError(f"{codes.dtype} numbers of shape {codes.shape} are not of {d} features")
    if (scales.shape, scales.dtype.name) != ((n,), "float32") or not _is_between(scales, MAX_SCALE):
        raise ValueError("a scale is invalid")
    if kind == np.float32 and not np.isfinite(codes).all():
        raise ValueError("a number is not finite")


def _is_between(values: NDArray[Any], limit: float) -> bool:
    """Tell whether all are from 0 to below the limit; NaN is not."""
    return bool(((values >= 0.0) & (values < limit)).all())


def kinds_of_numbers(d: int) -> tuple[np.dtype[Any], np.dtype[Any], np.dtype[Any]]:
    """Return the type of the numbers of views and axes, of means, and of the rest."""
    if d < MIN_EMBEDDING:
        return np.dtype(np.float32), np.dtype(np.float32), np.dtype(np.float32)
    return np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.float16)


def _layout(d: int, n_folded: int, k: int, fine: int, coarse: int) -> np.dtype[Any]:
    codes, means, rest = (kind.newbyteorder("<") for kind in kinds_of_numbers(d))
    fields: list[tuple[str, Any, tuple[int, ...]]] = [
        ("views", codes, (k, d)),
        ("view_scales", "<f4", (k,)),
    ]
    if n_folded:
        packed = (codes, d) if d < MIN_EMBEDDING else ("u1", (d + 1) // 2)
        fields += [
            ("mean", means, (1, d)),
            ("mean_scale", "<f4", (1,)),
            ("fine", codes, (fine, d)),
            ("fine_scales", "<f4", (fine,)),
            ("coarse", packed[0], (coarse, packed[1])),
            ("coarse_scales", "<f4", (coarse,)),
            ("rest", rest, (d,)),
        ]
    return np.dtype(fields)


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy, aligned, in the machine's order of bytes."""
    return read_only(array.astype(array.dtype.newbyteorder("=")))
