"""Files of weights made by hand: pickles, opcode by opcode, checkpoints of torch, archives."""

from __future__ import annotations

import io
import random
import struct
import tarfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cbcl.vision.weights.torch_checkpoint import LEGACY_MAGIC


class Global(NamedTuple):
    module: str
    name: str


class Call(NamedTuple):
    function: Global
    arguments: tuple[Any, ...]


class New(NamedTuple):
    kind: Global
    arguments: tuple[Any, ...]
    state: tuple[Any, ...]


class Persistent(NamedTuple):
    value: tuple[Any, ...]


def pickled(value: object) -> bytes:
    return b"\x80\x02" + opcodes(value) + b"."


def opcodes(value: object) -> bytes:
    """A pickle by hand, so that it may name what is not installed."""
    match value:
        case Global():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            return opcodes(value.function) + opcodes(value.arguments) + b"R"
        case New():
            return (
                opcodes(value.kind)
                + opcodes(value.arguments)
                + b"\x81"
                + opcodes(value.state)
                + b"b"
            )
        case Persistent():
            return opcodes(value.value) + b"Q"
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            return f"L{value}L\n".encode()
        case str():
            return b"X" + struct.pack("<I", len(value)) + value.encode()
        case tuple() | list():
            start, end = (b"(", b"t") if isinstance(value, tuple) else (b"](", b"e")
            return start + b"".join(map(opcodes, value)) + end
        case dict():
            return (
                b"}(" + b"".join(opcodes(key) + opcodes(item) for key, item in value.items()) + b"u"
            )
    raise TypeError(value)


REBUILD = Global("torch._utils", "_rebuild_tensor_v2")
KINDS = {"<f4": "FloatStorage", "<f2": "HalfStorage", "<f8": "DoubleStorage", "<i8": "LongStorage"}


def tensor(
    key: str,
    numbers: np.ndarray,
    *,
    offset: int = 0,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    kind: str = "",
) -> Call:
    storage = Global("torch", kind or KINDS[numbers.dtype.str])
    pid = ("storage", storage, key, "cpu", numbers.size)
    hooks = Call(Global("collections", "OrderedDict"), ())
    return Call(REBUILD, (Persistent(pid), offset, shape, strides, False, hooks))


def write_zip(path: Path, tree: object, storages: dict[str, np.ndarray]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights/data.pkl", pickled(tree))
        archive.writestr("weights/byteorder", "little")
        for key, numbers in storages.items():
            archive.writestr(f"weights/data/{key}", numbers.tobytes())


def write_legacy(path: Path, tree: object, storages: dict[str, np.ndarray]) -> None:
    def with_view(value: Any) -> Any:
        """Say for each storage, as the old format does, that it is not a view of another."""
        match value:
            case Persistent():
                return Persistent((*value.value, None))
            case Call():
                return Call(value.function, tuple(map(with_view, value.arguments)))
            case New():
                return New(
                    value.kind,
                    tuple(map(with_view, value.arguments)),
                    tuple(map(with_view, value.state)),
                )
            case dict():
                return {key: with_view(item) for key, item in value.items()}
        return value

    machine = {
        "protocol_version": 1001,
        "little_endian": True,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    header = (LEGACY_MAGIC, 1001, machine, with_view(tree), list(storages))
    raw = b"".join(
        struct.pack("<q", numbers.size) + numbers.tobytes() for numbers in storages.values()
    )
    path.write_bytes(b"".join(map(pickled, header)) + raw)


def write_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


MANIFEST = (
    b'{"weightsManifest": [{"paths": ["a-shard1of2.bin", "a-shard2of2.bin"], "weights": ['
    b'{"name": "conv1/kernel", "shape": [2, 2], "dtype": "float32"}, '
    b'{"name": "conv1/bias", "shape": [2], "dtype": "float32"}]}]}'
)
SIX = np.arange(6, dtype=np.float32).tobytes()
SHARDS = {"package/N/a-shard2of2.bin": SIX[10:], "package/N/a-shard1of2.bin": SIX[:10]}


CONSTANTS = [b"N", b"\x88", b"K\x07", b"J\xff\xff\xff\xff", b"X\x01\x00\x00\x00a", b"C\x02ab"]
GLOBALS = [
    b"cnumpy\ndtype\n",
    b"cnumpy\nndarray\n",
    b"cnumpy.core.multiarray\n_reconstruct\n",
    b"cnumpy.core.multiarray\nscalar\n",
    b"cnumpy.core.numeric\n_frombuffer\n",
    b"cbuiltins\neval\n",
]
BUILDERS = [b")", b"]", b"}", b"\x8f", b"\x85", b"\x86", b"\x87", b"t", b"l", b"d", b"\x91"]
CHANGES = [b"a", b"e", b"s", b"u", b"\x90", b"b", b"R", b"\x81", b"\x92", b"o"]
STACK = [b"(", b"0", b"1", b"2", b"\x94"]


def random_opcodes(rng: random.Random) -> bytes:
    """A random pickle: runs of opcodes, some of them repeated very often."""
    kinds = [CONSTANTS, GLOBALS, BUILDERS, BUILDERS, CHANGES, STACK, STACK]
    parts: list[bytes] = []
    for _ in range(rng.randint(1, 40)):
        chosen = [rng.choice(rng.choice(kinds)) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            slot = rng.randint(0, 3)
            chosen.append(b"%c%c" % (rng.choice(b"qh"), slot))
        parts.append(b"".join(chosen) * rng.choice([1, 1, 1, 1, 2, 70, 20_000]))
    return b"N" * 4 + b"".join(parts)


def depth_of(value: Any) -> int:
    """The depth of nested objects, found by a loop: recursion would fail."""
    depth = 0
    level = [value]
    while level:
        depth += 1
        containers = [one for one in level if isinstance(one, tuple | list | dict)]
        level = [part for one in containers for part in (*one, *_values(one))]
    return depth


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else []
