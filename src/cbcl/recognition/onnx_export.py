"""A memory and its backbone as one ONNX graph: pixels in, label and confidence out, the same as `cbcl.recognition.answer` gives.

b pictures, s pixels a side, d features, m centroids.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from math import isclose
from pathlib import Path, PurePath

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, version_converter
from PIL import Image

from cbcl.errors import BackboneError, MemoryFileError, first_line
from cbcl.files import write_atomically
from cbcl.method.confidence import Scale
from cbcl.method.knowledge import Knowledge
from cbcl.recognition.answer import answers
from cbcl.recognition.onnx_answer import Nodes, answer
from cbcl.vision.backbones.base import Backbone
from cbcl.vision.backbones.network import Network
from cbcl.vision.onnx_graph import IR_VERSION, OPSET
from cbcl.vision.preprocessing import Preprocessing

MAX_BYTES = 2_000_000_000  # of a file: protobuf ends at 2 GiB
NETWORK = "network/"  # what the names of its values begin with
CLOSE = 0.01  # what a vector may differ by, as a share of its length: a GPU rounds otherwise


def export_onnx(path: Path, knowledge: Knowledge, scale: Scale, backbone: Backbone) -> None:
    """Write `as_onnx` to a file that is not there, once it was seen to answer as it should."""
    if path.exists():
        raise MemoryFileError(f"{path} is there already: give another name.")
    if not isinstance(backbone, Network):
        raise BackboneError(
            f"{backbone.name} is no ONNX network, so it cannot be part of an ONNX file: learn through one that is "
            "(`cbcl backbones list`), or export what is known without it, to FILE.safetensors."
        )
    model = as_onnx(knowledge, scale, backbone)
    _try_out(model, knowledge, scale, backbone)
    try:
        write_atomically(path, model)
    except OSError as error:
        raise MemoryFileError(f"{path} cannot be written: {error.strerror or error}.") from error


def as_onnx(knowledge: Knowledge, scale: Scale, backbone: Network) -> bytes:
    """All that it takes to answer, from pixels on: the same knowledge gives the same bytes."""
    m, d = knowledge.index.centroids.shape
    if len(backbone.model) + knowledge.index.centroids.nbytes > MAX_BYTES:
        raise MemoryFileError(
            f"{m} centroids are too many for an ONNX file, which ends at 2 GB: export to FILE.safetensors."
        )
    model, graph = _network(backbone), Nodes()
    source, target = model.graph.input[0], model.graph.output[0]
    batch = (
        source.type.tensor_type.shape.dim[0].dim_value or "batch"
    )  # some take one picture at a time
    _prepare(graph, backbone.preprocessing, source.name)
    before = len(graph.nodes)
    kinds = answer(graph, _vector(graph, target.name, d), knowledge, scale)
    nodes = [*graph.nodes[:before], *model.graph.node, *graph.nodes[before:]]
    side = backbone.preprocessing.size
    inputs = [helper.make_tensor_value_info("pictures", TensorProto.UINT8, [batch, side, side, 3])]
    outputs = [
        helper.make_tensor_value_info(name, kind, [batch, *more])
        for name, (kind, more) in kinds.items()
    ]
    for there, wanted in (
        (model.graph.node, nodes),
        (model.graph.input, inputs),
        (model.graph.output, outputs),
    ):
        del there[:]
        there.extend(wanted)
    model.graph.initializer.extend(graph.tensors)
    model.ir_version = max(model.ir_version, IR_VERSION)
    model.producer_name, model.producer_version = "cbcl", version("cbcl")
    helper.set_model_props(model, _words(knowledge, backbone))
    return bytes(model.SerializeToString(deterministic=True))


def _words(knowledge: Knowledge, backbone: Network) -> dict[str, str]:
    """What the file says of itself; `preprocessing` is what is left to do before it is asked."""
    how = backbone.preprocessing
    outside = {
        "size": how.size,
        "square": how.square,
        "filter": how.filter,
        "at_least": how.at_least,
    }
    return {
        "cbcl": version("cbcl"),
        "backbone": PurePath(backbone.name).name,  # not where it is on this machine
        "fingerprint": backbone.fingerprint,
        "preprocessing": json.dumps(outside),
        "labels": json.dumps([*knowledge.concepts], ensure_ascii=False),
        "radius": repr(knowledge.radius),
        "n_voters": str(knowledge.n_voters),
    }


def _network(backbone: Network) -> onnx.ModelProto:
    """The network, in an opset that has all that is needed here, and its names out of the way."""
    model = onnx.load_from_string(backbone.model)
    opset = max(
        (one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), default=0
    )
    if opset < OPSET:
        try:
            model = version_converter.convert_version(model, OPSET)
        except Exception as error:  # its errors have no common class but this
            raise BackboneError(
                f"{backbone.name} is of ONNX's opset {opset}, and cannot be made one of {OPSET}: save the network anew "
                "with that opset, or a later one."
            ) from error
    weights = {tensor.name for tensor in model.graph.initializer}
    for number, one in reversed([*enumerate(model.graph.input)]):
        if one.name in weights:  # as old files have it
            del model.graph.input[number]
    return compose.add_prefix(model, NETWORK)


def _prepare(graph: Nodes, how: Preprocessing, name: str) -> None:
    """`Preprocessing.numbers`: from (b, s, s, 3) bytes to what the network takes by that name, (b, 3, s, s)."""
    planes = graph("Transpose", "pictures", perm=[0, 3, 1, 2])
    if how.channels == "BGR":
        planes = graph("Gather", planes, np.array([2, 1, 0]), axis=1)
    mean, scale = (
        np.array(three, dtype=np.float32)[:, np.newaxis, np.newaxis]
        for three in (how.mean, how.scale)
    )
    centred = graph("Sub", graph("Cast", planes, to=TensorProto.FLOAT), mean)
    graph("Mul", centred, np.float32(1.0) / scale, name=name)


def _vector(graph: Nodes, features: str, d: int) -> str:
    """`Network.vectors`, be the features vectors, each in a row of its own or not, or maps: (b, d)."""
    maps = graph("Reshape", graph("Cast", features, to=TensorProto.FLOAT), np.array([0, d, -1]))
    return graph("Reshape", graph("GlobalAveragePool", maps), np.array([0, d]), name="vector")


def _try_out(model: bytes, knowledge: Knowledge, scale: Scale, backbone: Network) -> None:
    """Ask about a made-up picture, here and there."""
    how = backbone.preprocessing
    pixels = np.random.default_rng(0).integers(
        0, 256, (how.at_least, how.at_least, 3), dtype=np.uint8
    )
    picture = Image.fromarray(pixels)
    wanted = backbone.vectors([picture])
    import onnxruntime  # not before the backbone has told it to report nothing

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        asked = {"pictures": how.pixels(picture)[np.newaxis]}
        vector, (guess,), (strangeness,) = session.run(["vector", "guess", "strangeness"], asked)
    except Exception as error:  # its errors have no common class but this
        raise BackboneError(
            f"{backbone.name} cannot be part of a larger graph: {first_line(error)}."
        ) from error
    (here,) = answers(vector, knowledge, scale)
    same = guess == here.ranking[0].label and isclose(strangeness, here.strangeness, rel_tol=1e-9)
    if not (same and np.linalg.norm(vector - wanted) <= CLOSE * np.linalg.norm(wanted)):
        raise BackboneError(
            f"{backbone.name} gives other answers as part of a larger graph: it cannot be exported to ONNX."
        )
