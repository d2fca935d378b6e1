"""A bag of visual words: how often each of a codebook's small patterns occurs in a picture, and not where.

The patterns are dense SIFT-like descriptors: 4 x 4 histograms of gradient directions, on a grid, at a few sizes of the
picture. (The paper's SURF is under patents.) n descriptors of d numbers, k words, h x w pixels.
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
REVISION = 1  # of the descriptors: one more whenever they change

SIDES = (256, 181, 128)  # the picture's longer side, in pixels
STEP = 8  # pixels between neighbours on the grid
BIN = 16  # pixels from one histogram to the next
BINS = 4  # histograms a side
DIRECTIONS = 8
NUMBERS = BINS * BINS * DIRECTIONS  # in a descriptor
SMALLEST = (BINS + 1) * BIN  # pixels a side that one descriptor covers: the histograms overlap
FAINT = 64.0  # the length under which a descriptor stays short: noise is not to look like a pattern
PEAK = 0.2  # of a descriptor of length 1: one strong edge is not to be all that counts
LENGTH = 512.0  # of a finished descriptor
MOST = 255  # which no number in a descriptor exceeds
TENT = (1.0 - np.abs(np.arange(2 * BIN) + 0.5 - BIN) / BIN).astype(
    np.float32
)  # a pixel counts less, farther off

HEADER = Struct("<8sHHI")  # what it is, the version of the format, d, k
MAGIC, VERSION = b"cbclword", 1

FOR_CODEBOOK = 30_000  # descriptors, at most,
FROM_PICTURES = 300  # of as many pictures
FOR_A_WORD = 10  # descriptors, at least


@dataclass(frozen=True, eq=False)
class VisualWords:
    """A codebook, and pictures as how often each word of it is the nearest: square roots of shares, so of length 1."""

    codebook: Floats  # (k, d), whole numbers

    name: ClassVar[str] = NAME
    at_least: ClassVar[int] = 3 * max(SIDES) // 2
    batch: ClassVar[int] = 1
    threads: ClassVar[bool] = True

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(NAME, self.state, description())

    @property
    def state(self) -> bytes:
        k, d = self.codebook.shape
        return HEADER.pack(MAGIC, VERSION, d, k) + self.codebook.astype("<f4").tobytes()

    @classmethod
    def from_state(cls, state: bytes) -> VisualWords:
        """What `state` was of."""
        if len(state) < HEADER.size or not state.startswith(MAGIC):
            raise WeightsError("the visual words are broken: they do not begin as a codebook does.")
        _, version, d, k = HEADER.unpack_from(state)
        if version != VERSION:
            raise WeightsError(
                f"the visual words are of version {version}, but this cbcl reads version {VERSION}."
            )
        if d != NUMBERS:
            raise WeightsError(f"the visual words are broken: each has {d} numbers, not {NUMBERS}.")
        if k == 0 or len(state) != HEADER.size + 4 * d * k:
            raise WeightsError(
                f"the visual words are broken: {len(state)} bytes do not hold {k} words of {d} numbers."
            )
        codebook = (
            np.frombuffer(state, dtype="<f4", offset=HEADER.size).astype(np.float32).reshape(k, d)
        )
        # NaN and infinities fail here, too. What passes is small enough for `nearest` to be exact.
        if not np.all((codebook >= 0) & (codebook <= MOST) & (codebook == np.floor(codebook))):
            raise WeightsError(
                f"the visual words are broken: not all their numbers are whole and from 0 to {MOST}."
            )
        return cls(codebook)

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        found = [nearest(descriptors(picture), self.codebook) for picture in things]
        counts = [np.bincount(words, minlength=len(self.codebook)) / len(words) for words in found]
        return np.sqrt(np.reshape(counts, (len(things), len(self.codebook)))).astype(np.float32)


@dataclass(frozen=True)
class UnfittedWords:
    """Visual words to come: k-means on the descriptors of the first pictures."""

    words: int = 500  # fewer, if the pictures are too few or too plain
    seed: int = field(default=0, kw_only=True)

    name: ClassVar[str] = NAME
    at_least: ClassVar[int] = VisualWords.at_least

    def fit(self, pictures: Sequence[Image.Image]) -> VisualWords:
        if self.words < 1 or not pictures:
            raise ValueError(
                f"{len(pictures)} pictures cannot give {self.words} visual words: both must be at least 1."
            )
        return VisualWords(_centres(_sample(pictures, self.seed), self.words, self.seed))


def _sample(pictures: Sequence[Image.Image], seed: int) -> Floats:
    """Descriptors at random, as many of each picture: (n, d)."""
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.permutation(len(pictures))[:FROM_PICTURES])
    each = FOR_CODEBOOK // len(chosen)
    return np.concatenate([rng.permutation(descriptors(pictures[i]))[:each] for i in chosen])


def _centres(sample: Floats, words: int, seed: int) -> Floats:
    """Words in a settled order, no two the same: (k, d)."""
    from sklearn.cluster import MiniBatchKMeans
    from threadpoolctl import threadpool_limits

    k = max(1, min(words, len(np.unique(sample, axis=0)) // FOR_A_WORD))
    kmeans = MiniBatchKMeans(k, random_state=seed, batch_size=4096, max_iter=20, n_init=1)
    with threadpool_limits(limits=1):  # several threads add up in any order
        centres = kmeans.fit(sample).cluster_centers_
    return np.unique(np.clip(np.rint(centres), 0, MOST).astype(np.float32), axis=0)


def nearest(found: Floats, codebook: Floats) -> NDArray[np.intp]:
    """The word of each descriptor: (n,).

    Both are whole numbers, and their products sum to less than 2**24: float32 holds every sum on the way exactly, so
    that no order of adding, no number of threads and no processor gives another word.
    """
    squares = (codebook * codebook).sum(axis=1)
    words: NDArray[np.intp] = np.argmin(squares - 2 * (found @ codebook.T), axis=1)
    return words


def descriptors(picture: Image.Image) -> Floats:
    """Dense SIFT-like descriptors of a picture at all sizes, of whole numbers: (n, d)."""
    grey = picture.convert("L")
    return np.concatenate([_descriptors(_resized(grey, side)) for side in SIDES])


def description() -> dict[str, Any]:
    """What the numbers in a descriptor depend on, beside the picture."""
    grid = {"sides": SIDES, "step": STEP, "bin": BIN, "bins": BINS, "directions": DIRECTIONS}
    return {**grid, "faint": FAINT, "peak": PEAK, "length": LENGTH, "revision": REVISION}


def _resized(grey: Image.Image, side: int) -> Floats:
    """The whole picture in its proportions; a narrow one is widened to what one descriptor needs."""
    share = side / max(grey.size)
    width, height = (max(SMALLEST, round(share * length)) for length in grey.size)
    return np.asarray(grey.resize((width, height), Image.Resampling.LANCZOS), dtype=np.float32)


def _descriptors(grey: Floats) -> Floats:
    cells = _pooled(_pooled(_directions(grey)).swapaxes(0, 1)).swapaxes(
        0, 1
    )  # (rows, columns, DIRECTIONS)
    apart = BIN // STEP
    across = (BINS - 1) * apart + 1
    patches = sliding_window_view(cells, (across, across), axis=(0, 1))[..., ::apart, ::apart]
    raw = patches.reshape(-1, NUMBERS)
    even = np.minimum(raw / np.maximum(_lengths(raw), FAINT), PEAK)
    whole: Floats = np.rint(
        even * (LENGTH / np.maximum(_lengths(even), 0.5))
    )  # which leaves the faint ones short
    return whole


def _directions(grey: Floats) -> Floats:
    """The gradient's strength, divided among the two directions nearest to its own: (h, w, DIRECTIONS)."""
    down, right = np.zeros_like(grey), np.zeros_like(grey)
    down[1:-1] = grey[2:] - grey[:-2]
    right[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    strength = np.hypot(right, down)
    angle = np.arctan2(down, right) * np.float32(DIRECTIONS / (2 * np.pi))
    floor = np.floor(angle)
    share = angle - floor
    before = floor.astype(np.intp)[..., np.newaxis] % DIRECTIONS
    maps = np.zeros((*grey.shape, DIRECTIONS), dtype=np.float32)
    np.put_along_axis(maps, before, (strength * (1 - share))[..., np.newaxis], axis=2)
    np.put_along_axis(maps, (before + 1) % DIRECTIONS, (strength * share)[..., np.newaxis], axis=2)
    return maps


def _pooled(maps: Floats) -> Floats:
    """Sums under a tent two bins wide, at every step along the first axis."""
    last = len(maps) - len(TENT)
    sums = np.zeros((last // STEP + 1, *maps.shape[1:]), dtype=np.float32)
    for offset, weight in enumerate(TENT):
        sums += weight * maps[offset : offset + last + 1 : STEP]
    return sums


def _lengths(rows: Floats) -> Floats:
    lengths: Floats = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    return lengths
