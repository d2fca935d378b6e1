"""Backbones as ONNX nodes: from the crops of pictures to the vectors of `Backbone.vectors`.

b pictures, s pixels a side, d features. Each docstring names the translated function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import sha256
from typing import cast

import numpy as np
import onnx
from onnx import TensorProto, compose, helper, version_converter
from PIL import Image

from cbcl.errors import BackboneError
from cbcl.export.onnx_picture import add_crop
from cbcl.heads.answer_nodes import AnswerGraph
from cbcl.vision.backbones.base import Backbone, subject_of
from cbcl.vision.backbones.combined import SHORTEST_LENGTH, Combined, Views, leaves
from cbcl.vision.backbones.network import Network
from cbcl.vision.onnx_graph import INPUT_NAME, IR_VERSION, OPSET
from cbcl.vision.preprocessing import Preprocessing

NETWORK_PREFIX = "network"  # of the names of its values


def networks_of(backbone: Backbone) -> list[Network]:
    """Return the networks in a backbone; none if one of them is not in ONNX."""
    parts = [*leaves(backbone)]
    networks = [part for part in parts if isinstance(part, Network)]
    return networks if len(networks) == len(parts) else []


def crops_of(backbone: Backbone) -> dict[str, Preprocessing]:
    """Return the inputs of the graph by name: different crops of the same pictures."""
    crops = dict.fromkeys(_crop(network.preprocessing) for network in networks_of(backbone))
    return {_numbered(INPUT_NAME, number): crop for number, crop in enumerate(crops, start=1)}


def _crop(how: Preprocessing) -> Preprocessing:
    """Return the part of the preprocessing that comes before the graph."""
    return replace(how, mean=(0.0, 0.0, 0.0), scale=(1.0, 1.0, 1.0), channels="RGB")


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}{number}"


class BackboneNodes:
    """A backbone that is made of networks, added to a graph."""

    def __init__(self, graph: AnswerGraph, backbone: Backbone, *, any_size: bool = False) -> None:
        self._graph = graph
        self._count = 0
        self._opset = max([OPSET, *(_opset(one) for one in networks_of(backbone))])
        self._opsets = {"": self._opset}
        self._weights: dict[bytes, str] = {}  # names by digest
        self.batch: int | str = "batch"  # some networks take one picture at a time
        self.model = onnx.ModelProto(ir_version=IR_VERSION)  # weights and inputs, without nodes
        self._planes = {
            crop: add_crop(graph, INPUT_NAME, crop)
            if any_size
            else graph.single(graph("Transpose", name, perm=[0, 3, 1, 2]))
            for name, crop in crops_of(backbone).items()
        }
        self.vector = graph("Identity", self._add(backbone), name="vector")
        for domain, version in self._opsets.items():
            self.model.opset_import.append(helper.make_opsetid(domain, version))
        sides = {name: [crop.size] * 2 for name, crop in crops_of(backbone).items()}
        for name, side in {INPUT_NAME: ["height", "width"]}.items() if any_size else sides.items():
            shape = [self.batch, *side, 3]
            pixels = helper.make_tensor_value_info(name, TensorProto.UINT8, shape)
            self.model.graph.input.append(pixels)

    def _add(self, backbone: Backbone) -> str:
        """Translate `Combined.vectors`, and return the name of the vectors: (b, d)."""
        if not isinstance(backbone, Combined):
            return self._add_network(cast("Network", backbone))
        vectors = [self._add(part) for part in backbone.parts]
        if isinstance(backbone, Views):
            return self._graph("Mean", *vectors)
        return self._graph("Concat", *(self._add_unit(some) for some in vectors), axis=1)

    def _add_unit(self, vectors: str) -> str:
        """Translate the unit length of `Joined`."""
        graph = self._graph
        wide = graph("Cast", vectors, to=TensorProto.DOUBLE)
        length = graph("Sqrt", graph("ReduceSum", graph("Mul", wide, wide), np.array([1])))
        unit = graph("Div", wide, graph("Max", length, np.float64(SHORTEST_LENGTH)))
        return graph("Cast", unit, to=TensorProto.FLOAT)

    def _add_network(self, network: Network) -> str:
        self._count += 1
        prefix = _numbered(NETWORK_PREFIX, self._count)
        model = compose.add_prefix(_load(network, self._opset), f"{prefix}/")
        source = model.graph.input[0]
        target = model.graph.output[0]
        self.batch = source.type.tensor_type.shape.dim[0].dim_value or self.batch
        self._add_normalization(network.preprocessing, source.name)
        self._add_weights(model.graph.initializer)
        self._graph.nodes.extend(model.graph.node)
        for field in ("sparse_initializer", "value_info", "quantization_annotation"):
            getattr(self.model.graph, field).extend(getattr(model.graph, field))
        self.model.functions.extend(model.functions)
        self.model.ir_version = max(self.model.ir_version, model.ir_version)
        for opset in model.opset_import:
            if opset.domain not in ("", "ai.onnx"):
                self._opsets[opset.domain] = max(opset.version, self._opsets.get(opset.domain, 0))
        d = network.vectors([Image.new("RGB", (8, 8))]).shape[1]
        return self._add_pooling(network, target.name, d)

    def _add_weights(self, tensors: Iterable[TensorProto]) -> None:
        """Add weights; those that several views of a network share are stored once."""
        own = {}
        for tensor in tensors:
            name = tensor.name
            tensor.name = ""
            digest = sha256(tensor.SerializeToString(deterministic=True)).digest()
            if digest in self._weights:
                self._graph("Identity", self._weights[digest], name=name)
                continue
            own[digest] = tensor.name = name
            self.model.graph.initializer.append(tensor)
        self._weights |= own

    def _add_normalization(self, how: Preprocessing, name: str) -> None:
        """Translate `Preprocessing.normalize`: colours to the network's input, (b, 3, s, s)."""
        graph = self._graph
        planes = self._planes[_crop(how)]
        if how.channels == "BGR":
            planes = graph("Gather", planes, np.array([2, 1, 0]), axis=1)
        mean, scale = (
            np.array(three, dtype=np.float32)[:, np.newaxis, np.newaxis]
            for three in (how.mean, how.scale)
        )
        centred = graph("Sub", planes, mean)
        graph("Mul", centred, np.float32(1.0) / scale, name=name)

    def _add_pooling(self, network: Network, features: str, d: int) -> str:
        """Translate the pooling of `Network.vectors`: its features to vectors (b, d).

        Features are (b, d), (b, 1, d), (b, d, h, w), or tokens (b, t, d) as described.
        """
        graph = self._graph
        values = graph("Cast", features, to=TensorProto.FLOAT)
        if network.tokens == "class":
            return graph("Gather", values, np.array(0), axis=1)
        if network.tokens == "mean":
            others = graph("Slice", values, np.array([1]), np.array([2**31]), np.array([1]))
            # Pooled as maps (b, d, t - 1), since opsets disagree on the axes of ReduceMean.
            maps = graph("Transpose", others, perm=[0, 2, 1])
        else:
            maps = graph("Reshape", values, np.array([0, d, -1]))
        return graph("Reshape", graph("GlobalAveragePool", maps), np.array([0, d]))


def _opset(network: Network) -> int:
    imported = onnx.load_from_string(network.model).opset_import
    return max((one.version for one in imported if one.domain in ("", "ai.onnx")), default=0)


def _load(network: Network, opset: int) -> onnx.ModelProto:
    """Return the model of a network, converted to the opset of the graph."""
    model = onnx.load_from_string(network.model)
    own = _opset(network)
    if own < opset:
        try:
            model = version_converter.convert_version(model, opset)
        except Exception as error:  # ONNX has no common class of errors
            raise BackboneError(
                subject_of(network.name),
                f"is of ONNX's opset {own}, and cannot be converted to {opset}",
                "save the network again with that opset, or a later one",
            ) from error
    weights = {tensor.name for tensor in model.graph.initializer}
    # Old files list weights among the inputs.
    pictures = [value for value in model.graph.input if value.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(pictures)
    return model
