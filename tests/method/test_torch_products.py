"""Learning on a device: the concepts of the processor, bit for bit, whatever the numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cbcl.method.arrays import Float32s
from cbcl.method.concepts import ClusteringPlan, Concepts, cluster

pytest.importorskip("torch", reason="the torch extra is not installed")
from cbcl.method import torch_products

D = 70


def vectors(kind: str, rows: int = 1500) -> Float32s:
    rng = np.random.default_rng(rows)
    normal = rng.normal(size=(rows, D)).astype(np.float32)
    kinds: dict[str, NDArray[Any]] = {
        "normal": normal,
        "whole numbers": rng.integers(-1, 2, size=(rows, D)),
        "copies": normal[rng.integers(100, size=rows)],
        "one bit apart": np.nextafter(normal[rng.integers(30, size=rows)], normal),
        "far away": normal + np.float32(3e4),
        "any length": normal * np.logspace(-18, 18, rows)[:, np.newaxis],
        "zeros": normal * (rng.random((rows, 1)) > 0.5),
    }
    rows_of_kind: Float32s = kinds[kind].astype(np.float32)
    return rows_of_kind


KINDS = ["normal", "whole numbers", "copies", "one bit apart", "far away", "any length", "zeros"]


def plan_on_device() -> ClusteringPlan:
    plan = ClusteringPlan.on_device("cpu", min_products=0)
    return plan._replace(blas_from=10 * D)  # from ten centroids on


def same(these: Concepts, those: Concepts) -> bool:
    return [array.tobytes() for array in these] == [array.tobytes() for array in those]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.0, 1e-3, 6.0, 8.0, 10.5, 11.5])
def test_the_concepts_are_those_of_the_processor(kind: str, radius: float) -> None:
    matrix = vectors(kind)
    on_device = cluster(matrix, None, radius, plan=plan_on_device())
    assert same(on_device, cluster(matrix, None, radius))


@pytest.mark.parametrize("kind", KINDS)
def test_learning_goes_on_where_it_ended(kind: str) -> None:
    matrix = vectors(kind)
    first = cluster(matrix[:700], None, 10.5)
    assert same(
        cluster(matrix[700:], None, 10.5, first, plan_on_device()), cluster(matrix, None, 10.5)
    )


def test_products_of_a_device_are_used_from_a_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the processor multiplied")

    monkeypatch.setattr(torch_products, "multiply", refuse)
    rows = vectors("normal", 600)
    out = np.empty((600, 700), dtype=np.float32)[:, :600]  # part of larger rows
    torch_products.DeviceProducts("cpu", min_products=600 * 600 * D)(rows, rows, out)
    np.testing.assert_allclose(out, rows @ rows.T, atol=1e-4)
    with pytest.raises(AssertionError, match="the processor"):
        torch_products.DeviceProducts("cpu")(rows, rows, out)
