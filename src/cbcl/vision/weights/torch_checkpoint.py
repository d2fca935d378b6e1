"""Pretrained weights from files that torch wrote: tensors by name, without torch, and no more memory than the file."""

from __future__ import annotations

import io
import mmap
import pickle
import re
import zipfile
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from cbcl.vision.weights.safe_pickle import Refused, are_counts, known_name, naming, next_pickle

Tensor: TypeAlias = NDArray[Any]

MAX_BYTES = 4 << 30  # of a checkpoint
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
BFLOAT16 = "bfloat16"  # numpy has no such type: the upper half of a float32
STORAGES = {
    "torch.FloatStorage": "<f4",
    "torch.HalfStorage": "<f2",
    "torch.BFloat16Storage": BFLOAT16,
    "torch.DoubleStorage": "<f8",
    "torch.LongStorage": "<i8",
    "torch.IntStorage": "<i4",
    "torch.ByteStorage": "u1",
    "torch.BoolStorage": "?",
}


def read_state_dict(source: Path) -> dict[str, Tensor]:
    """The tensors in a file of `torch.save(model.state_dict(), source)`, before or after torch 1.6.

    The dict may lie under "state_dict" or "model"; what is no tensor is left out. The arrays are read-only, bfloat16 is
    float32, and those that shared memory still do.
    """
    way_out = "download it again, or save it anew with torch.save(model.state_dict(), path)"
    with naming(source, way_out), source.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        if not 0 < size <= MAX_BYTES:
            raise Refused(f"holds {size} bytes, not between 1 and {MAX_BYTES}")
        stream.seek(0)
        is_zip = stream.read(4) == b"PK\x03\x04"
        views, storages = _from_zip(stream, size) if is_zip else _from_legacy(stream)
        return {name: view.of(storages[view.storage.key]) for name, view in views.items()}


class Storage(NamedTuple):
    """A piece of memory that tensors look at."""

    key: str
    dtype: str
    length: int

    @property
    def size(self) -> int:
        return self.length * (2 if self.dtype == BFLOAT16 else np.dtype(self.dtype).itemsize)

    def array(self, data: bytes) -> Tensor:
        if len(data) != self.size:
            raise Refused(
                f"is damaged: storage {self.key!r} should hold {self.size} bytes and holds {len(data)}"
            )
        if self.dtype == BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        return np.frombuffer(data, self.dtype)


class StridedView(NamedTuple):
    """A tensor: where in its storage its numbers are."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def checked(
        cls, storage: object, offset: object, shape: object, strides: object, *_: object
    ) -> StridedView:
        """What torch._utils._rebuild_tensor_v2 is told, if it lies inside the storage."""
        if not (
            isinstance(storage, Storage)
            and are_counts((offset,))
            and are_counts(shape)
            and are_counts(strides)
        ):
            raise Refused("is damaged: it describes a tensor by something else than whole numbers")
        view = cls(storage, offset, shape, strides)  # type: ignore[arg-type]
        last = view.offset + sum(
            (n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)
        )
        inside = last < storage.length if 0 not in view.shape else view.offset <= storage.length
        if not inside or prod(view.shape) > storage.length:
            raise Refused(
                f"is damaged: a tensor of shape {view.shape} reaches outside its storage {storage.key!r}"
            )
        return view

    def of(self, storage: Tensor) -> Tensor:
        strides = [step * storage.itemsize for step in self.strides]
        return as_strided(storage[self.offset :], self.shape, strides, writeable=False)


class Names(dict[Any, Any]):
    """Stands in for OrderedDict; what torch notes on it besides (`_metadata`) is not needed."""

    def __setstate__(self, state: object) -> None:
        pass


class Parameter:
    """Stands in for torch's, which is told its tensor at once, or, before torch 0.4, perhaps later."""

    tensor: object

    def __new__(cls, tensor: object = None, *_: object) -> Parameter:
        parameter = super().__new__(cls)
        parameter.tensor = tensor
        return parameter

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if len(state) == 5:
            self.tensor = state[0]


class StateDictUnpickler(pickle.Unpickler):
    """Reads where the tensors are, not the tensors."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> object:
        known: dict[str, object] = {
            "collections.OrderedDict": Names,
            "torch._utils._rebuild_tensor": StridedView.checked,
            "torch._utils._rebuild_tensor_v2": StridedView.checked,
            "torch._utils._rebuild_parameter": Parameter,
            "torch.nn.parameter.Parameter": Parameter,
            **STORAGES,
        }
        return known_name(known, module, name, "tensors by name")

    def persistent_load(self, pid: object) -> Storage:
        match pid:
            case ("storage", str(dtype), str(key), _, int(length), *view) if (
                length >= 0 and view in ([], [None])
            ):
                storage = Storage(key, dtype, length)
                if dtype in STORAGES.values() and self.storages.setdefault(key, storage) == storage:
                    return storage
        raise Refused("is damaged: it refers to a storage in a way that torch does not")


def _views(tree: object) -> dict[str, StridedView]:
    for key in ("state_dict", "model"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    views = {}
    for name, item in tree.items() if isinstance(tree, dict) else ():
        view = item.tensor if isinstance(item, Parameter) else item
        if isinstance(name, str) and isinstance(view, StridedView):
            views[name] = view
    if not views:
        raise Refused("holds no tensors by name")
    return views


def _from_zip(stream: IO[bytes], size: int) -> tuple[dict[str, StridedView], dict[str, Tensor]]:
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename: info for info in archive.infolist()}
        packed = [info for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
        if packed or sum(info.file_size for info in archive.infolist()) > size:
            raise Refused("is compressed, or larger inside than outside, which torch never writes")
        index = [name for name in members if re.fullmatch(r"([^/]+/)?data\.pkl", name)]
        if len(index) != 1:
            raise Refused("is a zip file but no checkpoint of torch: it has no data.pkl")
        folder = index[0].removesuffix("data.pkl")
        if (
            f"{folder}byteorder" in members
            and archive.read(f"{folder}byteorder").strip() != b"little"
        ):
            raise Refused("was written on a big-endian machine")
        unpickler = StateDictUnpickler(next_pickle(io.BytesIO(archive.read(index[0]))))
        views = _views(unpickler.load())
        used = {view.storage for view in views.values()}
        return views, {
            storage.key: storage.array(archive.read(f"{folder}data/{storage.key}"))
            for storage in used
        }


def _from_legacy(stream: IO[bytes]) -> tuple[dict[str, StridedView], dict[str, Tensor]]:
    """Before torch 1.6: five pickles (magic, protocol, machine, object, keys), then the storages, as the keys go."""
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if StateDictUnpickler(next_pickle(content)).load() != LEGACY_MAGIC:
            raise Refused("is no checkpoint of torch")
        _, machine = (StateDictUnpickler(next_pickle(content)).load() for _ in range(2))
        if not (isinstance(machine, dict) and machine.get("little_endian")):
            raise Refused("was written on a big-endian machine")
        unpickler = StateDictUnpickler(next_pickle(content))
        views = _views(unpickler.load())
        arrays = {}
        for key in StateDictUnpickler(next_pickle(content)).load():
            storage = unpickler.storages[key]
            if int.from_bytes(content.read(8), "little", signed=True) != storage.length:
                raise Refused(f"is damaged: storage {key!r} is not as long as it should be")
            arrays[key] = storage.array(content.read(storage.size))
        return views, arrays
