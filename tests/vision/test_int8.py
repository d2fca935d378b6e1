"""Networks in eight bits: nearly the vectors of float32, and the same on every processor."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from support.networks import photographs, run
from test_networks import lite0_model

from cbcl.vision.backbones.int8 import (
    QUANTIZED_LINEAR,
    QUANTIZED_PICTURES,
    QUANTIZED_RELU6,
    Int8Graph,
    Quantization,
    weight_scales,
)
from cbcl.vision.onnx_graph import Filters


def test_it_is_small_and_its_vectors_point_where_those_of_float32_do() -> None:
    small, large = lite0_model(int8=True), lite0_model()
    assert len(small) < 0.3 * len(large)
    ours, theirs = (run(network, photographs(224)) for network in (small, large))
    lengths = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    assert ((ours * theirs).sum(axis=1) / lengths).min() >= 0.98


def test_onnx_runtime_runs_every_layer_on_integers(tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3  # it warns that such a file is for this processor alone
    onnxruntime.InferenceSession(
        lite0_model(int8=True), options, providers=["CPUExecutionProvider"]
    )
    kinds = Counter(node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node)
    assert (kinds["QLinearConv"], kinds["QLinearAdd"]) == (49, 9)
    assert (kinds["QuantizeLinear"], kinds["DequantizeLinear"]) == (1, 1)
    assert not kinds.keys() & {"Conv", "Add"}


def test_pixels_are_read_without_loss_and_relu6_is_where_bytes_end() -> None:
    pixels = np.arange(256)
    numbers = (pixels.astype(np.float32) - np.float32(127)) / np.float32(128)
    scale, zero_point = QUANTIZED_PICTURES
    np.testing.assert_array_equal(numbers / scale + zero_point, pixels)
    assert limits(QUANTIZED_PICTURES) == (-127 / 128, 1.0)
    assert limits(QUANTIZED_RELU6) == (0.0, 6.0)
    assert limits(QUANTIZED_LINEAR) == (-48.0, 47.625)


def limits(how: Quantization) -> tuple[float, float]:
    return -how.zero_point * how.scale, (255 - how.zero_point) * how.scale


@pytest.mark.parametrize("seed", range(5))
def test_two_products_fit_into_16_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for shape in ((40, 96, 1, 1), (32, 3, 3, 3)):
        filters = Filters(rng.normal(size=shape) ** 3, rng.normal(size=shape[0]))
        weight = np.rint(filters.weight / weight_scales(filters, 1.0)[:, None, None, None])
        rows = weight.reshape(shape[0], -1)
        if shape[2] > 1:  # any two may meet: the worst are the largest and the smallest
            rows = np.sort(rows)[:, [0, 1, -2, -1]]
        products = 255 * np.stack([rows.clip(min=0), rows.clip(max=0)])
        sums = products.reshape(2, shape[0], -1, 2).sum(axis=3)
        assert np.abs(weight).max() <= 127
        assert -(2**15) <= sums.min() <= sums.max() < 2**15
        assert np.abs(sums).max(axis=(0, 2)).min() >= 0.9 * 2**15  # and no finer steps would


def test_a_dead_filter_keeps_its_bias() -> None:
    graph = Int8Graph("dead", 8)
    filters = Filters(np.array([0.0, 1e-30, 0.0]).reshape(3, 1, 1, 1), np.array([3.0, 3.0, 0.0]))
    dead = graph.finish(graph.relu6(graph.conv(graph.pictures, filters, groups=3)))
    vectors = run(dead, np.ones((1, 3, 8, 8), dtype=np.float32))
    np.testing.assert_allclose(vectors, [[3.0, 3.0, 0.0]], atol=QUANTIZED_RELU6.scale)
