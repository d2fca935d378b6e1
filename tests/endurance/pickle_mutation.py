"""Pickles from a grammar of opcodes, and mutations of pickles, opcode by opcode."""

from __future__ import annotations

import io
import pickle
import pickletools
import random
import struct
from collections import OrderedDict
from typing import Any

import numpy as np
from support.checkpoints import Call, Global, opcodes, pickled, random_opcodes, tensor

from endurance.mutation import mutated

NUMBERS = np.arange(24, dtype=np.float32)
PLAIN = {"conv.weight": tensor("0", NUMBERS, shape=(4, 6), strides=(6, 1))}
SHORT_BYTES, LONG_BYTES = 300, 200_000
COUNTS = (0, 1, 2, 255, 256, 65535, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)

# What would do harm: each must be refused by name. The first is the harness's own trap.
HARMFUL = [
    Global("endurance.canary", "spring"),
    Global("os", "system"),
    Global("posix", "system"),
    Global("builtins", "eval"),
    Global("builtins", "exec"),
    Global("builtins", "getattr"),
    Global("subprocess", "Popen"),
    Global("numpy", "load"),
    Global("numpy.core.multiarray", "fromfile"),
    Global("torch", "load"),
    Global("torch.storage", "_load_from_bytes"),
    Global("collections", "OrderedDict.__class__"),
    Global("cbcl_study.backbones.numpy_archive", "NumpyUnpickler"),
    Global("_codecs", "encode"),
]
COMMAND = "touch canary"


def numpy_pickles() -> list[bytes]:
    """Return real pickles of arrays and numbers, in all protocols, and some that would do harm."""
    values: list[Any] = [
        {"kernel": np.array([[1, 2], [3, 4]], np.float32), "bias": np.int64(3)},
        [np.arange(6).reshape(2, 3).T, np.True_, 1.5, None, b"bytes", "text"],
        OrderedDict(a=np.ones(3, ">f8"), b=(1, 2, 3)),
        {"nested": {"deeper": [{"x": np.uint8(7)}] * 3}},
        {1, 2, 3},
        bytearray(b"abc"),
    ]
    real = [pickle.dumps(value, protocol) for value in values for protocol in range(6)]
    return real + [pickled(Call(one, (COMMAND,))) for one in HARMFUL]


def checkpoints() -> list[bytes]:
    """Return pickles of what torch saves: tensors by name, and such that would do harm."""
    hostile = [{"conv.weight": Call(one, (COMMAND,)), **PLAIN} for one in HARMFUL]
    nested = {"state_dict": PLAIN, "note": "a note", "epoch": 3}
    return [pickled(tree) for tree in (PLAIN, nested, {"model": PLAIN}, *hostile)]


def split(data: bytes) -> list[bytes]:
    """Return a pickle in opcodes, with their arguments; what is no opcode any more is the last."""
    places = []
    try:
        for _, _, place in pickletools.genops(data):
            places.append(place or 0)
    except Exception:  # what is left is not a pickle
        pass
    ends = [*places[1:], len(data)][: len(places)]
    return [data[start:end] for start, end in zip(places, ends, strict=True)]


def mutate_pickle(data: bytes, corpus: list[bytes], rng: random.Random) -> bytes:
    """Change a pickle, opcode by opcode; now and then its bytes, or write another by chance.

    Most are kept short: a long one takes the time of a thousand others.
    """
    chance = rng.random()
    if chance < 0.0005:
        return b"\x80\x04" + random_opcodes(rng) + b"."
    if chance < 0.2:
        data = mutated(data, corpus, rng)
    else:
        steps = split(data)
        for _ in range(rng.choice((1, 1, 2, 4))):
            steps = _change(steps, corpus, rng)
        data = b"".join(steps)
    if SHORT_BYTES < len(data) < LONG_BYTES // 2 and chance < 0.998:
        return b"".join(split(data[:SHORT_BYTES])[:-1]) + b"."
    return data if len(data) < LONG_BYTES else data[:SHORT_BYTES]


def _change(steps: list[bytes], corpus: list[bytes], rng: random.Random) -> list[bytes]:
    place, size = rng.randrange(len(steps) + 1), rng.choice((1, 1, 1, 3, 10))
    before, part, rest = steps[:place], steps[place : place + size], steps[place + size :]
    match rng.randrange(10):
        case 0:
            return before + rest
        case 1:
            return before + part * rng.choice((2, 2, 3, 70, 5000)) + rest
        case 2:
            return [*before, _opcode(rng), *part, *rest]
        case 3:
            return [*before, _opcode(rng), *rest]
        case 4:
            other = split(rng.choice(corpus))
            start = rng.randrange(len(other) + 1)
            return before + other[start : start + rng.choice((1, 5, 50))] + part + rest
        case 5:
            return before + rest[:1] + part + rest[1:]
        case 6:
            return [*before, opcodes(rng.choice(HARMFUL)), *part, *rest]
        case 7:
            return [*before, _bomb(rng), *part, *rest]
        case 8:
            return before + [_with_count(one, rng) for one in part] + rest
        case _:
            return [*before, mutated(b"".join(part), corpus, rng), *rest]


def _bomb(rng: random.Random) -> bytes:
    """Return opcodes of a tuple that is very deep, or unfolds very far, and where it does harm."""
    deep, far = b")" + b"\x85" * rng.choice((50, 110)), b")" + b"2\x86" * rng.choice((5, 25, 60))
    deepest = b")" + b"\x85" * 100_000
    bomb = deepest if rng.random() < 0.002 else rng.choice((deep, far))
    uses = (bomb, b"}" + bomb + b"Ns", b"(" + bomb + b"\x91", b"\x8f(" + bomb + b"\x90")
    return rng.choice(uses) + rng.choice((b"0", b""))


def _opcode(rng: random.Random) -> bytes:
    """Return any opcode, with an argument as it must have."""
    info = rng.choice(pickletools.opcodes)
    code = info.code.encode("latin1")
    if info.arg is None:
        return code
    count = rng.choice((*COUNTS, rng.randrange(10), rng.randrange(10)))
    text = rng.choice((b"a", b"numpy", b"dtype", b"1", b"01", b"-1", b"1e400", b"'x'", b"\xff"))
    match info.arg.n:
        case pickletools.UP_TO_NEWLINE:
            second = b"system\n" if info.name in ("GLOBAL", "INST") else b""
            return code + text + b"\n" + second
        case 1 | 2 | 4 | 8:
            width = info.arg.n
            return code + (count % (1 << 8 * width)).to_bytes(width, "little")
        case _:
            return code + _counted(info.arg.name, text, count, rng)


def _counted(kind: str, text: bytes, count: int, rng: random.Random) -> bytes:
    """Return bytes after their number, which is now and then too large."""
    width = 1 if kind.endswith("1") else 8 if kind.endswith("8") else 4
    size = len(text) if rng.random() < 0.7 else count % (1 << 8 * width)
    return size.to_bytes(width, "little") + text


def _with_count(step: bytes, rng: random.Random) -> bytes:
    """Return an opcode with another number in its argument."""
    if len(step) < 2:
        return step
    if step[-1:] == b"\n":
        return step[:1] + b"%d\n" % rng.choice(COUNTS)
    width = min(len(step) - 1, rng.choice((1, 2, 4, 8)))
    number = rng.choice(COUNTS) % (1 << 8 * width)
    return step[:1] + number.to_bytes(width, "little") + step[1 + width :]


def legacy(data: bytes, storages: dict[str, np.ndarray]) -> bytes:
    """Return a checkpoint as torch wrote it before 1.6, around a pickle of tensors."""
    machine = {"protocol_version": 1001, "little_endian": True}
    magic, rest = pickled(0x1950A86A20F9469CFC6C), [pickled(1001), pickled(machine)]
    file = io.BytesIO()
    file.write(b"".join([magic, *rest, data, pickled(list(storages))]))
    for numbers in storages.values():
        file.write(struct.pack("<q", numbers.size) + numbers.tobytes())
    return file.getvalue()


def cifar_batches() -> list[bytes]:
    """Return a batch of CIFAR-100's pictures, and the names of its classes."""
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0, 1]}
    names = {b"fine_label_names": [b"apple", b"bear"]}
    return [pickle.dumps(batch, 2), pickle.dumps(names, 2)]
