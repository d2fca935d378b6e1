"""Statistics of classes as bytes and as tensors, and back, checked both ways.

d features. The bytes of a class are a header and its arrays one after the other, in the order of
`_shapes`: little-endian, without gaps. In the exchange format the rows of all classes stand one
after the other; the counts of each class tell which are its own.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

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
    NO_SKETCHES,
    ClassStatistics,
    Sketches,
    ViewSummary,
)

BLOB_VERSION = 1
HEADER = struct.Struct("<BqqHHH")  # version, n, n folded (0: no summary), views, fine, coarse
MAX_SCALE = float(np.finfo(np.float32).max) / (1 << 15)  # above it, 16 bits of it are infinite

# The types of the numbers of views and axes, of means, and of the rest.
FLOAT32 = np.dtype(np.float32)
EMBEDDINGS = (np.dtype(np.int8), np.dtype(np.int16), np.dtype(np.float16))
MEASUREMENTS = (FLOAT32, FLOAT32, FLOAT32)


class RowCounts(NamedTuple):
    """How many vectors, views, sketches, folded vectors and axes a class has."""

    n: int
    views: int
    sketches: int
    folded: int  # 0: there is no summary
    fine: int
    coarse: int


def count_rows(statistics: ClassStatistics) -> RowCounts:
    summary = statistics.summary
    folded = (0, 0, 0) if summary is None else (summary.n, len(summary.fine), len(summary.coarse))
    return RowCounts(statistics.n, len(statistics.views), len(statistics.sketches), *folded)


def pack_statistics(statistics: ClassStatistics) -> bytes:
    """Return all but the sketches; ValueError: they could not be read again."""
    d = statistics.dimension
    check_statistics(statistics, d)
    n, views, _, folded, fine, coarse = counts = count_rows(statistics)
    arrays = _arrays(statistics)
    if folded and d >= MIN_EMBEDDING:
        arrays["coarse_codes"] = pack_four_bits(arrays["coarse_codes"])
    record = np.empty((), _layout(d, counts))
    for name, array in arrays.items():
        record[name] = array
    return HEADER.pack(BLOB_VERSION, n, folded, views, fine, coarse) + record.tobytes()


def unpack_statistics(blob: bytes, sketches: Sketches, d: int) -> ClassStatistics:
    """Read what `pack_statistics` returned; ValueError: it is not that."""
    try:
        version, n, folded, views, fine, coarse = HEADER.unpack_from(blob)
    except struct.error:
        raise ValueError("the header is cut off") from None
    if version != BLOB_VERSION or views > MAX_VIEWS or fine > FINE_AXES or coarse > COARSE_AXES:
        raise ValueError("the header is invalid")
    counts = RowCounts(n, views, len(sketches), folded, fine, coarse)
    layout = _layout(d, counts)
    if len(blob) != HEADER.size + layout.itemsize:
        raise ValueError(f"{len(blob)} bytes are not {HEADER.size + layout.itemsize}")
    record = np.frombuffer(blob, layout, 1, HEADER.size)[0]
    arrays = {name: _native(record[name]) for name in layout.names or ()}
    if folded and d >= MIN_EMBEDDING:
        arrays["coarse_codes"] = read_only(unpack_four_bits(arrays["coarse_codes"], d))
    return _as_statistics(counts, arrays, sketches, d)


def as_tensors(classes: Sequence[ClassStatistics], d: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of all classes, of d features."""
    parts = [_arrays(known) for known in classes]
    tensors = {}
    for name, (kind, shape) in _shapes(d, RowCounts(1, 0, 0, 1, 0, 0)).items():
        nothing = np.empty((0, *shape[1:]), kind)
        tensors[name] = np.concatenate([nothing, *(own[name] for own in parts if name in own)])
    tensors["sketches"] = np.concatenate([NO_SKETCHES, *(known.sketches for known in classes)])
    return tensors


def from_tensors(
    described: Iterable[Mapping[str, int]], tensors: Mapping[str, NDArray[Any]], d: int
) -> list[ClassStatistics]:
    """Return the classes of d features; ValueError: the counts or the arrays cannot be."""
    ends: dict[str, int] = defaultdict(int)

    def take(name: str, n: int) -> NDArray[Any]:
        """Return the next n rows."""
        start = ends[name]
        ends[name] += n
        return read_only(tensors[name][start : start + n].copy())

    classes = []
    for given in described:
        counts = RowCounts(*(_as_count(given[name]) for name in RowCounts._fields))
        shapes = _shapes(d, counts)
        arrays = {name: take(name, shape[0]) for name, (_, shape) in shapes.items()}
        sketches = take("sketches", counts.sketches)
        classes.append(_as_statistics(counts, arrays, sketches, d))
    for name, array in tensors.items():
        if len(array) != ends[name]:
            raise ValueError(f"there are {len(array)} rows of {name}, not {ends[name]}")
    return classes


def _as_count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value


def _arrays(statistics: ClassStatistics) -> dict[str, NDArray[Any]]:
    """Return the arrays of `_shapes`."""
    summary = statistics.summary
    rows = {"view": statistics.views}
    if summary is not None:
        rows |= {"mean": summary.mean, "fine": summary.fine, "coarse": summary.coarse}
    arrays: dict[str, NDArray[Any]] = {}
    for name, coded in rows.items():
        arrays[f"{name}_codes"] = coded.codes
        arrays[f"{name}_scales"] = coded.scales
    if summary is not None:
        arrays["rests"] = summary.rest[np.newaxis]
    return arrays


def _as_statistics(
    counts: RowCounts, arrays: Mapping[str, NDArray[Any]], sketches: Sketches, d: int
) -> ClassStatistics:
    """Return what `_arrays` was given, checked."""

    def rows(name: str) -> CodedRows:
        return CodedRows(arrays[f"{name}_codes"], arrays[f"{name}_scales"])

    summary = None
    if counts.folded:
        rest = arrays["rests"].reshape(-1)
        summary = ViewSummary(counts.folded, rows("mean"), rows("fine"), rows("coarse"), rest)
    statistics = ClassStatistics(counts.n, rows("view"), sketches, summary)
    check_statistics(statistics, d)
    return statistics


def check_statistics(statistics: ClassStatistics, d: int) -> None:
    """Raise ValueError for statistics of d features that no learning gives."""
    n, views, n_sketches, folded, fine, coarse = counts = count_rows(statistics)
    if statistics.summary is None:
        possible = views == n == n_sketches <= MAX_VIEWS
    else:
        possible = 1 <= folded <= n and n - folded <= views <= MAX_WITNESSES
        possible = possible and n_sketches <= MAX_SKETCHES
        possible = possible and fine <= FINE_AXES and coarse <= COARSE_AXES
    sketches = statistics.sketches
    if (sketches.shape, sketches.dtype.name) != ((n_sketches,), "uint64"):
        raise ValueError("the sketches are invalid")
    if not possible or not 1 <= n < MAX_COUNT:
        raise ValueError(f"{n} vectors cannot have {views} views and {n_sketches} sketches")
    arrays = _arrays(statistics)
    for name, (kind, shape) in _shapes(d, counts).items():
        _check_numbers(name, arrays[name], kind, shape)
    if folded and d >= MIN_EMBEDDING:
        codes = arrays["coarse_codes"]
        if codes.min(initial=0) < -8 or codes.max(initial=0) > 7:
            raise ValueError("the coarse axes are not of four bits")


def _check_numbers(
    name: str, array: NDArray[Any], kind: np.dtype[Any], shape: tuple[int, ...]
) -> None:
    if (array.shape, array.dtype) != (shape, kind):
        raise ValueError(f"{name} are {array.dtype} numbers of shape {array.shape}, not {shape}")
    if name.endswith("_scales") and not _is_between(array, MAX_SCALE):
        raise ValueError("a scale is invalid")
    if name == "rests" and not _is_between(array, np.inf):
        raise ValueError("the rest of the scatter is invalid")
    if kind == FLOAT32 and not np.isfinite(array).all():
        raise ValueError("a number is not finite")


def _is_between(values: NDArray[Any], limit: float) -> bool:
    """Tell whether all are from 0 to below the limit; NaN is not."""
    return bool(values.min(initial=0.0) >= 0.0 and values.max(initial=0.0) < limit)


def _shapes(d: int, counts: RowCounts) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    """Return the type and the shape of each array of a class, in the order of its bytes."""
    codes, means, rest = MEASUREMENTS if d < MIN_EMBEDDING else EMBEDDINGS
    kinds: dict[str, tuple[np.dtype[Any], int]] = {"view": (codes, counts.views)}
    if counts.folded:
        kinds |= {
            "mean": (means, 1),
            "fine": (codes, counts.fine),
            "coarse": (codes, counts.coarse),
        }
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    for name, (kind, rows) in kinds.items():
        shapes[f"{name}_codes"] = (kind, (rows, d))
        shapes[f"{name}_scales"] = (FLOAT32, (rows,))
    if counts.folded:
        shapes["rests"] = (rest, (1, d))
    return shapes


def _layout(d: int, counts: RowCounts) -> np.dtype[Any]:
    """Return the type of a class's arrays as bytes: coarse axes are of four bits."""
    shapes = _shapes(d, counts)
    if counts.folded and d >= MIN_EMBEDDING:
        shapes["coarse_codes"] = (np.dtype(np.uint8), (counts.coarse, (d + 1) // 2))
    return np.dtype([(name, kind.newbyteorder("<"), size) for name, (kind, size) in shapes.items()])


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy, aligned, in the machine's order of bytes."""
    return read_only(array.astype(array.dtype.newbyteorder("=")))
