"""Tensors by name from PyTorch's checkpoints, read without PyTorch in the memory of the file."""

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

from cbcl.vision.weights.safe_pickle import (
    FileFormatError,
    are_non_negative_ints,
    convert_errors,
    read_pickle_bytes,
    resolve_global,
)

Tensor: TypeAlias = NDArray[Any]

MAX_CHECKPOINT_BYTES = 4 << 30
MAX_NOTE_LENGTH = 500  # characters
ADVICE = "download it again, or save it again with torch.save(model.state_dict(), path)"
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
    """Return the tensors of `torch.save(model.state_dict(), source)`, before or after torch 1.6.

    The dict may be under "state_dict" or "model"; values that are not tensors are left out. The
    arrays are read-only, bfloat16 becomes float32, and tensors that shared memory still do.
    """
    with convert_errors(source, ADVICE), source.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        if not 0 < size <= MAX_CHECKPOINT_BYTES:
            raise FileFormatError(f"holds {size} bytes, not between 1 and {MAX_CHECKPOINT_BYTES}")
        stream.seek(0)
        is_zip = stream.read(4) == b"PK\x03\x04"
        views, storages = _read_zip(stream, size) if is_zip else _read_legacy(stream)
        return {name: view.apply(storages[view.storage.key]) for name, view in views.items()}


def read_note(source: Path) -> str:
    """Return the text of `torch.save({"state_dict": ..., "note": text}, source)`; empty: none.

    A note tells the origin of the weights. Files of torch before 1.6 have none.
    """
    if not zipfile.is_zipfile(source):
        return ""
    with convert_errors(source, ADVICE), zipfile.ZipFile(source) as archive:
        _, tree = _read_index(archive, source.stat().st_size)
        note = tree.get("note") if isinstance(tree, dict) else None
        if not isinstance(note, str):
            return ""
        if len(note) > MAX_NOTE_LENGTH:
            raise FileFormatError(f"has a note of more than {MAX_NOTE_LENGTH} characters")
        return note


class Storage(NamedTuple):
    """Memory that tensors are views of."""

    key: str
    dtype: str
    length: int

    @property
    def size(self) -> int:
        return self.length * (2 if self.dtype == BFLOAT16 else np.dtype(self.dtype).itemsize)

    def array(self, data: bytes) -> Tensor:
        if len(data) != self.size:
            problem = f"should hold {self.size} bytes and holds {len(data)}"
            raise FileFormatError(f"is damaged: storage {self.key!r} {problem}")
        if self.dtype == BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        return np.frombuffer(data, self.dtype)


class StridedView(NamedTuple):
    """Offset, shape and strides of a tensor in its storage."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def checked(
        cls, storage: object, offset: object, shape: object, strides: object, *_: object
    ) -> StridedView:
        """Check the arguments of torch._utils._rebuild_tensor_v2: the storage holds the view."""
        numbers = map(are_non_negative_ints, ((offset,), shape, strides))
        if not (isinstance(storage, Storage) and all(numbers)):
            raise FileFormatError("is damaged: it describes a tensor by other than whole numbers")
        view = cls(storage, offset, shape, strides)  # type: ignore[arg-type]
        last = view.offset + sum(
            (n - 1) * step for n, step in zip(view.shape, view.strides, strict=True)
        )
        inside = last < storage.length if 0 not in view.shape else view.offset <= storage.length
        if not inside or prod(view.shape) > storage.length:
            problem = f"a tensor of shape {view.shape} reaches outside its storage {storage.key!r}"
            raise FileFormatError(f"is damaged: {problem}")
        return view

    def apply(self, storage: Tensor) -> Tensor:
        strides = [step * storage.itemsize for step in self.strides]
        return as_strided(storage[self.offset :], self.shape, strides, writeable=False)


class StateDict(dict[Any, Any]):
    """Stand-in for OrderedDict without the state that torch adds (`_metadata`)."""

    def __setstate__(self, state: object) -> None:
        pass


class Parameter:
    """Stand-in for torch's parameter, which has its tensor at once or, before 0.4, in its state."""

    tensor: object

    def __new__(cls, tensor: object = None, *_: object) -> Parameter:
        parameter = super().__new__(cls)
        parameter.tensor = tensor
        return parameter

    def __setstate__(self, state: tuple[object, ...]) -> None:
        if len(state) == 5:
            self.tensor = state[0]


class StateDictUnpickler(pickle.Unpickler):
    """Unpickler of the views of tensors, without their numbers."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.storages: dict[str, Storage] = {}

    def find_class(self, module: str, name: str) -> object:
        known: dict[str, object] = {
            "collections.OrderedDict": StateDict,
            "torch._utils._rebuild_tensor": StridedView.checked,
            "torch._utils._rebuild_tensor_v2": StridedView.checked,
            "torch._utils._rebuild_parameter": Parameter,
            "torch.nn.parameter.Parameter": Parameter,
            **STORAGES,
        }
        return resolve_global(known, module, name, "tensors by name")

    def persistent_load(self, pid: object) -> Storage:
        match pid:
            case ("storage", str(dtype), str(key), _, int(length), *view) if (
                length >= 0 and view in ([], [None])
            ):
                storage = Storage(key, dtype, length)
                if dtype in STORAGES.values() and self.storages.setdefault(key, storage) == storage:
                    return storage
        raise FileFormatError("is damaged: it refers to a storage in a way that torch does not")


def _find_views(tree: object) -> dict[str, StridedView]:
    for key in ("state_dict", "model"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    views = {}
    for name, item in tree.items() if isinstance(tree, dict) else ():
        view = item.tensor if isinstance(item, Parameter) else item
        if isinstance(name, str) and isinstance(view, StridedView):
            views[name] = view
    if not views:
        raise FileFormatError("holds no tensors by name")
    return views


def _read_zip(stream: IO[bytes], size: int) -> tuple[dict[str, StridedView], dict[str, Tensor]]:
    with zipfile.ZipFile(stream) as archive:
        folder, tree = _read_index(archive, size)
        views = _find_views(tree)
        used = {view.storage for view in views.values()}
        return views, {
            storage.key: storage.array(archive.read(f"{folder}data/{storage.key}"))
            for storage in used
        }


def _read_index(archive: zipfile.ZipFile, size: int) -> tuple[str, object]:
    """Return the folder of the storages, and the saved object without their numbers."""
    members = archive.namelist()
    packed = any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())
    if packed or sum(info.file_size for info in archive.infolist()) > size:
        raise FileFormatError("is compressed, or larger unpacked, which torch never writes")
    index = [name for name in members if re.fullmatch(r"([^/]+/)?data\.pkl", name)]
    if len(index) != 1:
        raise FileFormatError("is a zip file but not a checkpoint of torch: it has no data.pkl")
    folder = index[0].removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in members and archive.read(order).strip() != b"little":
        raise FileFormatError("was written on a big-endian machine")
    pickled = read_pickle_bytes(io.BytesIO(archive.read(index[0])))
    return folder, StateDictUnpickler(pickled).load()


def _read_legacy(stream: IO[bytes]) -> tuple[dict[str, StridedView], dict[str, Tensor]]:
    """Read a file of torch before 1.6.

    It has five pickles (magic number, protocol, machine, object, keys), then the storages in the
    order of the keys.
    """
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if StateDictUnpickler(read_pickle_bytes(content)).load() != LEGACY_MAGIC:
            raise FileFormatError("is not a checkpoint of torch")
        _, machine = (StateDictUnpickler(read_pickle_bytes(content)).load() for _ in range(2))
        if not (isinstance(machine, dict) and machine.get("little_endian")):
            raise FileFormatError("was written on a big-endian machine")
        unpickler = StateDictUnpickler(read_pickle_bytes(content))
        views = _find_views(unpickler.load())
        arrays = {}
        for key in StateDictUnpickler(read_pickle_bytes(content)).load():
            storage = unpickler.storages[key]
            if int.from_bytes(content.read(8), "little", signed=True) != storage.length:
                raise FileFormatError(f"is damaged: storage {key!r} is not of the stated length")
            arrays[key] = storage.array(content.read(storage.size))
        return views, arrays
