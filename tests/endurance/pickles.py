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
from support.checkpoints import Call, Global, opcodes, pickled, tensor

from endurance.mutation import edited, edited_bytes

NUMBERS = np.arange(24, dtype=np.float32)
PLAIN = {"conv.weight": tensor("0", NUMBERS, shape=(4, 6), strides=(6, 1))}
SHORT_BYTES, LONG_BYTES = 300, 200_000
LONG_SHARE = 0.002
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


def _numpy_pickles() -> list[bytes]:
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


def _checkpoints() -> list[bytes]:
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


def mutated_pickle(corpus: list[bytes], rng: random.Random) -> bytes:
    """Return a pickle edited opcode by opcode; now and then its bytes, or nothing.

    Most are kept short: a long one takes the time of a thousand others.
    """
    data, chance = rng.choice(corpus), rng.random()
    if chance < 0.05:
        return data
    if chance < 0.2:
        changed = edited_bytes(data, corpus, rng)
    else:
        others = [split(rng.choice(corpus))]
        changed = b"".join(edited(split(data), others, lambda: [_new(corpus, rng)], rng))
    if len(changed) <= SHORT_BYTES or (len(changed) < LONG_BYTES and rng.random() < LONG_SHARE):
        return changed
    return b"".join(split(changed[:SHORT_BYTES])[:-1]) + b"."


def _new(corpus: list[bytes], rng: random.Random) -> bytes:
    """Return opcodes that most pickles do not have."""
    match rng.randrange(5):
        case 0:
            return opcodes(rng.choice(HARMFUL))
        case 1:
            return _bomb(rng)
        case 2:
            return edited_bytes(rng.choice(split(rng.choice(corpus)) or [b"."]), corpus, rng)
        case _:
            return _opcode(rng)


def _bomb(rng: random.Random) -> bytes:
    """Return opcodes of a tuple that is very deep, or unfolds very far, and where it does harm."""
    bomb = rng.choice((b")" + b"\x85" * 110, b")" + b"2\x86" * rng.choice((5, 25, 60))))
    uses = (bomb, b"}" + bomb + b"Ns", b"(" + bomb + b"\x91", b"\x8f(" + bomb + b"\x90")
    return rng.choice(uses)


def _opcode(rng: random.Random) -> bytes:
    """Return any opcode; its argument has the right length, or says that it is longer."""
    info = rng.choice(pickletools.opcodes)
    code = info.code.encode("latin1")
    if info.arg is None:
        return code
    count = rng.choice((*COUNTS, rng.randrange(10), rng.randrange(10)))
    text = rng.choice((b"a", b"numpy", b"dtype", b"1", b"01", b"-1", b"1e400", b"'x'", b"\xff"))
    if info.arg.n == pickletools.UP_TO_NEWLINE:
        second = b"system\n" if info.name in ("GLOBAL", "INST") else b""
        return code + text + b"\n" + second
    if info.arg.n > 0:
        return code + (count % (1 << 8 * info.arg.n)).to_bytes(info.arg.n, "little")
    width = {"1": 1, "8": 8}.get(info.arg.name[-1], 4)
    size = len(text) if rng.random() < 0.7 else count % (1 << 8 * width)
    return code + size.to_bytes(width, "little") + text


def legacy(data: bytes, storages: dict[str, np.ndarray]) -> bytes:
    """Return a checkpoint as torch wrote it before 1.6, around a pickle of tensors."""
    machine = {"protocol_version": 1001, "little_endian": True}
    magic, rest = pickled(0x1950A86A20F9469CFC6C), [pickled(1001), pickled(machine)]
    file = io.BytesIO()
    file.write(b"".join([magic, *rest, data, pickled(list(storages))]))
    for numbers in storages.values():
        file.write(struct.pack("<q", numbers.size) + numbers.tobytes())
    return file.getvalue()


def _cifar_batches() -> list[bytes]:
    """Return a batch of CIFAR-100's pictures, and the names of its classes."""
    batch = {b"data": np.zeros((2, 3072), np.uint8), b"fine_labels": [0, 1]}
    names = {b"fine_label_names": [b"apple", b"bear"]}
    return [pickle.dumps(batch, 2), pickle.dumps(names, 2)]


NUMPY_PICKLES = _numpy_pickles()
CHECKPOINTS = _checkpoints()
CIFAR_BATCHES = _cifar_batches()
