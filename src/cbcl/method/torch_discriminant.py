"""Labels by the discriminant, computed by PyTorch on a device: for a GPU.

q vectors, t classes, k dimensions of Fisher's space. The device scores as `Discriminant.totals`
does, in float32, in another order of summation. Where the two best scores of a vector differ by
less than both computations may be off together, the device does not decide: the processor does.

How far they may be off has two factors. The first follows from the formulas: an error e of a
vector's place p in Fisher's space changes its squared distance to a mean m by 2 |p - m| e, what the
class's own axes take off it by no more than that, and both are divided by the class's spread and by
the deviation of all classes; e is proportional to |x| times the norm of the basis, and sums of
squares are off in proportion to (|p| + |m|)^2. The second is measured: by how much of the first the
device and the processor differ on views that are known, at most; times MARGIN. A bound that no sum
can exceed is hundreds of times as large, and would leave many vectors to the processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cbcl.device import full_precision, own_stream, synchronize
from cbcl.method.arrays import Float32s, Int64s
from cbcl.method.discriminant import Discriminant
from cbcl.method.torch_products import upload

if TYPE_CHECKING:
    from torch import Tensor

MARGIN = 16.0  # over the largest difference that was measured
MIN_ERROR = 2.0**-28  # of that, were none measured
MAX_PRODUCTS = 1 << 27  # in the device's memory at a time: 537 MB
MIN_PRODUCTS = 1 << 28  # of two numbers each, for which a device is asked


class DeviceWinners(NamedTuple):
    """The class of the best score of each vector, and whether it is sure."""

    classes: Int64s  # (q,)
    close: NDArray[np.bool_]  # (q,); True: the processor is to decide


class _Totals(NamedTuple):
    """Scores, and the part of their error that follows from the formulas."""

    values: Tensor  # (q, t)
    scales: Tensor  # (q,)


class _OwnAxes(NamedTuple):
    """The factors of the classes of one rank."""

    classes: Tensor  # (g,)
    factors: Tensor  # (g * rank, k)
    offsets: Tensor  # (g * rank,)
    rank: int


class DeviceDiscriminant:
    """A solved discriminant in the memory of a device."""

    def __init__(
        self, solved: Discriminant, probes: Float32s, device: str, min_products: int = MIN_PRODUCTS
    ) -> None:
        """Copy it there, and measure the error on the probes, vectors like those to come."""
        self.device = torch.device(device)
        self.min_products = min_products
        (self.d, self.k), self.t = solved.basis.shape, len(solved.counts)
        self.ridge_weight = solved.ridge_weight
        self.products = self.k * (self.d + 2 * self.t + len(solved.factors))  # of a vector
        self._centre = upload(solved.centre, self.device)
        self._basis = upload(solved.basis, self.device)
        self._means = upload(solved.means, self.device)
        self._regression = upload(solved.regression, self.device)
        self._lengths = upload(solved.lengths, self.device)
        self._rates = upload(1.0 / solved.spreads, self.device)
        self._volumes = upload(solved.log_volumes, self.device)
        self._groups = [*self._own_axes(solved)]
        self._basis_norm = float(np.linalg.norm(solved.basis))
        self._longest_mean = float(np.sqrt(solved.lengths.max()))
        self._longest_column = float(np.linalg.norm(solved.regression, axis=0).max())
        self._largest_rate = float((1.0 / solved.spreads).max())
        self.error = self._measure_error(solved, probes)

    def pays_for(self, q: int) -> bool:
        """Tell if so many vectors are worth asking the device for."""
        return bool(q * self.products >= self.min_products)

    def winners(self, directions: Float32s) -> DeviceWinners:
        """Return the classes of vectors as `as_directions` returns them."""
        if self.t == 1:
            return DeviceWinners(
                np.zeros(len(directions), np.int64), np.zeros(len(directions), bool)
            )
        with torch.inference_mode(), own_stream(self.device):
            values, scales = self._totals(upload(directions, self.device))
            best, classes = values.topk(2, dim=1)
            # Of two scores, each may be off; and a vector that is not comparable is a close call.
            close = ~(best[:, 0] - best[:, 1] > 2.0 * self.error * scales)
            return DeviceWinners(classes[:, 0].cpu().numpy(), close.cpu().numpy())

    def _totals(self, directions: Tensor) -> _Totals:
        with full_precision():
            return self._score(directions)

    def _score(self, directions: Tensor) -> _Totals:
        offsets = directions - self._centre
        places = offsets @ self._basis
        whole = places.square().sum(dim=1, keepdim=True)
        squares = torch.addmm(self._lengths, places, self._means.T, alpha=-2.0)
        squares = (squares + whole).clamp_(min=0.0)
        densities = squares.mul_(self._rates).add_(self._volumes)
        self._take_off(places, densities)
        total, deviation = _standardize(densities.mul_(-0.5), 1.0 - self.ridge_weight)
        reach = whole[:, 0].sqrt() + self._longest_mean
        spread = self._basis_norm * offsets.square().sum(dim=1).sqrt()
        scales = self._largest_rate * reach * (spread + reach) / deviation
        if self.ridge_weight:
            ridge, of_ridge = _standardize(places @ self._regression, self.ridge_weight)
            total += ridge
            scales += self._longest_column * (spread + reach) / of_ridge
        return _Totals(total, scales)

    def _take_off(self, places: Tensor, densities: Tensor) -> None:
        """Subtract what each class's own axes take off its squared distances, in place."""
        for classes, factors, offsets, rank in self._groups:
            step = max(1, MAX_PRODUCTS // (len(places) * rank))
            for start in range(0, len(classes), step):
                rows = slice(start * rank, (start + step) * rank)
                along = torch.addmm(-offsets[rows], places, factors[rows].T)
                sums = along.square_().view(len(places), -1, rank).sum(dim=2)
                densities[:, classes[start : start + step]] -= sums

    def _own_axes(self, solved: Discriminant) -> list[_OwnAxes]:
        groups = []
        for rank in np.unique(solved.ranks[solved.ranks > 0]).tolist():
            classes = np.flatnonzero(solved.ranks == rank)
            rows = (solved.starts[classes][:, np.newaxis] + np.arange(rank)).ravel()
            factors = upload(solved.factors[rows], self.device)
            offsets = upload(solved.factor_offsets[rows], self.device)
            numbers = torch.from_numpy(classes).to(self.device)
            groups.append(_OwnAxes(numbers, factors, offsets, rank))
        return groups

    def _measure_error(self, solved: Discriminant, probes: Float32s) -> float:
        """Return by how much of their scales scores may be off, as measured on probes."""
        synchronize(self.device)
        with torch.inference_mode():
            values, scales = self._totals(upload(probes, self.device))
        apart = np.abs(values.cpu().numpy() - solved.totals(probes)).max(axis=1)
        with np.errstate(all="ignore"):  # where all classes are equal, nothing is sure
            largest = (apart / scales.cpu().numpy()).max()
        return MARGIN * float(np.maximum(largest, MIN_ERROR))


def _standardize(scores: Tensor, deviation: float) -> tuple[Tensor, Tensor]:
    """Return scores of mean 0 and this deviation over the classes, and what that was, over it."""
    centred = scores - scores.mean(dim=1, keepdim=True)
    deviations = centred.square().mean(dim=1).sqrt() / deviation
    return centred / deviations[:, None], deviations
