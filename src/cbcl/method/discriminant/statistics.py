"""Statistics of one class, which add up and can be taken apart: views, then a summary of them.

n views, d features, r axes. A view is a vector that is no near-copy of another of its class. The
first 24 views are kept, each in eight bits a number. When there are more, the views are folded into
a summary, eight together, in their order: their number, their mean, the main axes of their scatter
and the rest of it, feature by feature; the latest eight stay, as witnesses. That happens at fixed
counts, wherever a call ends, so learning in two calls is learning in one, bit for bit.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cache, cached_property
from hashlib import shake_256
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.machine import one_thread
from cbcl.method.arrays import Float32s, Float64s, read_only
from cbcl.method.discriminant.coding import CodedRows, empty_rows, encode
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.model import field_state

MAX_VIEWS = 24  # that are kept, until there are more
MAX_WITNESSES = 8  # of the latest that are kept, from then on
FINE_AXES = 8  # of a summary, in eight bits a number
COARSE_AXES = 12  # in four
MAX_SKETCHES = 512  # of the latest views
SKETCH_BITS = 64  # of a vector, by which the very same one is known again
EXACT = 0.9999  # the least cosine of two pictures that are the same
MAX_MEASUREMENT = 1e15  # so that squares of many differences add up to a float32

Sketches = NDArray[np.uint64]
NO_SKETCHES: Sketches = np.empty(0, dtype=np.uint64)  # of a class before its first view


class ViewSummary(NamedTuple):
    """The views of a class that were folded."""

    n: int
    mean: CodedRows  # (1, d), in 16 bits
    fine: CodedRows  # (<= 8, d), the main axes of the scatter, times their singular values
    coarse: CodedRows  # (<= 12, d), the next ones, in four bits
    rest: NDArray[np.floating[Any]]  # (d,), what the axes leave of each feature's scatter; float16

    @property
    def centre(self) -> Float32s:
        """Mean: (d,)."""
        values: Float32s = self.mean.values[0]
        return values


@dataclass(frozen=True, eq=False)
class ClassStatistics:
    """All that is kept of a class. The last `n - summary.n` views are not in the summary yet."""

    n: int
    views: CodedRows
    sketches: Sketches  # of the latest views, to know exactly the same ones
    summary: ViewSummary | None = None

    __getstate__ = field_state

    @property
    def dimension(self) -> int:
        return int(self.views.codes.shape[1])

    @cached_property
    def mean(self) -> Float64s:
        """Mean of all views: (d,)."""
        total = self._unfolded.sum(axis=0, dtype=np.float64)
        if self.summary is not None:
            total += self.summary.n * self.summary.centre.astype(np.float64)
        mean: Float64s = total / self.n
        return mean

    @cached_property
    def axes(self) -> Float32s:
        """Rows whose products, with `rest`, make the scatter of the views: A'A + diag(rest)."""
        new = self._unfolded
        folded = self.summary
        if folded is None:
            return _scatter(new)
        if not len(new):
            return np.concatenate(_axes(folded))
        # The mean of all lies between that of the folded views and that of the new ones.
        apart = np.sqrt(folded.n * self.n / len(new)) * (self.mean - folded.centre)
        return np.concatenate([*_axes(folded), _scatter(new), apart.astype(np.float32)[np.newaxis]])

    @property
    def rest(self) -> Float32s | None:
        return None if self.summary is None else self.summary.rest.astype(np.float32)

    @cached_property
    def scatter(self) -> float:
        """Sum of the squared distances of all views from their mean."""
        rest = 0.0 if self.summary is None else float(self.summary.rest.sum(dtype=np.float64))
        return float(np.einsum("rd,rd->", self.axes, self.axes, dtype=np.float64)) + rest

    @cached_property
    def directions(self) -> Float32s:
        """The views that are kept: (k, d)."""
        return self.views.values

    @property
    def _unfolded(self) -> Float32s:
        folded = 0 if self.summary is None else self.summary.n
        return self.directions[len(self.directions) - (self.n - folded) :]


def learn_class(
    directions: Float32s, known: ClassStatistics | None = None, least_cosine: float = EXACT
) -> tuple[ClassStatistics, NDArray[np.bool_]]:
    """Learn vectors of a class, in their order; tell which are views, and no copies: (n,).

    `least_cosine` is that of a vector and its copy.
    """
    are_measurements = directions.shape[1] < MIN_EMBEDDING
    if are_measurements and np.abs(directions).max(initial=0.0) > MAX_MEASUREMENT:
        raise ValueError(
            f"vectors hold numbers above {MAX_MEASUREMENT:g}, whose scatter is too large "
            "for float32: scale such features."
        )
    coded = encode(directions)
    return learn_coded(coded, sketch(coded), known, least_cosine)


def learn_coded(
    coded: CodedRows,
    sketches: Sketches,
    known: ClassStatistics | None = None,
    least_cosine: float = EXACT,
) -> tuple[ClassStatistics, NDArray[np.bool_]]:
    """Learn vectors that were coded and sketched before, as `learn_class` does."""
    state = known or ClassStatistics(0, empty_rows(coded.codes.shape[1]), NO_SKETCHES)
    is_view = np.zeros(len(coded), dtype=bool)
    units = _unit(coded.values)
    # Copies are looked for among what is kept after each view, so that no call's end matters.
    seen = dict.fromkeys(state.sketches.tolist())
    latest = np.concatenate([_unit(state.directions), np.empty_like(units)])
    pending: list[int] = []  # views since the last fold
    end = len(state.views)
    most, room = _capacity(state)

    # One thread is faster at folding, and always gives the same bits.
    with one_thread() if len(coded) > room else nullcontext():
        for row, own in enumerate(sketches.tolist()):
            cosines = np.einsum("kd,d->k", latest[max(0, end - most) : end], units[row])
            if own in seen or cosines.max(initial=-1.0) >= least_cosine:
                continue
            if room == 0:
                state = _fold(_append(state, coded, sketches, pending))
                pending = []
                most, room = _capacity(state)
            is_view[row] = True
            pending.append(row)
            seen[own] = None
            if len(seen) > MAX_SKETCHES:
                del seen[next(iter(seen))]
            latest[end] = units[row]
            end += 1
            room -= 1
    if pending:
        state = _append(state, coded, sketches, pending)
    return state, is_view


def merge_summaries(these: ClassStatistics, those: ClassStatistics) -> ClassStatistics:
    """Make one class of two that are summarized, as exact as summaries are."""
    with one_thread():
        this = _fold(these)
        that = _fold(those)
        assert this.summary is not None
        assert that.summary is not None
        n, m = this.n, that.n
        shift = np.sqrt(n * m / (n + m)) * (this.mean - that.mean)
        scatter = [*_axes(this.summary), *_axes(that.summary), shift.astype(np.float32)[np.newaxis]]
        mean = (n * this.mean + m * that.mean) / (n + m)
        rest = this.summary.rest.astype(np.float32) + that.summary.rest
        summary = _summarize(n + m, mean, np.concatenate(scatter), rest)
    # Only the latest of all are kept, so that the number of each is known.
    sketches = that.sketches
    if len(sketches) == m:
        sketches = np.concatenate([this.sketches, sketches])[-MAX_SKETCHES:]
    return ClassStatistics(n + m, that.views, read_only(sketches), summary)


def unlearn_view(
    known: ClassStatistics, number: int, direction: Float32s | None = None
) -> ClassStatistics | None:
    """Take a view out of a class, by its number, from 0; None: it was the only one.

    A view that is kept, and not folded, is taken out exactly, as if it had never been learned. One
    that is in the summary is taken out of its mean exactly, of its scatter as far as its axes go;
    one that is no longer kept must be given.
    """
    if known.n == 1:
        return None
    place = number - (known.n - len(known.sketches))
    row = number - (known.n - len(known.views))
    if row >= 0:
        direction = known.directions[row]
    sketches = np.delete(known.sketches, [place] if place >= 0 else [])
    others = np.flatnonzero(np.arange(len(known.views)) != row)
    views = known.views.take(others)
    n = known.n - 1
    old = known.summary
    if old is None or number >= old.n:
        return ClassStatistics(n, views, read_only(sketches), old)
    if direction is None:
        raise ValueError(f"view {number} is no longer kept: give its direction.")
    with one_thread():
        summary = _take_out(old, encode(direction[np.newaxis]).values[0]) if old.n > 1 else None
    return ClassStatistics(n, views, read_only(sketches), summary)


def _take_out(summary: ViewSummary, direction: Float32s) -> ViewSummary:
    """Take one view out of a summary."""
    n = summary.n
    axes = np.concatenate(_axes(summary)).astype(np.float64)
    centre = summary.centre.astype(np.float64)
    away = direction - centre
    taken = np.sqrt(n / (n - 1)) * away
    # What the axes A hold of it is A'c: A'A less that is A'(I - cc')A, as long as |c| <= 1.
    parts = np.linalg.pinv(axes @ axes.T, rcond=1e-5, hermitian=True) @ (axes @ taken)
    outside = taken - parts @ axes
    length = float(np.linalg.norm(parts)) or 1.0
    shrinkage = 1.0 - np.sqrt(max(0.0, 1.0 - length**2))
    kept = axes - shrinkage * np.outer(parts, parts @ axes) / length**2
    rest = np.maximum(summary.rest - outside**2, 0.0).astype(np.float32)
    return _summarize(n - 1, centre - away / (n - 1), kept.astype(np.float32), rest)


def _capacity(state: ClassStatistics) -> tuple[int, int]:
    """Return how many of the latest views are kept, and how many more fit before a fold."""
    if state.summary is None:
        return MAX_VIEWS, MAX_VIEWS - state.n
    return MAX_WITNESSES, MAX_WITNESSES - (state.n - state.summary.n)


def _append(
    state: ClassStatistics, coded: CodedRows, sketches: Sketches, rows: list[int]
) -> ClassStatistics:
    views = state.views.join(coded.take(np.array(rows, dtype=np.int64)))
    latest = np.concatenate([state.sketches, sketches[rows]])[-MAX_SKETCHES:]
    most, _ = _capacity(state)
    kept = views.take(slice(-most, None))
    return ClassStatistics(state.n + len(rows), kept, read_only(latest), state.summary)


def _fold(state: ClassStatistics) -> ClassStatistics:
    """Fold all views into the summary, and keep the latest as witnesses."""
    rest = np.zeros(state.dimension, dtype=np.float32) if state.rest is None else state.rest
    summary = _summarize(state.n, state.mean, state.axes, rest)
    return replace(state, views=state.views.take(slice(-MAX_WITNESSES, None)), summary=summary)


def _summarize(n: int, mean: Float64s, scatter: Float32s, rest: Float32s) -> ViewSummary:
    """Keep the main axes of the scatter of n views, and of the others the diagonal."""
    _, vectors = np.linalg.eigh((scatter @ scatter.T).astype(np.float64))
    main = vectors.T[: -(FINE_AXES + COARSE_AXES + 1) : -1].astype(np.float32)
    axes = main @ scatter
    fine = encode(axes[:FINE_AXES])
    coarse = encode(axes[FINE_AXES:], bits=4)
    left = rest + _column_squares(scatter)
    left -= _column_squares(fine.values) + _column_squares(coarse.values)
    return ViewSummary(n, encode(mean[np.newaxis], bits=16), fine, coarse, _round_rest(left))


def _column_squares(rows: Float32s) -> Float32s:
    squares: Float32s = np.einsum("nd,nd->d", rows, rows)
    return squares


def _axes(summary: ViewSummary) -> tuple[Float32s, Float32s]:
    return summary.fine.values, summary.coarse.values


def _scatter(views: Float32s) -> Float32s:
    """Return n - 1 rows whose products are the scatter of n views: (n-1, d)."""
    rows: Float32s = _contrasts(len(views)) @ (views - views[0])
    return rows


@cache
def _contrasts(n: int) -> Float32s:
    """Return n - 1 orthonormal rows of sum 0: each sets a view against the mean of those before."""
    contrasts = np.tri(n - 1, n)
    places = np.arange(1, n)
    contrasts[places - 1, places] = -places
    scaled = contrasts / np.sqrt(places * (places + 1.0))[:, np.newaxis]
    return read_only(scaled.astype(np.float32))


def _round_rest(rest: Float32s) -> NDArray[np.floating[Any]]:
    kind = np.float32 if len(rest) < MIN_EMBEDDING else np.float16
    return read_only(np.clip(rest, 0.0, np.finfo(kind).max).astype(kind))


def _unit(rows: Float32s) -> Float32s:
    """Return directions of length 1; of measurements zeros, as their cosines say nothing."""
    if rows.shape[1] < MIN_EMBEDDING:
        return np.zeros_like(rows)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows))
    lengths[lengths == 0.0] = 1.0
    unit: Float32s = rows / lengths[:, np.newaxis]
    return unit


def sketch(coded: CodedRows) -> Sketches:
    """Return 64 bits of each row, the same for the same row: (n,).

    They are the signs of sums of whole numbers, which no order of summation changes.
    """
    codes = coded.codes
    if codes.dtype != np.int8:
        parts = [shake_256((row + np.float32(0.0)).tobytes()).digest(8) for row in codes]
        return np.frombuffer(b"".join(parts), dtype="<u8").astype(np.uint64)
    d = codes.shape[1]
    signs, sums = random_signs(d)
    products = codes.astype(np.float32) @ signs  # exact: below 2^24
    centre = codes.sum(axis=1, dtype=np.int64)[:, np.newaxis] * sums
    bits = np.packbits(products.astype(np.float64) * d > centre, axis=1, bitorder="little")
    return np.ascontiguousarray(bits).view("<u8")[:, 0].astype(np.uint64)


@cache
def random_signs(d: int) -> tuple[Float32s, Float64s]:
    """Return the same random signs for ever, (d, 64), and their sums, (64,)."""
    data = shake_256(b"cbcl").digest(d * SKETCH_BITS // 8)
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8)).reshape(d, SKETCH_BITS)
    signs = bits.astype(np.float32) * 2.0 - 1.0
    return read_only(signs), read_only(signs.sum(axis=0, dtype=np.float64))
