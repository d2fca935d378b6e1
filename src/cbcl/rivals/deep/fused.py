"""Kernels for narrow residual networks on a GPU, in Triton: ten for a block, where torch has forty.

A ResNet-32 has 16 to 64 channels, and its time goes into memory traffic and into starting kernels.
Here a convolution sums what it writes for the normalisation after it; a normalisation, a shortcut
and a ReLU are one pass, and on the way back the gradient of a ReLU is taken where it is written.
Maps lie channels last, in bfloat16; sums are in float32.

In names: x what goes into a convolution, z what comes out of it, h what a block gives, dy the
gradient after a normalisation and dz before it. A row is a place in a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

try:
    import triton
    from triton import language as tl
except ImportError:  # it comes with torch for CUDA
    triton = None

if TYPE_CHECKING:
    from cbcl.rivals.deep.networks import Layer, ResNet

WIDTHS = {16, 32, 64}  # channels that the kernels take
MIN_WIDTH = 16  # of a product
JOIN_NUMBERS = 4096  # that a program joins


class Tuning(NamedTuple):
    """How a kernel's work is cut for an H200, by the channels that it writes."""

    rows: int  # for each program
    warps: int
    stages: int  # of loads that are under way

    @property
    def options(self) -> dict[str, int]:
        return {"ROWS": self.rows, "num_warps": self.warps, "STAGES": self.stages}


CONVOLVE = {16: Tuning(256, 4, 3), 32: Tuning(256, 8, 4), 64: Tuning(64, 4, 3)}
TRANSPOSE = {16: Tuning(256, 4, 3), 32: Tuning(256, 8, 3), 64: Tuning(64, 4, 3)}
WEIGH = {16: Tuning(64, 2, 3), 32: Tuning(128, 4, 4), 64: Tuning(128, 4, 2)}
WEIGH_PROGRAMS = {16: 132, 32: 88, 64: 64}  # for each of the kernel's three rows


def can_compute(layers: Sequence[Layer], x: Tensor) -> bool:
    """Return whether these kernels can compute a network on pictures, which lie on a GPU."""
    return triton is not None and x.is_cuda and {layer.outputs for layer in layers} <= WIDTHS


def maps(network: ResNet, x: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Return the last block's maps: (n, c, h, w)."""
    result: Tensor = _Trunk.apply(
        x.permute(0, 2, 3, 1).to(dtype).contiguous(),
        network.kernels,
        network.scales,
        network.shifts,
        network,
    )
    return result


class _Trunk(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, kernels: Tensor, scales: Tensor, shifts: Tensor, network: ResNet
    ) -> Tensor:
        walk = _Walk(network, x, kernels, scales, shifts)
        ctx.walk = walk
        return walk.forward().permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        return None, *ctx.walk.backward(gradient.permute(0, 2, 3, 1).contiguous()), None


class _Walk:
    """One way through a network, forward and back."""

    def __init__(
        self, network: ResNet, x: Tensor, kernels: Tensor, scales: Tensor, shifts: Tensor
    ) -> None:
        self.network, self.layers = network, network.layers
        self.kernels, self.scales, self.shifts = kernels.detach().to(x.dtype), scales, shifts
        self.x = [x]  # of each layer
        self.z: list[Tensor] = []

    def forward(self) -> Tensor:
        """Return the last block's maps, channels last."""
        n, side = self.x[0].shape[:2]
        self.counts = _counts(self.layers, n, side, self.kernels.device)
        training = self.network.training
        self.sums = torch.zeros_like(self.counts) if training else self._known_sums()
        last = len(self.layers) - 1
        for place, layer in enumerate(self.layers):
            self.z.append(self._convolve(layer, self.x[-1]))
            ends_block = place and place % 2 == 0
            relu = place < last or self.network.last_relu
            self.x.append(self._join(place, self.x[-2] if ends_block else None, relu=relu))
        if training:
            self._update()
        return self.x[-1]

    def backward(self, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of kernels, scales and shifts."""
        self.sums_back = torch.zeros_like(self.sums)
        self.kernels_back = torch.zeros(self.kernels.shape, device=gradient.device)
        dy = beside = self._begin(gradient)
        for place in reversed(range(len(self.layers))):
            dz = self._differentiate(place, dy)
            self._weigh(place, dz)
            if place:
                begins_block = place % 2 == 1
                dy = self._transpose(place, dz, beside if begins_block else None)
                beside = dy if begins_block else beside
        shifts, scales = self.sums_back
        return self.kernels_back, scales, shifts

    def _known_sums(self) -> Tensor:
        means, variances = self.network.means, self.network.variances
        return torch.stack([means, variances + means * means]) * self.counts

    def _update(self) -> None:
        """Move the network's means and variances towards those of this batch."""
        n = self.counts[0]
        mean = self.sums[0] / n
        variance = (self.sums[1] / n - mean * mean).clamp_min(0.0) * (n / (n - 1.0))
        with torch.no_grad():
            self.network.means.lerp_(mean, self.network.momentum)
            self.network.variances.lerp_(variance, self.network.momentum)

    def _norm(self, place: int) -> tuple[Any, ...]:
        """Return what kernels need for a layer's normalisation: sums, scales, shifts, rows."""
        layer, z = self.layers[place], self.z[place]
        at = layer.channel
        rows = z.numel() // layer.outputs
        return self.sums.view(-1)[at:], self.scales[at:], self.shifts[at:], rows

    def _back(self, place: int) -> Tensor:
        """Return the sums of gradients of a layer's normalisation."""
        return self.sums_back.view(-1)[self.layers[place].channel :]

    def _convolve(self, layer: Layer, x: Tensor) -> Tensor:
        n, side = x.shape[:2]
        height = side // layer.stride
        z = x.new_empty(n, height, height, layer.outputs)
        rows = n * height * height
        tuning = CONVOLVE[layer.outputs]
        _convolve_kernel[(triton.cdiv(rows, tuning.rows),)](
            x,
            self.kernels[layer.kernel :],
            z,
            self.sums.view(-1)[layer.channel :],
            rows,
            self.sums.shape[1],
            H=side,
            INPUTS=max(MIN_WIDTH, layer.inputs),
            REAL=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            COUNT=self.network.training,
            **tuning.options,
        )
        return z

    def _join(self, place: int, before: Tensor | None, *, relu: bool) -> Tensor:
        """Return a layer's normalised maps, with the shortcut from what was before the block."""
        z, width = self.z[place], self.layers[place].outputs
        result = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        _join_kernel[(triton.cdiv(z.numel() // width, block),)](
            z,
            *self._norm(place),
            z if before is None else before,
            result,
            self.sums.shape[1],
            H=z.shape[1],
            C=width,
            BESIDE=0 if before is None else before.shape[3],
            STRIDE=1 if before is None else before.shape[1] // z.shape[1],
            RELU=relu,
            ROWS=block,
        )
        return result

    def _begin(self, gradient: Tensor) -> Tensor:
        """Return dy of the last normalisation."""
        place, width = len(self.z) - 1, self.layers[-1].outputs
        z = self.z[place]
        dy = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        _begin_kernel[(triton.cdiv(z.numel() // width, block),)](
            gradient,
            self.x[-1],
            z,
            *self._norm(place),
            self._back(place),
            dy,
            self.sums.shape[1],
            C=width,
            RELU=self.network.last_relu,
            ROWS=block,
        )
        return dy

    def _differentiate(self, place: int, dy: Tensor) -> Tensor:
        """Return dz of a layer from its dy."""
        z, width = self.z[place], self.layers[place].outputs
        dz = torch.empty_like(z)
        block = JOIN_NUMBERS // width
        _differentiate_kernel[(triton.cdiv(z.numel() // width, block),)](
            dy,
            z,
            *self._norm(place),
            self._back(place),
            dz,
            self.sums.shape[1],
            C=width,
            ROWS=block,
        )
        return dz

    def _transpose(self, place: int, dz: Tensor, beside: Tensor | None) -> Tensor:
        """Return dy of the normalisation before a layer, from dz after it.

        Between them is a ReLU. `beside` is what comes back by the block's shortcut.
        """
        layer, x = self.layers[place], self.x[place]
        dx = torch.empty_like(x)
        rows = x.numel() // layer.inputs
        tuning = TRANSPOSE[layer.inputs]
        _transpose_kernel[(triton.cdiv(rows, tuning.rows),)](
            dz,
            self.kernels[layer.kernel :],
            dz if beside is None else beside,
            x,
            self.z[place - 1],
            *self._norm(place - 1),
            self._back(place - 1),
            dx,
            self.sums.shape[1],
            H=x.shape[1],
            INPUTS=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            BESIDE=beside is not None,
            **tuning.options,
        )
        return dx

    def _weigh(self, place: int, dz: Tensor) -> None:
        """Compute the gradient of a layer's kernel."""
        layer, x = self.layers[place], self.x[place]
        rows = dz.numel() // layer.outputs
        tuning = WEIGH[layer.outputs]
        tiles = triton.cdiv(rows, tuning.rows)
        each = triton.cdiv(tiles, min(tiles, WEIGH_PROGRAMS[layer.outputs]))
        _weigh_kernel[(triton.cdiv(tiles, each), 3)](
            x,
            dz,
            self.kernels_back[layer.kernel :],
            rows,
            H=x.shape[1],
            INPUTS=max(MIN_WIDTH, layer.inputs),
            REAL=layer.inputs,
            OUTPUTS=layer.outputs,
            STRIDE=layer.stride,
            TILES=each,
            **tuning.options,
        )


def _counts(layers: Sequence[Layer], n: int, side: int, device: torch.device) -> Tensor:
    """Return the number of places behind each channel's mean, twice: (2, channels)."""
    parts = []
    for layer in layers:
        side //= layer.stride
        parts.append(torch.full((layer.outputs,), float(n * side * side), device=device))
    return torch.cat(parts).expand(2, -1).contiguous()


if triton is not None:

    @triton.jit
    def _moments(sums, scales, shifts, count, c, SPAN):
        """Return mean, 1 / deviation, scale and shift of channels."""
        mean = tl.load(sums + c) / count
        variance = tl.maximum(tl.load(sums + SPAN + c) / count - mean * mean, 0.0)
        return mean, 1.0 / tl.sqrt(variance + 1e-5), tl.load(scales + c), tl.load(shifts + c)

    @triton.jit
    def _convolve_kernel(
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
                a = tl.load(x + at, mask=within[:, None], other=0.0)
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
    def _join_kernel(
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
    def _begin_kernel(
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
        result = g.to(dy.dtype.element_ty)
        tl.store(dy + at, result, mask=inside)
        mean, inverse, _, _ = _moments(sums, scales, shifts, rows, c, span)
        standard = (tl.load(z + at, mask=inside, other=0.0) - mean[None, :]) * inverse[None, :]
        g = result.to(tl.float32)
        tl.atomic_add(sums_back + c, tl.sum(g, axis=0), sem="relaxed")
        tl.atomic_add(sums_back + span + c, tl.sum(g * standard, axis=0), sem="relaxed")

    @triton.jit
    def _differentiate_kernel(
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
    def _transpose_kernel(
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
            d = tl.load(dz + at, mask=within[:, None], other=0.0)
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
        result = tl.where(passed, total, 0.0).to(dx.dtype.element_ty)
        tl.store(dx + at, result, mask=read)
        mean, inverse, _, _ = _moments(sums, scales, shifts, rows, i, span)
        standard = (tl.load(z + at, mask=read, other=0.0) - mean[None, :]) * inverse[None, :]
        g = result.to(tl.float32)
        tl.atomic_add(sums_back + i, tl.sum(g, axis=0), sem="relaxed")
        tl.atomic_add(sums_back + span + i, tl.sum(g * standard, axis=0), sem="relaxed")

    @triton.jit
    def _weigh_kernel(
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
                    p = tl.load(x + place, mask=within[:, None], other=0.0)
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
