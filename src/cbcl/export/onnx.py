"""A memory and its backbone as one ONNX graph: pixels in, the answers of `recognition.answer` out.

The knowledge is that of either head. The vote has a scale beside it, the default head none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from math import isclose
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from onnx import helper
from PIL import Image

from cbcl.errors import BackboneError, MemoryFileError, first_line, reason
from cbcl.export.onnx_backbone import BackboneNodes, crops_of, networks_of
from cbcl.export.onnx_examples import PortableExample, add_examples
from cbcl.files import write_atomically
from cbcl.heads.centroids.onnx import AnswerGraph, add_vote
from cbcl.heads.discriminant.onnx import add_discriminant
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.confidence import Scale
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.recognition.answer import answers, judged_answers
from cbcl.vision.backbones.base import Backbone, subject_of
from cbcl.vision.backbones.names import short_name
from cbcl.vision.onnx_graph import INPUT_NAME

MAX_ONNX_BYTES = 2_000_000_000  # of a file: protobuf ends at 2 GiB
CROP_FIELDS = ("size", "square", "filter", "squashed", "mirrored")
CHECKED = ["vector", "guess", "strangeness", "ranking_confidence"]  # outputs
ODDS_TOLERANCE = 0.01  # relative, of the odds for and against "known"
VOTE_TOLERANCE = 1e-9  # relative, of the vote's confidence and strangeness
VECTOR_TOLERANCE = 0.01  # relative to a vector's length: a GPU rounds in another way


class PortableModel(NamedTuple):
    """A graph for pictures of any size, and what a page shows beside its answers."""

    graph: bytes
    labels: list[str]
    at_least: int  # pixels a side that are enough
    examples: Sequence[PortableExample]  # in the order of the output `example_distance`


def export_onnx(
    path: Path,
    knowledge: CentroidModel | DiscriminantModel,
    scale: Scale | None,
    backbone: Backbone,
    *,
    any_size: bool = False,
) -> None:
    """Write the graph of `checked_onnx` to a new file."""
    if path.exists():
        raise MemoryFileError(path, "is there already", "give another name")
    model = checked_onnx(knowledge, scale, backbone, any_size=any_size)
    try:
        write_atomically(path, model)
    except OSError as error:
        raise MemoryFileError(path, f"cannot be written: {reason(error)}") from error


def checked_onnx(
    knowledge: CentroidModel | DiscriminantModel,
    scale: Scale | None,
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
    model = as_onnx(knowledge, scale, backbone, any_size=any_size, examples=examples)
    _check_answers(model, knowledge, scale, backbone, any_size=any_size)
    return model


def as_onnx(
    knowledge: CentroidModel | DiscriminantModel,
    scale: Scale | None,
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
    if isinstance(knowledge, DiscriminantModel):
        outputs = add_discriminant(graph, seeing.vector, knowledge)
    else:
        assert scale is not None
        outputs = add_vote(graph, seeing.vector, knowledge, scale)
    if examples:
        directions = np.stack([example.direction for example in examples])
        outputs |= add_examples(graph, seeing.vector, directions)
    _check_size(graph, backbone, len(knowledge.labels))
    model = seeing.model
    model.graph.output.extend(
        helper.make_tensor_value_info(name, kind, [seeing.batch, *shape])
        for name, (kind, shape) in outputs.items()
    )
    model.graph.name = "cbcl"
    model.graph.node.extend(graph.nodes)
    model.graph.initializer.extend(graph.tensors.values())
    model.producer_name, model.producer_version = "cbcl", version("cbcl")
    helper.set_model_props(model, _metadata(knowledge, backbone, any_size=any_size))
    return bytes(model.SerializeToString(deterministic=True))


def _check_size(graph: AnswerGraph, backbone: Backbone, t: int) -> None:
    own_bytes = sum(len(tensor.raw_data) for tensor in graph.tensors.values())
    if own_bytes + sum(len(network.model) for network in networks_of(backbone)) > MAX_ONNX_BYTES:
        problem = "are too many for an ONNX file, which ends at 2 GB"
        raise MemoryFileError(f"{t} labels", problem, "export to FILE.safetensors")


def _metadata(
    knowledge: CentroidModel | DiscriminantModel, backbone: Backbone, *, any_size: bool
) -> dict[str, str]:
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
        "labels": json.dumps(knowledge.labels, ensure_ascii=False),
    }
    if isinstance(knowledge, DiscriminantModel):
        return {**described, "head": "discriminant"}
    parameters = {"radius": repr(knowledge.radius), "n_voters": str(knowledge.n_voters)}
    return {**described, "head": "vote", **parameters}


def _check_answers(
    model: bytes,
    knowledge: CentroidModel | DiscriminantModel,
    scale: Scale | None,
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
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        crops = {name: how.crop(picture) for name, how in crops_of(backbone).items()}
        given = {INPUT_NAME: noise} if any_size else crops
        pixels = {name: values[np.newaxis] for name, values in given.items()}
        vector, (guess,), (strangeness,), ((confidence, *_),) = session.run(CHECKED, pixels)
    except Exception as error:  # its errors have no common class but this
        problem = f"cannot be part of a larger graph: {first_line(error)}"
        raise BackboneError(subject, problem) from error
    same_answer = _is_same(guess, strangeness, confidence, vector, knowledge, scale)
    difference = np.linalg.norm(vector - expected)
    if not same_answer or not difference <= VECTOR_TOLERANCE * np.linalg.norm(expected):
        problem = "gives other answers as part of a larger graph, so it cannot be exported to ONNX"
        raise BackboneError(subject, problem)


def _is_same(
    guess: str,
    strangeness: float,
    confidence: float,
    vector: Float32s,
    knowledge: CentroidModel | DiscriminantModel,
    scale: Scale | None,
) -> bool:
    """Tell whether Python guesses the same about a vector, and is as sure.

    The picture is strange, so the confidence may be tiny, and has to be the same still.
    """
    if isinstance(knowledge, DiscriminantModel):
        (answer,), tolerance = judged_answers(vector, knowledge), ODDS_TOLERANCE
    else:
        assert scale is not None
        (answer,), tolerance = answers(vector, knowledge, scale), VOTE_TOLERANCE
    best = answer.ranking[0]
    return (
        guess == best.label
        and isclose(confidence, best.confidence, rel_tol=tolerance)
        and isclose(strangeness, answer.strangeness, rel_tol=tolerance, abs_tol=VOTE_TOLERANCE)
    )
