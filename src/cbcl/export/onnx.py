"""A memory and its backbone as one ONNX graph: pixels in, answers out.

b vectors, d features, e examples.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper
from PIL import Image

from cbcl.errors import BackboneError, MemoryFileError, first_line, reason
from cbcl.export.onnx_backbone import BackboneNodes, crops_of, networks_of
from cbcl.export.portable import PortableExample
from cbcl.files import write_atomically
from cbcl.heads.answer_nodes import AnswerGraph, Outputs
from cbcl.heads.base import Head, HeadModel
from cbcl.heads.discriminant.onnx import add_directions
from cbcl.method.arrays import Float32s
from cbcl.method.discriminant.coding import encode
from cbcl.vision.backbones.base import Backbone, short_name, subject_of
from cbcl.vision.onnx_graph import INPUT_NAME

MAX_ONNX_BYTES = 2_000_000_000  # of a file: protobuf ends at 2 GiB
CROP_FIELDS = ("size", "square", "filter", "squashed", "mirrored")
CHECKED = ["vector", "guess", "strangeness", "ranking_confidence"]  # outputs
ZERO_TOLERANCE = 1e-9  # of a strangeness of nearly 0
VECTOR_TOLERANCE = 0.01  # relative to a vector's length: a GPU rounds in another way


def export_onnx(
    path: Path,
    model: HeadModel,
    head: Head[Any],
    backbone: Backbone,
    *,
    any_size: bool = False,
) -> None:
    """Write the graph of `checked_onnx` to a new file."""
    if path.exists():
        raise MemoryFileError(path, "is there already", "give another name")
    graph = checked_onnx(model, head, backbone, any_size=any_size)
    try:
        write_atomically(path, graph)
    except OSError as error:
        raise MemoryFileError(path, f"cannot be written: {reason(error)}") from error


def checked_onnx(
    model: HeadModel,
    head: Head[Any],
    backbone: Backbone,
    *,
    any_size: bool = False,
    examples: Sequence[PortableExample] = (),
) -> bytes:
    """Return the model of `as_onnx`, after a check that it gives the same answers."""
    if not networks_of(backbone):
        raise BackboneError(
            subject_of(backbone.name),
            "is no ONNX network, so it cannot be part of an ONNX file",
            "learn through one that is (`cbcl backbones list`), or export the concepts without it, "
            "to FILE.safetensors",
        )
    graph = as_onnx(model, backbone, any_size=any_size, examples=examples)
    _check_answers(graph, model, head, backbone, any_size=any_size)
    return graph


def as_onnx(
    model: HeadModel,
    backbone: Backbone,
    *,
    any_size: bool = False,
    examples: Sequence[PortableExample] = (),
) -> bytes:
    """Return a deterministic model of networks and head, from pixels to answers.

    With `any_size` the pixels are those of whole pictures, else of crops of the network's size.
    With `examples`, the distances to these are an output, too.
    """
    graph = AnswerGraph()
    seeing = BackboneNodes(graph, backbone, any_size=any_size)
    outputs = model.add_answer(graph, seeing.vector)
    if examples:
        directions = np.stack([example.direction for example in examples])
        outputs |= _add_examples(graph, seeing.vector, directions)
    _check_size(graph, backbone, len(model.labels))
    whole = seeing.model
    whole.graph.output.extend(
        helper.make_tensor_value_info(name, kind, [seeing.batch, *shape])
        for name, (kind, shape) in outputs.items()
    )
    whole.graph.name = "cbcl"
    whole.graph.node.extend(graph.nodes)
    whole.graph.initializer.extend(graph.tensors.values())
    whole.producer_name = "cbcl"
    whole.producer_version = version("cbcl")
    helper.set_model_props(whole, _metadata(model, backbone, any_size=any_size))
    return bytes(whole.SerializeToString(deterministic=True))


def _add_examples(graph: AnswerGraph, vector: str, directions: Float32s) -> Outputs:
    """Add the distances to examples, by directions, and return their output: (b, e)."""
    e, d = directions.shape
    rows = encode(directions)
    own = add_directions(graph, vector, d)
    values = graph("Mul", graph.single(rows.codes), rows.scales[:, np.newaxis])
    products = graph("MatMul", own, graph("Transpose", values, perm=[1, 0]))
    lengths = (rows.values.astype(np.float64) ** 2).sum(axis=1).astype(np.float32)
    squares = graph("Sub", lengths, graph("Mul", np.float32(2.0), products))
    whole = graph("Add", graph.total(graph("Mul", own, own)), squares)
    graph("Sqrt", graph("Max", whole, np.float32(0.0)), name="example_distance")
    return {"example_distance": (TensorProto.FLOAT, [e])}


def _check_size(graph: AnswerGraph, backbone: Backbone, t: int) -> None:
    own_bytes = sum(len(tensor.raw_data) for tensor in graph.tensors.values())
    if own_bytes + sum(len(network.model) for network in networks_of(backbone)) > MAX_ONNX_BYTES:
        problem = "are too many for an ONNX file, which ends at 2 GB"
        raise MemoryFileError(f"{t} labels", problem, "export to FILE.safetensors")


def _metadata(model: HeadModel, backbone: Backbone, *, any_size: bool) -> dict[str, str]:
    """Return the metadata; `preprocessing` is what the graph does not do itself."""
    outside: dict[str, Any] = {
        name: {
            **{key: value for key, value in how.description.items() if key in CROP_FIELDS},
            "at_least": backbone.at_least,
        }
        for name, how in crops_of(backbone).items()
    }
    if any_size:
        outside = {INPUT_NAME: {"at_least": backbone.at_least}}
    described = {
        "cbcl": version("cbcl"),
        "backbone": short_name(backbone.name),  # without its folder on this machine
        "fingerprint": backbone.fingerprint,
        "preprocessing": json.dumps(outside if len(outside) > 1 else outside[INPUT_NAME]),
        "labels": json.dumps(model.labels, ensure_ascii=False),
    }
    return {**described, **model.metadata()}


def _check_answers(
    graph: bytes,
    model: HeadModel,
    head: Head[Any],
    backbone: Backbone,
    *,
    any_size: bool = False,
) -> None:
    """Compare the answers of the graph and of cbcl about a picture of noise."""
    subject, side = subject_of(backbone.name), backbone.at_least or 1
    shape = (side, side, 3)
    if any_size:  # half a pixel off, but not resized: eight bits make much of a rounded pixel
        side = min(how.size for how in crops_of(backbone).values())
        shape = (side, side + 1, 3)
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    picture = Image.fromarray(noise)
    expected = backbone.vectors([picture])
    import onnxruntime  # after the backbone has disabled its telemetry

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        crops = {name: how.crop(picture) for name, how in crops_of(backbone).items()}
        given = {INPUT_NAME: noise} if any_size else crops
        pixels = {name: values[np.newaxis] for name, values in given.items()}
        vector, (guess,), (strangeness,), ((confidence, *_),) = session.run(CHECKED, pixels)
    except Exception as error:  # its errors have no common class but this
        problem = f"cannot be part of a larger graph: {first_line(error)}"
        raise BackboneError(subject, problem) from error
    (verdict,) = model.answer(head.see(vector))
    best = verdict.ranking[0]
    tolerance = model.onnx_tolerance  # the picture is strange: the confidence may be tiny
    same_answer = (
        guess == best.label
        and isclose(confidence, best.confidence, rel_tol=tolerance)
        and isclose(strangeness, verdict.strangeness, rel_tol=tolerance, abs_tol=ZERO_TOLERANCE)
    )
    difference = np.linalg.norm(vector - expected)
    if not same_answer or not difference <= VECTOR_TOLERANCE * np.linalg.norm(expected):
        problem = "gives other answers as part of a larger graph, so it cannot be exported to ONNX"
        raise BackboneError(subject, problem)
