"""Networks in ONNX, run by ONNX Runtime: a model file, with its preprocessing in a JSON file.

b pictures, s pixels a side, d features.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

import numpy as np
from PIL import Image

from cbcl.errors import WeightsError, first_line, reason
from cbcl.files import write_atomically
from cbcl.vision.backbones.base import fingerprint, subject_of
from cbcl.vision.decoding import Floats, Pixels
from cbcl.vision.preprocessing import Preprocessing

if TYPE_CHECKING:
    from onnx import ModelProto
    from onnxruntime import InferenceSession

    from cbcl.vision.torch_graph import TorchGraph

Tokens = Literal["class", "mean"]  # the first, or the mean of all others

GPU_BATCH = 128
TOKENS_ADVICE = (
    'if these are tokens, write "tokens": "class" (the first one) or "tokens": "mean" (of all '
    "others) in the description beside it"
)


@dataclass(frozen=True)
class Network:
    """A backbone in ONNX: the central part of a picture in, pooled features out."""

    name: str
    model: bytes
    preprocessing: Preprocessing
    weights: str  # SHA-256 of the weights
    cores: int = 1  # for one picture; 0: all
    device: str = "cpu"  # or "cuda", through PyTorch
    tokens: Tokens | None = None  # the part that is used of its output, if that is (b, tokens, d)
    note: str = ""  # on the origin of the weights, in words
    measured: dict[str, Any] | None = field(default=None, compare=False)  # changes no vector

    state: ClassVar[bytes] = b""
    threads: ClassVar[bool] = True

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.weights, self.description)

    @property
    def description(self) -> dict[str, Any]:
        optional = {"tokens": self.tokens, "note": self.note}
        given = {name: value for name, value in optional.items() if value}
        return {**self.preprocessing.description, **given}

    @property
    def at_least(self) -> int:
        return self.preprocessing.at_least

    @property
    def batch(self) -> int:
        if self.device != "cpu":
            return GPU_BATCH
        # On a processor, one thread per picture is as fast as any batch, and needs least memory.
        return 1 if self._session.get_providers()[0] == "CPUExecutionProvider" else GPU_BATCH

    @cached_property
    def on_all_cores(self) -> Network:
        """The same network with all cores for each picture: faster for one, slower for many."""
        return replace(self, cores=0)

    @cached_property
    def _session(self) -> InferenceSession:
        # Else ONNX Runtime, when imported, writes an identifier of the machine to the user's cache,
        # and reports to its makers.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.cores
        # Threads that spin while they wait take cores from other pictures and from the search.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        providers = ["CPUExecutionProvider"]
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            providers.insert(0, "CUDAExecutionProvider")
        try:
            session = onnxruntime.InferenceSession(self.model, options, providers=providers)
        except Exception as error:  # its errors have no common class but this
            problem = f"is not a network that ONNX Runtime can run: {first_line(error)}"
            raise self._error(problem) from error
        self._check_interface(session)
        return session

    def _check_interface(self, session: InferenceSession) -> None:
        """Check that the only input is a batch of pictures, and the first output numbers."""
        inputs = session.get_inputs()
        output = session.get_outputs()[0]
        if len(inputs) != 1 or inputs[0].type != "tensor(float)" or len(inputs[0].shape) != 4:
            given = ", ".join(f"{value.name}: {value.type} {value.shape}" for value in inputs)
            wanted = "one input of (pictures, 3, height, width) float32 numbers"
            raise self._error(f"must have {wanted}, but has {given}")
        if not output.type.startswith(("tensor(float", "tensor(double")):
            raise self._error(f"must give numbers, but gives {output.type}")

    def vectors(self, things: Sequence[Image.Image]) -> Floats:
        run = self._run if self.device == "cpu" else self._run_on_device
        features = run(np.stack([self.preprocessing.crop(picture) for picture in things]))
        vectors = self._pool(features)
        if vectors.ndim != 2 or len(vectors) != len(things) or 0 in vectors.shape:
            problem = f"gives {features.shape} for {len(things)} pictures, not one vector each"
            advice = TOKENS_ADVICE if features.ndim == 3 else ""
            raise self._error(problem, advice)
        return vectors.astype(np.float32, copy=False)

    def _run(self, crops: Pixels) -> Floats:
        pictures = np.stack([self.preprocessing.normalize(crop) for crop in crops])
        session = self._session
        try:
            output = session.get_outputs()[0].name
            (features,) = session.run([output], {session.get_inputs()[0].name: pictures})
        except Exception as error:  # its errors have no common class but this
            problem = f"failed on pictures of {pictures.shape}: {first_line(error)}"
            raise self._error(problem) from error
        return cast("Floats", features)

    def _run_on_device(self, crops: Pixels) -> Floats:
        try:
            return self._graph(crops)
        except (RuntimeError, TypeError) as error:  # TypeError: an unknown attribute
            problem = f"failed on pictures of {crops.shape} on {self.device}: {first_line(error)}"
            raise self._error(problem) from error

    @cached_property
    def _graph(self) -> TorchGraph:
        from cbcl.vision.torch_graph import TorchGraph

        name = subject_of(self.name)
        return TorchGraph(self.model, self.preprocessing, self.device, GPU_BATCH, name)

    def _pool(self, features: Floats) -> Floats:
        """Return one vector per picture; features are vectors, maps, or tokens if described so."""
        if self.tokens is not None:
            if features.ndim != 3 or features.shape[1] < 2:
                problem = f"gives {features.shape}, which are not the tokens of its description"
                raise self._error(problem, 'leave "tokens" out of it')
            if self.tokens == "class":
                return features[:, 0].copy()  # a view would keep the other tokens, too
            return cast("Floats", features[:, 1:].mean(axis=1, dtype=np.float32))
        if features.ndim == 4:  # (b, d, height, width)
            return cast("Floats", features.mean(axis=(2, 3), dtype=np.float32))
        return features[:, 0] if features.ndim == 3 and features.shape[1] == 1 else features

    def _error(self, problem: str, advice: str = "") -> WeightsError:
        return WeightsError(subject_of(self.name), problem, advice)

    def write(self, path: Path) -> None:
        """Store the model, then a record of it and of its weights, which `read_stored` checks."""
        record = _record(self.weights, self.model, self.note)
        write_atomically(path, self.model)
        write_atomically(path.with_suffix(".json"), json.dumps(record, indent=1).encode())


def _record(weights: str, model: bytes, note: str) -> dict[str, str]:
    digest = sha256(model).hexdigest()
    given = {"note": note} if note else {}
    both = fingerprint(weights, digest, *given.values())
    return {"weights": weights, "model": digest, "both": both, **given}


def read_stored(path: Path, name: str, preprocessing: Preprocessing) -> Network:
    """Read a network that `Network.write` stored."""
    model = _read(path)
    record = _read_json(path.with_suffix(".json"))
    weights = str(record.get("weights"))
    note = str(record.get("note", ""))
    if record != _record(weights, model, note):
        raise WeightsError(path, "is not the file that was stored", "import it again")
    return Network(name, model, preprocessing, weights, note=note)


def read_network(path: Path, name: str) -> Network:
    """Read a user's model, `net.onnx`, with the description beside it, `net.json`."""
    import onnx

    model = _read(path)
    beside = path.with_suffix(".json")
    description = _read_json(beside)
    try:
        is_whole = not _has_external_data(onnx.load_from_string(model))
    except Exception as error:  # of protobuf, which has no common class but this
        raise WeightsError(path, f"is not an ONNX model: {first_line(error)}") from error
    if not is_whole:
        advice = "save it as one file, with the weights inside"
        raise WeightsError(path, "keeps its weights in another file", advice)
    tokens = description.pop("tokens", None)
    note = description.pop("note", "")
    measured = description.pop("measured", None)
    if tokens not in (None, *get_args(Tokens)):
        raise WeightsError(beside, f'has "tokens": {json.dumps(tokens)}', 'give "class" or "mean"')
    if not isinstance(note, str):
        raise WeightsError(beside, f'has "note": {json.dumps(note)}', "give a text")
    if not isinstance(measured, dict | None):
        advice = "leave it out, or measure again"
        raise WeightsError(beside, 'has a "measured" that is not an object', advice)
    preprocessing = Preprocessing.from_description(description, beside)
    weights = sha256(model).hexdigest()
    return Network(name, model, preprocessing, weights, tokens=tokens, note=note, measured=measured)


def _has_external_data(model: ModelProto) -> bool:
    """Search a whole model, with branches, functions and constants, for tensors in other files."""
    from onnx import TensorProto

    messages: list[Any] = [model]
    while messages:
        message = messages.pop()
        if isinstance(message, TensorProto):
            if message.data_location == TensorProto.EXTERNAL:
                return True
            continue  # reading the numbers would copy them
        for kind, value in message.ListFields():
            if kind.message_type is not None:
                messages += value if hasattr(value, "__len__") else [value]
    return False


def _read_json(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise WeightsError(
            path,
            "is missing",
            "it says how to prepare pictures, such as "
            '{"size": 224, "mean": [127, 127, 127], "scale": [128, 128, 128]}',
        )
    try:
        content = json.loads(_read(path))
    except (ValueError, RecursionError):
        raise WeightsError(path, "is not JSON") from None
    return content if isinstance(content, dict) else {}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WeightsError(path, f"cannot be read: {reason(error)}") from error
