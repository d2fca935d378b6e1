"""A bag of visual words: how often each small pattern of a codebook occurs in a picture.

The patterns are dense SIFT-like descriptors: 4 x 4 histograms of gradient directions, on a grid, at
a few sizes of the picture. (The paper's SURF is under patents.)

n descriptors of d numbers, k words, h x w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

from cbcl.errors import WeightsError
from cbcl.vision.backbones.base import fingerprint
from cbcl.vision.decoding import Floats

NAME = "visual-words"
DESCRIPTOR_REVISION = 1  # of the descriptors: one more whenever they change

IMAGE_SIDES = (256, 181, 128)  # the picture's longer side, in pixels
GRID_STEP = 8  # pixels between neighbours on the grid
BIN_SIZE = 16  # pixels from one histogram to the next
N_BINS = 4  # histograms a side
N_DIRECTIONS = 8
DESCRIPTOR_LENGTH = N_BINS * N_BINS * N_DIRECTIONS
MIN_SIDE = (N_BINS + 1) * BIN_SIZE  # pixels that one descriptor covers: the histograms overlap
MIN_NORM = 64.0  # a descriptor of a smaller norm stays short: noise must not look like a pattern
MAX_SHARE = 0.2  # of a number in a descriptor of norm 1: one strong edge must not outweigh the rest
NORM = 512.0  # of a finished descriptor
MAX_VALUE = 255  # of a number in a descriptor
# Weights of the pixels along an axis of a histogram: a triangle two bins wide.
TENT = (1.0 - np.abs(np.arange(2 * BIN_SIZE) + 0.5 - BIN_SIZE) / BIN_SIZE).astype(np.float32)

STATE_HEADER = Struct("<8sHHI")  # magic number, version of the format, d, k
STATE_MAGIC, STATE_VERSION = b"cbclword", 1

MAX_SAMPLE = 30_000  # descriptors to make a codebook of
MAX_SAMPLED_PICTURES = 300
MIN_DESCRIPTORS_A_WORD = 10


@dataclass(frozen=True, eq=False)
class VisualWords:
    """A codebook. A vector has the square root of each word's share, so its norm is 1."""

    codebook: Floats  # (k, d), whole numbers

    name: ClassVar[str] = NAME
    at_least: ClassVar[int] = 3 * max(IMAGE_SIDES) // 2
    batch: ClassVar[int] = 1
    threads: ClassVar[bool] = True

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(NAME, self.state, self.description)

    @property
    def description(self) -> dict[str, Any]:
        grid = {"sides": IMAGE_SIDES, "step": GRID_STEP, "bin": BIN_SIZE, "bins": N_BINS}
        scaling = {"faint": MIN_NORM, "peak": MAX_SHARE, "length": NORM}
        return {**grid, "directions": N_DIRECTIONS, **scaling, "revision": DESCRIPTOR_REVISION}

    @property
    def state(self) -> bytes:
        k, d = self.codebook.shape
        return (
            STATE_HEADER.pack(STATE_MAGIC, STATE_VERSION, d, k)
            + self.codebook.astype("<f4").tobytes()
        )

    @classmethod
    def from_state(cls, state: bytes) -> VisualWords:
        """Restore a codebook from its `state`."""
        if len(state) < STATE_HEADER.size or not state.startswith(STATE_MAGIC):
            raise _broken("they do not begin as a codebook does")
        _, version, d, k = STATE_HEADER.unpack_from(state)
        if version != STATE_VERSION:
            problem = f"are of version {version}, but this cbcl reads version {STATE_VERSION}"
            raise WeightsError("the visual words", problem)
        if d != DESCRIPTOR_LENGTH:
            raise _broken(f"each has {d} numbers, not {DESCRIPTOR_LENGTH}")
        if k == 0 or len(state) != STATE_HEADER.size + 4 * d * k:
            raise _broken(f"{len(state)} bytes do not hold {k} words of {d} numbers")
        codebook = (
            np.frombuffer(state, "<f4", offset=STATE_HEADER.size).astype(np.float32).reshape(k, d)
        )
        # NaN and infinities fail here, too. What passes is small enough for `nearest` to be exact.
        in_range = (codebook >= 0) & (codebook <= MAX_VALUE)
        if not np.all(in_range & (codebook == np.floor(codebook))):
            raise _broken(f"not all their numbers are whole and from 0 to {MAX_VALUE}")
        return cls(codebook)

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        k = len(self.codebook)
        words = [nearest(descriptors(picture), self.codebook) for picture in things]
        shares = [np.bincount(numbers, minlength=k) / len(numbers) for numbers in words]
        return np.sqrt(np.reshape(shares, (len(things), k))).astype(np.float32)


def _broken(problem: str) -> WeightsError:
    return WeightsError("the visual words", f"are broken: {problem}")


@dataclass(frozen=True)
class UnfittedWords:
    """Visual words before they are fitted: k-means on the descriptors of the first pictures."""

    words: int = 500  # fewer, if the pictures are too few or too plain
    seed: int = field(default=0, kw_only=True)

    name: ClassVar[str] = NAME
    at_least: ClassVar[int] = VisualWords.at_least

    def fit(self, pictures: Sequence[Image.Image]) -> VisualWords:
        if self.words < 1 or not pictures:
            raise ValueError(
                f"{len(pictures)} pictures cannot give {self.words} visual words: "
                "both must be at least 1."
            )
        sample = _sample_descriptors(pictures, self.seed)
        return VisualWords(_cluster(sample, self.words, self.seed))

    def restore(self, state: bytes) -> VisualWords:
        return VisualWords.from_state(state)


def _sample_descriptors(pictures: Sequence[Image.Image], seed: int) -> Floats:
    """Draw as many descriptors of each picture: (n, d)."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(pictures))[:MAX_SAMPLED_PICTURES])
    each = MAX_SAMPLE // len(chosen)
    return np.concatenate([rng.permutation(descriptors(pictures[i]))[:each] for i in chosen])


def _cluster(sample: Floats, words: int, seed: int) -> Floats:
    """Return distinct words in a fixed order: (k, d)."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    k = max(1, min(words, len(np.unique(sample, axis=0)) // MIN_DESCRIPTORS_A_WORD))
    kmeans = MiniBatchKMeans(k, random_state=seed, batch_size=4096, max_iter=20, n_init=1)
    with threadpool_limits(limits=1):  # several threads add up in any order
        centres = kmeans.fit(sample).cluster_centers_
    return np.unique(np.clip(np.rint(centres), 0, MAX_VALUE).astype(np.float32), axis=0)


def nearest(patches: Floats, codebook: Floats) -> NDArray[np.intp]:
    """Return the word of each descriptor: (n,).

    Both are whole numbers, and their products sum to less than 2**24: float32 holds every partial
    sum exactly, so that no order of summation, number of threads or processor gives another word.
    """
    squares = (codebook * codebook).sum(axis=1)
    words: NDArray[np.intp] = np.argmin(squares - 2 * (patches @ codebook.T), axis=1)
    return words


def descriptors(picture: Image.Image) -> Floats:
    """Return dense SIFT-like descriptors of a picture at all sizes, whole numbers: (n, d)."""
    grey = picture.convert("L")
    return np.concatenate([_describe(_resize(grey, side)) for side in IMAGE_SIDES])


def _resize(grey: Image.Image, side: int) -> Floats:
    """Resize the whole picture in its proportions; each side fits at least one descriptor."""
    share = side / max(grey.size)
    width, height = (max(MIN_SIDE, round(share * length)) for length in grey.size)
    return np.asarray(grey.resize((width, height), Image.Resampling.LANCZOS), dtype=np.float32)


def _describe(grey: Floats) -> Floats:
    rows = _pool(_gradients(grey))
    cells = _pool(rows.swapaxes(0, 1)).swapaxes(0, 1)  # (rows, columns, N_DIRECTIONS)
    apart = BIN_SIZE // GRID_STEP
    across = (N_BINS - 1) * apart + 1
    patches = sliding_window_view(cells, (across, across), axis=(0, 1))[..., ::apart, ::apart]
    raw = patches.reshape(-1, DESCRIPTOR_LENGTH)
    clipped = np.minimum(raw / np.maximum(_norms(raw), MIN_NORM), MAX_SHARE)
    # The faint ones stay short.
    whole: Floats = np.rint(clipped * (NORM / np.maximum(_norms(clipped), 0.5)))
    return whole


def _gradients(grey: Floats) -> Floats:
    """Divide the gradient's strength between the two nearest directions: (h, w, N_DIRECTIONS)."""
    down, right = np.zeros_like(grey), np.zeros_like(grey)
    down[1:-1] = grey[2:] - grey[:-2]
    right[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    strength = np.hypot(right, down)
    angle = np.arctan2(down, right) * np.float32(N_DIRECTIONS / (2 * np.pi))
    floor = np.floor(angle)
    share = angle - floor
    before = floor.astype(np.intp)[..., np.newaxis] % N_DIRECTIONS
    maps = np.zeros((*grey.shape, N_DIRECTIONS), dtype=np.float32)
    np.put_along_axis(maps, before, (strength * (1 - share))[..., np.newaxis], axis=2)
    np.put_along_axis(
        maps, (before + 1) % N_DIRECTIONS, (strength * share)[..., np.newaxis], axis=2
    )
    return maps


def _pool(maps: Floats) -> Floats:
    """Sum under `TENT` at every step of the grid along the first axis."""
    last = len(maps) - len(TENT)
    sums = np.zeros((last // GRID_STEP + 1, *maps.shape[1:]), dtype=np.float32)
    for offset, weight in enumerate(TENT):
        sums += weight * maps[offset : offset + last + 1 : GRID_STEP]
    return sums


def _norms(rows: Floats) -> Floats:
    norms: Floats = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return norms
