"""The kernels of `fused.py`, in Triton, which is only there with torch for CUDA.

A program computes some rows, places in maps, for all channels. x is what goes into a convolution, z
what comes out of it, dy the gradient after a normalisation and dz before it. `sums` are those of z
over rows, and `span` numbers on those of its squares; `sums_back` are those of dy, and of dy times
the normalised z. Taps are loaded by way of the L1 cache (".ca"), since neighbours share them.
"""

from __future__ import annotations

import triton
from triton import language as tl


@triton.jit
def _moments(sums, scales, shifts, count, c, SPAN):
    """Return mean, 1 / deviation, scale and shift of channels."""
    mean = tl.load(sums + c) / count
    variance = tl.maximum(tl.load(sums + SPAN + c) / count - mean * mean, 0.0)
    return mean, 1.0 / tl.sqrt(variance + 1e-5), tl.load(scales + c), tl.load(shifts + c)


@triton.jit
def _store_gradient(g, dy, at, inside, c, z, sums, scales, shifts, rows, sums_back, span):
    """Store a gradient after a normalisation, and add to its sums over rows."""
    result = g.to(dy.dtype.element_ty)
    tl.store(dy + at, result, mask=inside)
    mean, inverse, _, _ = _moments(sums, scales, shifts, rows, c, span)
    standard = (tl.load(z + at, mask=inside, other=0.0) - mean[None, :]) * inverse[None, :]
    g = result.to(tl.float32)
    tl.atomic_add(sums_back + c, tl.sum(g, axis=0), sem="relaxed")
    tl.atomic_add(sums_back + span + c, tl.sum(g * standard, axis=0), sem="relaxed")


@triton.jit
def convolve(
    x, kernel, z, sums, rows, span,
    H: tl.constexpr, INPUTS: tl.constexpr, REAL: tl.constexpr, OUTPUTS: tl.constexpr,
    STRIDE: tl.constexpr, COUNT: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = H // STRIDE
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    right, down, n = row % HO, row // HO % HO, row // (HO * HO)
    i, o = tl.arange(0, INPUTS), tl.arange(0, OUTPUTS)
    total = tl.zeros((ROWS, OUTPUTS), dtype=tl.float32)
    for tap in tl.range(0, 9, num_stages=STAGES):
        y, u = down * STRIDE + (tap // 3 - 1), right * STRIDE + (tap % 3 - 1)
        within = inside & (y >= 0) & (y < H) & (u >= 0) & (u < H)
        at = ((n * H + y) * H + u)[:, None] * REAL + i[None, :]
        weight_at = (tap * REAL + i[:, None]) * OUTPUTS + o[None, :]
        if INPUTS == REAL:
            a = tl.load(x + at, mask=within[:, None], other=0.0, cache_modifier=".ca")
            k = tl.load(kernel + weight_at)
        else:
            a = tl.load(x + at, mask=within[:, None] & (i[None, :] < REAL), other=0.0)
            k = tl.load(kernel + weight_at, mask=i[:, None] < REAL, other=0.0)
        total = tl.dot(a, k, total, input_precision="ieee")
    result = total.to(z.dtype.element_ty)
    tl.store(z + row[:, None] * OUTPUTS + o[None, :], result, mask=inside[:, None])
    if COUNT:
        numbers = result.to(tl.float32)
        tl.atomic_add(sums + o, tl.sum(numbers, axis=0), sem="relaxed")
        tl.atomic_add(sums + span + o, tl.sum(numbers * numbers, axis=0), sem="relaxed")


@triton.jit
def join(
    z, sums, scales, shifts, rows, before, result, span,
    H: tl.constexpr, C: tl.constexpr, BESIDE: tl.constexpr, STRIDE: tl.constexpr,
    RELU: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    inside = (row < rows)[:, None]
    mean, inverse, scale, shift = _moments(sums, scales, shifts, rows, c, span)
    factor = scale * inverse
    offset = shift - mean * factor
    at = row[:, None] * C + c[None, :]
    v = tl.load(z + at, mask=inside, other=0.0).to(tl.float32)
    v = v * factor[None, :] + offset[None, :]
    if BESIDE:
        right, down, n = row % H, row // H % H, row // (H * H)
        wide = H * STRIDE
        place = (n * wide + down * STRIDE) * wide + right * STRIDE
        read = inside & (c[None, :] < BESIDE)
        v += tl.load(before + place[:, None] * BESIDE + c[None, :], mask=read, other=0.0)
    if RELU:
        v = tl.maximum(v, 0.0)
    tl.store(result + at, v.to(result.dtype.element_ty), mask=inside)


@triton.jit
def begin(
    gradient, h, z, sums, scales, shifts, rows, sums_back, dy, span,
    C: tl.constexpr, RELU: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    inside = (row < rows)[:, None]
    at = row[:, None] * C + c[None, :]
    g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
    if RELU:
        g = tl.where(tl.load(h + at, mask=inside, other=0.0) > 0, g, 0.0)
    _store_gradient(g, dy, at, inside, c, z, sums, scales, shifts, rows, sums_back, span)


@triton.jit
def differentiate(
    dy, z, sums, scales, shifts, rows, sums_back, dz, span,
    C: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, C)
    inside = (row < rows)[:, None]
    mean, inverse, scale, _ = _moments(sums, scales, shifts, rows, c, span)
    a = scale * inverse
    b = -a * inverse * tl.load(sums_back + span + c) / rows
    e = -a * tl.load(sums_back + c) / rows - b * mean
    at = row[:, None] * C + c[None, :]
    d = tl.load(dy + at, mask=inside, other=0.0).to(tl.float32)
    v = tl.load(z + at, mask=inside, other=0.0).to(tl.float32)
    result = d * a[None, :] + v * b[None, :] + e[None, :]
    tl.store(dz + at, result.to(dz.dtype.element_ty), mask=inside)


@triton.jit
def transpose(
    dz, kernel, beside, x, z, sums, scales, shifts, rows, sums_back, dx, span,
    H: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr, STRIDE: tl.constexpr,
    BESIDE: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = H // STRIDE
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    right, down, n = row % H, row // H % H, row // (H * H)
    i, o = tl.arange(0, INPUTS), tl.arange(0, OUTPUTS)
    total = tl.zeros((ROWS, INPUTS), dtype=tl.float32)
    for tap in tl.range(0, 9, num_stages=STAGES):
        y, u = down + (1 - tap // 3), right + (1 - tap % 3)
        within = inside & (y >= 0) & (y < H) & (u >= 0) & (u < H)
        if STRIDE == 2:
            within = within & (y % 2 == 0) & (u % 2 == 0)
        at = ((n * HO + y // STRIDE) * HO + u // STRIDE)[:, None] * OUTPUTS + o[None, :]
        d = tl.load(dz + at, mask=within[:, None], other=0.0, cache_modifier=".ca")
        k = tl.load(kernel + (tap * INPUTS + i[None, :]) * OUTPUTS + o[:, None])
        total = tl.dot(d, k, total, input_precision="ieee")
    at = row[:, None] * INPUTS + i[None, :]
    read = inside[:, None]
    if BESIDE:
        if STRIDE == 1:
            total += tl.load(beside + at, mask=read, other=0.0)
        else:
            kept = (inside & (down % 2 == 0) & (right % 2 == 0))[:, None]
            place = ((n * HO + down // 2) * HO + right // 2)[:, None] * OUTPUTS
            total += tl.load(beside + place + i[None, :], mask=kept, other=0.0)
    passed = tl.load(x + at, mask=read, other=0.0) > 0
    g = tl.where(passed, total, 0.0)
    _store_gradient(g, dx, at, read, i, z, sums, scales, shifts, rows, sums_back, span)


@triton.jit
def weigh(
    x, dz, kernel_back, rows,
    H: tl.constexpr, INPUTS: tl.constexpr, REAL: tl.constexpr, OUTPUTS: tl.constexpr,
    STRIDE: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    HO: tl.constexpr = H // STRIDE
    chunk, tap_row = tl.program_id(0), tl.program_id(1)
    i, o = tl.arange(0, INPUTS), tl.arange(0, OUTPUTS)
    left = tl.zeros((INPUTS, OUTPUTS), dtype=tl.float32)
    middle = tl.zeros((INPUTS, OUTPUTS), dtype=tl.float32)
    other = tl.zeros((INPUTS, OUTPUTS), dtype=tl.float32)
    for tile in tl.range(0, TILES, num_stages=STAGES):
        row = (chunk * TILES + tile) * ROWS + tl.arange(0, ROWS)
        inside = row < rows
        right, down, n = row % HO, row // HO % HO, row // (HO * HO)
        at = row[:, None] * OUTPUTS + o[None, :]
        d = tl.load(dz + at, mask=inside[:, None], other=0.0)
        y = down * STRIDE + (tap_row - 1)
        for tap in tl.static_range(3):
            u = right * STRIDE + (tap - 1)
            within = inside & (y >= 0) & (y < H) & (u >= 0) & (u < H)
            place = ((n * H + y) * H + u)[:, None] * REAL + i[None, :]
            if INPUTS == REAL:
                p = tl.load(x + place, mask=within[:, None], other=0.0, cache_modifier=".ca")
            else:
                read = within[:, None] & (i[None, :] < REAL)
                p = tl.load(x + place, mask=read, other=0.0)
            p = tl.trans(p)
            if tap == 0:
                left = tl.dot(p, d, left, input_precision="ieee")
            elif tap == 1:
                middle = tl.dot(p, d, middle, input_precision="ieee")
            else:
                other = tl.dot(p, d, other, input_precision="ieee")
    at = (tap_row * 3 * REAL + i[:, None]) * OUTPUTS + o[None, :]
    real = (i[:, None] < REAL) & (o[None, :] < OUTPUTS)
    tl.atomic_add(kernel_back + at, left, mask=real, sem="relaxed")
    tl.atomic_add(kernel_back + REAL * OUTPUTS + at, middle, mask=real, sem="relaxed")
    tl.atomic_add(kernel_back + 2 * REAL * OUTPUTS + at, other, mask=real, sem="relaxed")
