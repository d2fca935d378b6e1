"""Cropping and resizing as ONNX nodes: `Preprocessing.crop` for pictures of any size.

b pictures, h and w pixels high and wide, s pixels a side of the crop, made from n pixels.

A crop is a product with two matrices, the weights of columns and of rows, as in Pillow: rounded to
bytes after each, the cheaper first. ONNX's own Resize begins at a whole pixel. It would be half a
pixel off where the sides differ by an odd number.
"""

from __future__ import annotations

from math import pi
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from cbcl.heads.answer_nodes import AnswerGraph
from cbcl.method.arrays import Int64s
from cbcl.vision.preprocessing import Filter, Preprocessing

REACHES: dict[Filter, float] = {
    "bicubic": 2.0,
    "bilinear": 1.0,
    "lanczos": 3.0,
    "box": 0.5,
    "nearest": 0.5,
}  # pixels to either side in the support of a filter, unless the picture is made smaller
CUBIC = -0.5  # the slope of Pillow's cubic at 1


class _Axis(NamedTuple):
    """Names of the values for one side of a picture."""

    first: str  # (1,), the first pixel
    end: str  # (1,), after the last
    weights: str  # (s, n), float32; each row sums up to 1


def add_crop(graph: AnswerGraph, pictures: str, how: Preprocessing) -> str:
    """Translate `Preprocessing.crop`: bytes (b, h, w, 3) to whole numbers (b, 3, s, s), float32."""
    height, width = (
        graph.double(graph("Shape", pictures, start=side, end=side + 1))  # (1,)
        for side in (1, 2)
    )
    shorter = graph("Min", height, width)
    down, across = (
        graph("Mul", side if how.squashed else shorter, how.square) for side in (height, width)
    )
    numbers = np.arange(how.size)
    rows = _axis(graph, height, down, numbers, how)
    columns = _axis(graph, width, across, numbers[::-1] if how.mirrored else numbers, how)
    starts = graph("Concat", rows.first, columns.first, axis=0)
    ends = graph("Concat", rows.end, columns.end, axis=0)
    part = graph("Slice", pictures, starts, ends, np.array([1, 2]))
    planes = graph.single(graph("Transpose", part, perm=[0, 3, 1, 2]))
    by_columns = graph("Transpose", columns.weights, perm=[1, 0])
    is_tall = _is_tall(graph, height, width, how.size)
    return _multiply(graph, rows.weights, planes, by_columns, is_tall)


def _is_tall(graph: AnswerGraph, height: str, width: str, s: int) -> str:
    """Return true where Pillow, since version 13, takes rows first: they cost it twice as much."""
    is_less_work = graph("Greater", graph("Add", height, float(s)), graph("Mul", width, 2.0))
    return graph("And", graph("Greater", height, float(s)), is_less_work)


def _multiply(graph: AnswerGraph, rows: str, planes: str, columns: str, is_tall: str) -> str:
    """Return rows x planes x columns, (b, 3, s, s), rounded twice; rows first if tall."""
    branches = {}
    for name, order in {
        "then_branch": [(rows, ""), ("", columns)],
        "else_branch": [("", columns), (rows, "")],
    }.items():
        branch = AnswerGraph()
        values = planes
        branch.prefix = f"{graph.prefix}{name}{len(graph.nodes)}/"
        for left, right in order:
            values = _round(branch, branch("MatMul", left or values, right or values))
        output = helper.make_tensor_value_info(values, TensorProto.FLOAT, None)
        tensors = [*branch.tensors.values()]
        branches[name] = helper.make_graph(branch.nodes, name, [], [output], tensors)
    return graph("If", is_tall, **branches)


def _axis(graph: AnswerGraph, side: str, span: str, numbers: Int64s, how: Preprocessing) -> _Axis:
    begin = graph("Div", graph("Sub", side, span), 2.0)
    scale = graph("Div", span, float(how.size))
    centres = graph("Add", begin, graph("Mul", numbers + 0.5, scale))  # (s,)
    stretch = graph.constant(1.0) if how.filter == "nearest" else graph("Max", scale, 1.0)
    reach = graph("Mul", stretch, REACHES[how.filter])
    first = graph("Max", graph("Floor", graph("Sub", begin, reach)), 0.0)
    end = graph("Min", graph("Ceil", graph("Add", graph("Add", begin, span), reach)), side)
    limits = [graph("Squeeze", limit, np.array([0])) for limit in (first, end)]
    pixels = graph("Range", *limits, 1.0)  # (n,)
    apart = graph("Sub", graph("Add", pixels, 0.5), graph("Unsqueeze", centres, np.array([1])))
    weights = _filter(graph, graph("Div", apart, stretch), how.filter)
    shares = graph.single(graph("Div", weights, graph.total(weights)))
    first, end = (graph("Cast", limit, to=TensorProto.INT64) for limit in (first, end))
    return _Axis(first, end, shares)


def _filter(graph: AnswerGraph, x: str, name: Filter) -> str:
    """Return the weights of pixels by their distances, in the unit of the filter."""
    size = graph("Abs", x)
    if name == "bilinear":
        return graph("Max", graph("Sub", 1.0, size), 0.0)
    if name == "bicubic":
        square = graph("Mul", size, size)
        inner = graph("Sub", graph("Mul", CUBIC + 2.0, size), CUBIC + 3.0)
        near = graph("Add", graph("Mul", inner, square), 1.0)
        outer = graph("Mul", graph("Add", graph("Mul", graph("Sub", size, 5.0), size), 8.0), size)
        far = graph("Mul", CUBIC, graph("Sub", outer, 4.0))
        value = graph("Where", graph("Less", size, 1.0), near, far)
        return graph("Where", graph("Less", size, 2.0), value, 0.0)
    if name == "lanczos":
        product = graph("Mul", _sinc(graph, size), _sinc(graph, graph("Div", size, 3.0)))
        return graph("Where", graph("Less", size, 3.0), product, 0.0)
    is_inside = graph("And", graph("Greater", x, -0.5), graph("Not", graph("Greater", x, 0.5)))
    return graph.double(is_inside)


def _sinc(graph: AnswerGraph, x: str) -> str:
    angle = graph("Mul", graph("Max", x, 1e-9), pi)  # at 1e-9, sine and angle are equal
    return graph("Div", graph("Sin", angle), angle)


def _round(graph: AnswerGraph, values: str) -> str:
    whole = graph("Floor", graph("Add", values, np.float32(0.5)))
    return graph("Clip", whole, np.float32(0.0), np.float32(255.0))
