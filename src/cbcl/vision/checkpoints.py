"""Pretrained weights from files that others wrote: tensors by name, without torch and without obeying a pickle.

A pickle may name any function of any module. The readers here know a dozen names, for which they have stand-ins of
their own, and refuse every other; nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import gzip
import io
import mmap
import pickle
import pickletools
import re
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from cbcl.errors import WeightsError

Tensor: TypeAlias = NDArray[Any]

MOST_BYTES = 4 << 30  # of a checkpoint
MOST_STEPS = 1_000_000  # of a pickle: each makes an object of a few dozen bytes, besides what it reads
MOST_UNPACKED = 512 << 20  # of a compressed archive
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


class Refused(Exception):  # noqa: N818 (never leaves `naming`)
    """What is wrong with a file, in words that follow its name."""


@contextmanager
def naming(source: object, way_out: str) -> Iterator[None]:
    """Whatever goes wrong inside is a `WeightsError` that names the source and the way out."""
    try:
        yield
    except WeightsError:
        raise
    except Refused as error:
        raise WeightsError(f"{source} {error}: {way_out}.") from None
    except OSError as error:
        raise WeightsError(f"{source} cannot be read ({error.strerror or error}): {way_out}.") from error
    except Exception as error:  # a hostile pickle can make the unpickler raise anything
        raise WeightsError(
            f"{source} is damaged or of another kind ({type(error).__name__}: {error}): {way_out}."
        ) from error


def read_state_dict(source: Path) -> dict[str, Tensor]:
    """The tensors in a file of `torch.save(model.state_dict(), source)`, before or after torch 1.6.

    The dict may lie under "state_dict" or "model"; what is no tensor is left out. The arrays are read-only, bfloat16 is
    float32, and those that shared memory still do.
    """
    way_out = "download it again, or save it anew with torch.save(model.state_dict(), path)"
    with naming(source, way_out), source.open("rb") as stream:
        size = stream.seek(0, io.SEEK_END)
        if not 0 < size <= MOST_BYTES:
            raise Refused(f"holds {size} bytes, not between 1 and {MOST_BYTES}")
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
            raise Refused(f"is damaged: storage {self.key!r} should hold {self.size} bytes and holds {len(data)}")
        if self.dtype == BFLOAT16:
            return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        return np.frombuffer(data, self.dtype)


class View(NamedTuple):
    """A tensor: where in its storage its numbers are."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def checked(cls, storage: object, offset: object, shape: object, strides: object, *_: object) -> View:
        """What torch._utils._rebuild_tensor_v2 is told, if it lies inside the storage."""
        if not (
            isinstance(storage, Storage) and _are_counts((offset,)) and _are_counts(shape) and _are_counts(strides)
        ):
            raise Refused("is damaged: it describes a tensor by something else than whole numbers")
        view = cls(storage, offset, shape, strides)  # type: ignore[arg-type]
        last = view.offset + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True))
        inside = last < storage.length if 0 not in view.shape else view.offset <= storage.length
        if not inside or prod(view.shape) > storage.length:
            raise Refused(f"is damaged: a tensor of shape {view.shape} reaches outside its storage {storage.key!r}")
        return view

    def of(self, storage: Tensor) -> Tensor:
        strides = [step * storage.itemsize for step in self.strides]
        return as_strided(storage[self.offset :], self.shape, strides, writeable=False)


def _are_counts(numbers: object) -> bool:
    return isinstance(numbers, tuple) and all(type(number) is int and number >= 0 for number in numbers)


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
            "torch._utils._rebuild_tensor": View.checked,
            "torch._utils._rebuild_tensor_v2": View.checked,
            "torch._utils._rebuild_parameter": Parameter,
            "torch.nn.parameter.Parameter": Parameter,
            **STORAGES,
        }
        return _known(known, module, name, "tensors by name")

    def persistent_load(self, pid: object) -> Storage:
        match pid:
            case ("storage", str(dtype), str(key), _, int(length), *view) if length >= 0 and view in ([], [None]):
                storage = Storage(key, dtype, length)
                if dtype in STORAGES.values() and self.storages.setdefault(key, storage) == storage:
                    return storage
        raise Refused("is damaged: it refers to a storage in a way that torch does not")


def _known(known: Mapping[str, object], module: str, name: str, purpose: str) -> object:
    try:
        return known[f"{module}.{name}"]
    except KeyError:
        raise Refused(
            f"asks for {module}.{name}, which a file of {purpose} does not need and which may do harm"
        ) from None


class Stream(Protocol):
    def read(self, n: int, /) -> bytes: ...
    def readline(self) -> bytes: ...
    def seek(self, position: int, /) -> object: ...
    def tell(self) -> int: ...


def _next_pickle(stream: Stream) -> bytes:
    """The pickle at this place of the stream, none of whose steps asks for much more memory than it has bytes."""
    start = stream.tell()
    for step, (opcode, argument, _) in enumerate(pickletools.genops(stream)):  # type: ignore[arg-type]
        # The unpickler makes room up to the highest number of its memo, and writers number objects one by one.
        number = int(argument or 0) if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") else 0
        if number > step or step > MOST_STEPS or opcode.name.startswith("EXT"):
            raise Refused(f"is no plain collection of tensors: its pickle has {opcode.name} as step {step}")
    end = stream.tell()
    stream.seek(start)
    return stream.read(end - start)


def _views(tree: object) -> dict[str, View]:
    for key in ("state_dict", "model"):
        if isinstance(tree, dict) and isinstance(tree.get(key), dict):
            tree = tree[key]
    views = {}
    for name, item in tree.items() if isinstance(tree, dict) else ():
        view = item.tensor if isinstance(item, Parameter) else item
        if isinstance(name, str) and isinstance(view, View):
            views[name] = view
    if not views:
        raise Refused("holds no tensors by name")
    return views


def _from_zip(stream: IO[bytes], size: int) -> tuple[dict[str, View], dict[str, Tensor]]:
    with zipfile.ZipFile(stream) as archive:
        members = {info.filename: info for info in archive.infolist()}
        packed = [info for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
        if packed or sum(info.file_size for info in archive.infolist()) > size:
            raise Refused("is compressed, or larger inside than outside, which torch never writes")
        index = [name for name in members if re.fullmatch(r"([^/]+/)?data\.pkl", name)]
        if len(index) != 1:
            raise Refused("is a zip file but no checkpoint of torch: it has no data.pkl")
        folder = index[0].removesuffix("data.pkl")
        if f"{folder}byteorder" in members and archive.read(f"{folder}byteorder").strip() != b"little":
            raise Refused("was written on a big-endian machine")
        unpickler = StateDictUnpickler(_next_pickle(io.BytesIO(archive.read(index[0]))))
        views = _views(unpickler.load())
        used = {view.storage for view in views.values()}
        return views, {storage.key: storage.array(archive.read(f"{folder}data/{storage.key}")) for storage in used}


def _from_legacy(stream: IO[bytes]) -> tuple[dict[str, View], dict[str, Tensor]]:
    """Before torch 1.6: five pickles (magic, protocol, machine, object, keys), then the storages, as the keys go."""
    with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if StateDictUnpickler(_next_pickle(content)).load() != LEGACY_MAGIC:
            raise Refused("is no checkpoint of torch")
        _, machine = (StateDictUnpickler(_next_pickle(content)).load() for _ in range(2))
        if not (isinstance(machine, dict) and machine.get("little_endian")):
            raise Refused("was written on a big-endian machine")
        unpickler = StateDictUnpickler(_next_pickle(content))
        views = _views(unpickler.load())
        arrays = {}
        for key in StateDictUnpickler(_next_pickle(content)).load():
            storage = unpickler.storages[key]
            if int.from_bytes(content.read(8), "little", signed=True) != storage.length:
                raise Refused(f"is damaged: storage {key!r} is not as long as it should be")
            arrays[key] = storage.array(content.read(storage.size))
        return views, arrays


def read_numpy_pickle(data: bytes, name: str = "the pickle") -> object:
    """A pickle of numpy arrays and numbers in dicts, lists and tuples; arrays of objects are refused.

    >>> read_numpy_pickle(pickle.dumps({"kernel": np.float32([1, 2])}))
    {'kernel': array([1., 2.], dtype=float32)}
    """
    with naming(name, "download it again, or give a pickle of numpy arrays and plain numbers alone"):
        return _plain(NumpyUnpickler(io.BytesIO(_next_pickle(io.BytesIO(data)))).load(), {})


class Dtype:
    """Stands in for numpy.dtype, which would believe whatever state it is given."""

    def __init__(self, code: str, *_: object) -> None:
        if not re.fullmatch(r"[biufc](1|2|4|8|16)", code):
            raise Refused(f"holds an array of {code!r}, which are no numbers")
        self.code = code
        self.order = "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = {"<": "<", ">": ">", "|": "|"}[state[1]]


class Array:
    """Stands in for numpy.ndarray until it is told its state."""

    array: Tensor | None = None

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, data = state
        self.array = _array(data, dtype, shape, "F" if is_fortran else "C")


def _array(data: bytes, dtype: Dtype, shape: tuple[int, ...], order: str, *_: object) -> Tensor:
    numbers = np.frombuffer(data, np.dtype(dtype.order + dtype.code))
    if not _are_counts(shape) or prod(shape) != len(numbers):
        raise Refused(f"is damaged: it has {len(numbers)} numbers for an array of shape {shape}")
    return numbers.reshape(shape, order="F" if order == "F" else "C")


class NumpyUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> object:
        known: dict[str, object] = {
            "numpy.dtype": Dtype,
            "numpy.ndarray": "ndarray",
            "numpy.core.multiarray._reconstruct": Array,
            "numpy.core.multiarray.scalar": self.scalar,
            "numpy.core.numeric._frombuffer": self.from_buffer,
        }
        # numpy 2 renamed numpy.core
        return _known(known, module.replace("numpy._core", "numpy.core"), name, "numpy arrays")

    def scalar(self, dtype: Dtype, data: bytes) -> object:
        return _array(data, dtype, (), "C")[()]

    def from_buffer(self, *described: Any) -> Tensor:
        return _array(*described)


def _plain(value: object, seen: dict[int, object]) -> object:
    """The same with arrays for their stand-ins; what is met twice is converted once, so nesting cannot multiply."""
    if id(value) in seen:
        return seen[id(value)]
    match value:
        case None | bool() | int() | float() | complex() | str() | bytes() | np.generic() | np.ndarray():
            return value
        case Array(array=np.ndarray() as array):
            plain: object = array
        case dict():
            plain = {_plain(key, seen): _plain(item, seen) for key, item in value.items()}
        case list():
            plain = [_plain(item, seen) for item in value]
        case tuple():
            plain = tuple(_plain(item, seen) for item in value)
        case _:
            raise Refused(f"holds a {type(value).__name__}, which is neither an array nor a plain number")
    seen[id(value)] = plain
    return plain


def read_members(source: Path, pattern: str) -> dict[str, bytes]:
    """The files of a .tar.gz archive whose names match, by name; nothing is written to disk."""
    with gzip.open(source) as stream:
        content = stream.read(MOST_UNPACKED + 1)
    if len(content) > MOST_UNPACKED:
        raise Refused(f"unpacks to more than {MOST_UNPACKED} bytes")
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
        members = [member for member in archive if re.fullmatch(pattern, member.name)]
        if any(not member.isreg() or member.issparse() or member.size > len(content) for member in members):
            raise Refused("has a link or a hole where a file should be")
        return {member.name: file.read() for member in members if (file := archive.extractfile(member))}
