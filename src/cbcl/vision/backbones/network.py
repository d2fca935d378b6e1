"""A network in ONNX, run by ONNX Runtime: a model file, and beside it a description of what it wants.

b pictures, s pixels a side, d features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from PIL import Image

from cbcl.errors import WeightsError, first_line
from cbcl.files import write_atomically
from cbcl.vision.backbones.base import fingerprint
from cbcl.vision.decoding import Floats
from cbcl.vision.preprocessing import Preprocessing

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

GPU_BATCH = 64


@dataclass(frozen=True)
class Network:
    """A backbone of the general kind: pixels into a network, pooled features out."""

    name: str
    model: bytes
    preprocessing: Preprocessing
    weights: str  # SHA-256 of the file that the weights came from
    cores: int = 1  # that work on one picture

    state: ClassVar[bytes] = b""
    threads: ClassVar[bool] = True

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.weights, self.preprocessing.description())

    @property
    def at_least(self) -> int:
        return self.preprocessing.at_least

    @property
    def batch(self) -> int:
        # On a processor, one thread a picture is as fast as any batch, and needs the least memory.
        return 1 if self._session.get_providers()[0] == "CPUExecutionProvider" else GPU_BATCH

    @cached_property
    def on_all_cores(self) -> Network:
        """The same, faster for one picture; many are better divided among threads."""
        return replace(self, cores=0)  # as many as there are

    @cached_property
    def _session(self) -> InferenceSession:
        # Else, when imported, it writes an identifier of the machine to the user's cache, and reports to its makers.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.cores
        # Threads that wait by spinning take the cores from whatever comes next: the search, another picture's turn.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        usable = [
            name
            for name in ("CUDAExecutionProvider",)
            if name in onnxruntime.get_available_providers()
        ]
        try:
            session = onnxruntime.InferenceSession(
                self.model, options, providers=[*usable, "CPUExecutionProvider"]
            )
        except Exception as error:  # its errors have no common class but this
            raise WeightsError(
                f"{self.name} is no network that ONNX Runtime can run: {first_line(error)}."
            ) from error
        inputs = session.get_inputs()
        if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
            raise WeightsError(
                f"{self.name} must have one input of (pictures, 3, height, width) float32 numbers, but has "
                f"{', '.join(f'{one.name}: {one.type} {one.shape}' for one in inputs)}."
            )
        if (
            "tensor(float" not in session.get_outputs()[0].type
            and "tensor(double" not in session.get_outputs()[0].type
        ):
            raise WeightsError(
                f"{self.name} must give numbers, but gives {session.get_outputs()[0].type}."
            )
        return session

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        numbers = np.stack(
            [self.preprocessing.numbers(self.preprocessing.pixels(picture)) for picture in things]
        )
        try:
            (features,) = self._session.run([self._output], {self._input: numbers})
        except WeightsError:
            raise
        except Exception as error:
            raise WeightsError(
                f"{self.name} failed on pictures of {numbers.shape}: {first_line(error)}."
            ) from error
        pooled: Floats = (
            features.mean(axis=(2, 3), dtype=np.float32) if features.ndim == 4 else features
        )
        if pooled.ndim == 3 and pooled.shape[1] == 1:
            pooled = pooled[:, 0]
        if pooled.ndim != 2 or len(pooled) != len(things) or 0 in pooled.shape:
            raise WeightsError(
                f"{self.name} gives {features.shape} for {len(things)} pictures, not one vector each."
            )
        return pooled.astype(np.float32, copy=False)

    @cached_property
    def _input(self) -> str:
        return str(self._session.get_inputs()[0].name)

    @cached_property
    def _output(self) -> str:
        return str(self._session.get_outputs()[0].name)

    def write(self, path: Path) -> None:
        """Keep it, with what `read_kept` needs to know beside it; that last, so that the pair is whole."""
        digest = sha256(self.model).hexdigest()
        about = {
            "weights": self.weights,
            "model": digest,
            "both": fingerprint(self.weights, digest),
        }
        write_atomically(path, self.model)
        write_atomically(path.with_suffix(".json"), json.dumps(about, indent=1).encode())


def read_kept(path: Path, name: str, preprocessing: Preprocessing) -> Network:
    """A network that `Network.write` kept."""
    model, about = _read(path), _about(path.with_suffix(".json"))
    weights = str(about.get("weights"))
    digest = sha256(model).hexdigest()
    if about != {"weights": weights, "model": digest, "both": fingerprint(weights, digest)}:
        raise WeightsError(f"{path} is not what was kept there: import it anew.")
    return Network(name, model, preprocessing, weights)


def read_network(path: Path, name: str) -> Network:
    """A model of the user's with its description beside it: `net.onnx` and `net.json`."""
    import onnx

    model, about = _read(path), _about(path.with_suffix(".json"))
    try:
        tensors = onnx.load_from_string(model).graph.initializer
    except Exception as error:  # of protobuf, which has no common class but this
        raise WeightsError(f"{path} is no ONNX model: {first_line(error)}.") from error
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in tensors):
        raise WeightsError(
            f"{path} keeps its weights in another file: save it as one file, with the weights inside."
        )
    preprocessing = Preprocessing.described(about, str(path.with_suffix(".json")))
    return Network(name, model, preprocessing, sha256(model).hexdigest())


def _about(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise WeightsError(
            f"{path} is missing: it says how to prepare pictures, such as "
            '{"size": 224, "mean": [127, 127, 127], "scale": [128, 128, 128]}.'
        )
    try:
        about = json.loads(_read(path))
    except (ValueError, RecursionError):
        raise WeightsError(f"{path} is not JSON.") from None
    return about if isinstance(about, dict) else {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror or error}.") from error
