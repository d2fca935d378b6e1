"""Searching on a device: the voters of the processor, bit for bit, whatever the numbers are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cbcl.method.arrays import Float32s
from cbcl.method.concepts import Concepts
from cbcl.method.kernel import KERNEL, NUMPY, Kernel
from cbcl.method.knowledge import Knowledge
from cbcl.method.search import Index, Search, nearest

pytest.importorskip("torch", reason="the torch extra is not installed")
from cbcl.method import torch_search

D = 70  # features, not a multiple of anything


def gaussian(rng: np.random.Generator, rows: int) -> Float32s:
    return rng.normal(size=(rows, D)).astype(np.float32)


def clustered(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    centroids = gaussian(rng, 60).repeat(20, axis=0) + 0.1 * gaussian(rng, 1200)
    return centroids, centroids[::7] + 0.1 * gaussian(rng, 172)


def duplicates(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Groups of 2 to 300 identical centroids, and vectors that coincide with them."""
    sizes = np.arange(2, 300, 12)
    centroids = gaussian(rng, len(sizes)).repeat(sizes, axis=0)
    return rng.permutation(centroids), np.concatenate([centroids[::31], gaussian(rng, 50)])


def ties(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Whole numbers: thousands of distances are equal."""
    values = rng.integers(-1, 2, size=(1600, D)).astype(np.float32)
    return values[:1500], values[1500:]


def one_bit_apart(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Centroids that differ from others by the last bit of one feature."""
    base = gaussian(rng, 40).repeat(30, axis=0)
    columns = rng.integers(D, size=len(base))
    rows = np.arange(len(base))
    base[rows, columns] = np.nextafter(base[rows, columns], np.float32(9.0))
    return base, base[::9] + gaussian(rng, 134) * np.float32(1e-3)


def far_away(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Vectors with a large common part, whose distances are lost in the products' errors."""
    return gaussian(rng, 1100) + np.float32(3e4), gaussian(rng, 90) + np.float32(3e4)


def of_all_lengths(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Lengths from 1e-9 to 1e14, zero vectors among them, all within the bounds."""
    centroids = gaussian(rng, 1300) * np.logspace(-9, 13, 1300)[:, np.newaxis]
    vectors = gaussian(rng, 200) * np.logspace(-9, 13, 200)[:, np.newaxis]
    centroids[::50] = vectors[::20] = 0.0
    return centroids.astype(np.float32), vectors.astype(np.float32)


def too_long_and_too_short(rng: np.random.Generator) -> tuple[Float32s, Float32s]:
    """Vectors whose products have no bound, among others."""
    centroids, vectors = clustered(rng)
    vectors[::5] *= np.float32(1e18)
    vectors[1::5] *= np.float32(1e-30)
    return centroids, vectors


MAKERS = [
    clustered,
    duplicates,
    ties,
    one_bit_apart,
    far_away,
    of_all_lengths,
    too_long_and_too_short,
]


def index_of(centroids: Float32s) -> Index:
    parts = np.array_split(centroids, 7)
    return Index([Concepts(part, np.ones(len(part), dtype=np.int64)) for part in parts])


def on_device(index: Index) -> Index:
    other = Index(index.concepts)
    other.copy_to("cpu", min_products=0)
    assert other.on_device is not None
    return other


@pytest.mark.parametrize("tile", [1 << 14, torch_search.TILE_PRODUCTS])
@pytest.mark.parametrize("n", [1, 3, 64])
@pytest.mark.parametrize("make", MAKERS)
def test_the_voters_are_those_of_the_processor(
    make: Callable[[np.random.Generator], tuple[Float32s, Float32s]],
    n: int,
    tile: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch_search, "TILE_PRODUCTS", tile)
    centroids, vectors = make(np.random.default_rng(n))
    index = index_of(centroids)
    wanted, found = nearest(vectors, index, n), nearest(vectors, on_device(index), n)
    assert found.indices.tobytes() == wanted.indices.tobytes()
    assert found.distances.tobytes() == wanted.distances.tobytes()


@pytest.mark.parametrize("kernel", [KERNEL, NUMPY], ids=["compiled", "numpy"])
def test_candidates_are_few_and_hold_the_nearest(kernel: Kernel) -> None:
    centroids, vectors = clustered(np.random.default_rng(0))
    index = on_device(index_of(centroids))
    assert index.on_device is not None
    numbers, counts, complete = index.on_device.candidates(vectors, 3, 38)
    assert complete.all()
    assert counts.max() < 10
    wanted = Search(index_of(centroids), 3, kernel).nearest(vectors, 3)
    for row, count in enumerate(counts):
        assert {*wanted.indices[row]} <= {*numbers[row, :count]}
    found = Search(index, 3, kernel).nearest(vectors, 3)
    assert found.indices.tobytes() == wanted.indices.tobytes()
    assert found.distances.tobytes() == wanted.distances.tobytes()


def test_what_the_device_cannot_decide_is_left_to_the_processor() -> None:
    centroids, vectors = too_long_and_too_short(np.random.default_rng(0))
    device = on_device(index_of(centroids)).on_device
    assert device is not None
    complete = device.candidates(vectors, 3, 38).complete
    assert not complete[::5].any()
    assert not complete[1::5].any()
    assert complete[2::5].all()
    centroids, vectors = duplicates(np.random.default_rng(0))
    device = on_device(index_of(centroids)).on_device
    assert device is not None
    complete = device.candidates(vectors, 1, 34).complete
    assert complete.any()
    assert not complete.all()


def test_centroids_without_a_bound_stay_with_the_processor() -> None:
    centroids, vectors = clustered(np.random.default_rng(0))
    centroids[5] *= np.float32(1e18)
    index = index_of(centroids)
    index.copy_to("cpu", min_products=0)
    assert index.on_device is None
    assert nearest(vectors, index, 1).indices.shape == (172, 1)


def test_vectors_that_are_not_finite_are_refused_as_ever() -> None:
    centroids, vectors = clustered(np.random.default_rng(0))
    vectors[17, 3] = np.nan
    with pytest.raises(ValueError, match="vectors"):
        nearest(vectors, on_device(index_of(centroids)), 1)


def test_few_vectors_are_not_sent_to_a_device() -> None:
    index = index_of(clustered(np.random.default_rng(0))[0])
    index.copy_to("cpu")
    assert index.on_device is not None
    assert not index.on_device.pays_for(100)
    assert index.on_device.pays_for(10_000)


def test_labels_and_evidence_are_those_of_the_processor() -> None:
    centroids, vectors = duplicates(np.random.default_rng(3))
    parts = np.array_split(centroids, 9)
    concepts = {
        label: Concepts(part, np.full(len(part), label + 1)) for label, part in enumerate(parts)
    }
    here, there = Knowledge(concepts, 1.0, 5), Knowledge(concepts, 1.0, 5)
    there.index.copy_to("cpu", min_products=0)
    assert there.votes(vectors).tobytes() == here.votes(vectors).tobytes()
    assert there.winners(vectors).tobytes() == here.winners(vectors).tobytes()
    for wanted, found in zip(here.explain(vectors), there.explain(vectors), strict=True):
        assert found.tobytes() == wanted.tobytes()
