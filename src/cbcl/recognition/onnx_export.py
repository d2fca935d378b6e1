"""A memory and its backbone as one ONNX graph: pixels in, the answers of `recognition.answer` out.

b pictures, s pixels a side, d features, m centroids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.metadata import version
from math import isclose
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, version_converter
from PIL import Image

from cbcl.errors import BackboneError, MemoryFileError, first_line, reason
from cbcl.files import write_atomically
from cbcl.method.confidence import Scale
from cbcl.method.knowledge import Knowledge
from cbcl.recognition.answer import answers
from cbcl.recognition.onnx_answer import AnswerGraph, add_answer
from cbcl.vision.backbones.base import Backbone, subject_of
from cbcl.vision.backbones.network import Network
from cbcl.vision.onnx_graph import IR_VERSION, OPSET
from cbcl.vision.preprocessing import Preprocessing

MAX_ONNX_BYTES = 2_000_000_000  # of a file: protobuf ends at 2 GiB
NETWORK_PREFIX = "network/"  # of the names of its values
VECTOR_TOLERANCE = 0.01  # relative to a vector's length: a GPU rounds in another way


def export_onnx(path: Path, knowledge: Knowledge, scale: Scale, backbone: Backbone) -> None:
    """Write the graph to a new file, after a check that it gives the same answers."""
    if path.exists():
        raise MemoryFileError(path, "is there already", "give another name")
    if not isinstance(backbone, Network):
        raise BackboneError(
            subject_of(backbone.name),
            "is no ONNX network, so it cannot be part of an ONNX file",
            "learn through one that is (`cbcl backbones list`), or export the concepts without it, "
            "to FILE.safetensors",
        )
    model = as_onnx(knowledge, scale, backbone)
    _check_answers(model, knowledge, scale, backbone)
    try:
        write_atomically(path, model)
    except OSError as error:
        raise MemoryFileError(path, f"cannot be written: {reason(error)}") from error


def as_onnx(knowledge: Knowledge, scale: Scale, backbone: Network) -> bytes:
    """Return a deterministic model of network, search and vote, from pixels to answers."""
    m, d = knowledge.index.centroids.shape
    if len(backbone.model) + knowledge.index.centroids.nbytes > MAX_ONNX_BYTES:
        problem = "are too many for an ONNX file, which ends at 2 GB"
        raise MemoryFileError(f"{m} centroids", problem, "export to FILE.safetensors")
    model, graph = _load_network(backbone), AnswerGraph()
    source, target = model.graph.input[0], model.graph.output[0]
    # Some networks take one picture at a time.
    batch = source.type.tensor_type.shape.dim[0].dim_value or "batch"
    _add_normalization(graph, backbone.preprocessing, source.name)
    before = len(graph.nodes)
    outputs = add_answer(graph, _add_pooling(graph, target.name, d), knowledge, scale)
    nodes = [*graph.nodes[:before], *model.graph.node, *graph.nodes[before:]]
    side = backbone.preprocessing.size
    pixels = helper.make_tensor_value_info("pictures", TensorProto.UINT8, [batch, side, side, 3])
    output_infos = [
        helper.make_tensor_value_info(name, kind, [batch, *shape])
        for name, (kind, shape) in outputs.items()
    ]
    _replace(model.graph.node, nodes)
    _replace(model.graph.input, [pixels])
    _replace(model.graph.output, output_infos)
    model.graph.initializer.extend(graph.tensors.values())
    model.ir_version = max(model.ir_version, IR_VERSION)
    model.producer_name, model.producer_version = "cbcl", version("cbcl")
    helper.set_model_props(model, _metadata(knowledge, backbone))
    return bytes(model.SerializeToString(deterministic=True))


def _replace(field: Any, values: Iterable[Any]) -> None:
    del field[:]
    field.extend(values)


def _metadata(knowledge: Knowledge, backbone: Network) -> dict[str, str]:
    """Return the metadata; `preprocessing` is what the graph does not do itself."""
    fields = ("size", "square", "filter", "at_least")
    outside = {name: getattr(backbone.preprocessing, name) for name in fields}
    return {
        "cbcl": version("cbcl"),
        "backbone": PurePath(backbone.name).name,  # without its folder on this machine
        "fingerprint": backbone.fingerprint,
        "preprocessing": json.dumps(outside),
        "labels": json.dumps([*knowledge.concepts], ensure_ascii=False),
        "radius": repr(knowledge.radius),
        "n_voters": str(knowledge.n_voters),
    }


def _load_network(backbone: Network) -> onnx.ModelProto:
    """Return the network in an opset that has all operators used here, its names prefixed."""
    model = onnx.load_from_string(backbone.model)
    opsets = [opset.version for opset in model.opset_import if opset.domain in ("", "ai.onnx")]
    opset = max(opsets, default=0)
    if opset < OPSET:
        try:
            model = version_converter.convert_version(model, OPSET)
        except Exception as error:  # its errors have no common class but this
            raise BackboneError(
                subject_of(backbone.name),
                f"is of ONNX's opset {opset}, and cannot be converted to {OPSET}",
                "save the network again with that opset, or a later one",
            ) from error
    weights = {tensor.name for tensor in model.graph.initializer}
    # Old files list weights among the inputs.
    pictures = [value for value in model.graph.input if value.name not in weights]
    _replace(model.graph.input, pictures)
    return compose.add_prefix(model, NETWORK_PREFIX)


def _add_normalization(graph: AnswerGraph, how: Preprocessing, name: str) -> None:
    """Translate `Preprocessing.normalize`: bytes (b, s, s, 3) to the network's (b, 3, s, s)."""
    planes = graph("Transpose", "pictures", perm=[0, 3, 1, 2])
    if how.channels == "BGR":
        planes = graph("Gather", planes, np.array([2, 1, 0]), axis=1)
    mean, scale = (
        np.array(three, dtype=np.float32)[:, np.newaxis, np.newaxis]
        for three in (how.mean, how.scale)
    )
    centred = graph("Sub", graph("Cast", planes, to=TensorProto.FLOAT), mean)
    graph("Mul", centred, np.float32(1.0) / scale, name=name)


def _add_pooling(graph: AnswerGraph, features: str, d: int) -> str:
    """Translate `Network.vectors`: features (b, d), (b, 1, d) or (b, d, h, w) to vectors (b, d)."""
    maps = graph("Reshape", graph("Cast", features, to=TensorProto.FLOAT), np.array([0, d, -1]))
    return graph("Reshape", graph("GlobalAveragePool", maps), np.array([0, d]), name="vector")


def _check_answers(model: bytes, knowledge: Knowledge, scale: Scale, backbone: Network) -> None:
    """Compare the answers of the graph and of cbcl about a picture of noise."""
    how, subject = backbone.preprocessing, subject_of(backbone.name)
    shape = (how.at_least, how.at_least, 3)
    noise = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    picture = Image.fromarray(noise)
    expected = backbone.vectors([picture])
    import onnxruntime  # after the backbone has disabled its telemetry

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        pixels = {"pictures": how.crop(picture)[np.newaxis]}
        vector, (guess,), (strangeness,) = session.run(["vector", "guess", "strangeness"], pixels)
    except Exception as error:  # its errors have no common class but this
        problem = f"cannot be part of a larger graph: {first_line(error)}"
        raise BackboneError(subject, problem) from error
    (answer,) = answers(vector, knowledge, scale)
    same_answer = guess == answer.ranking[0].label and isclose(
        strangeness, answer.strangeness, rel_tol=1e-9
    )
    difference = np.linalg.norm(vector - expected)
    if not same_answer or not difference <= VECTOR_TOLERANCE * np.linalg.norm(expected):
        problem = "gives other answers as part of a larger graph, so it cannot be exported to ONNX"
        raise BackboneError(subject, problem)
