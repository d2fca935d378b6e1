"""A pickle that would crash, hang or fill the memory is refused before it is loaded."""

from __future__ import annotations

import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.checkpoints import depth_of, random_opcodes

from cbcl.errors import WeightsError
from cbcl.vision.weights import safe_pickle
from cbcl_study.backbones.numpy_archive import read_numpy_pickle

CHAIN = b")" + b"\x85" * 400_000  # a tuple in a tuple in a tuple …
PAIRS = b")" + b"2\x86" * 60  # (t, t), whose t is (s, s), …
DEEP = {
    "chain as a value": CHAIN,
    "chain as a key": b"}" + CHAIN + b"Ns",
    "chain as the order of a dtype": (
        b"cnumpy\ndtype\nX\x02\x00\x00\x00f4\x85R(K\x01" + CHAIN + b"tb"
    ),
    "pairs as a value": PAIRS,
    "pairs as a key": b"}" + PAIRS + b"Ns",
    "pairs of lists": b"]q\x00" + b"".join(b"](h%ch%ceq%c" % (n, n, n + 1) for n in range(100)),
    "pairs in a frozenset": b"(" + PAIRS + b"\x91",
    "pairs in a set": b"\x8f(" + PAIRS + b"\x90",
    "a wide key, many times": (
        b"}q\x00(" + b"N" * 10_000 + b"tq\x01" + b"0h\x00h\x01Nsh\x010" * 100_000 + b"0"
    ),
    "a list in itself": b"]q\x00h\x00a",
    "a list in itself by a detour": b"]q\x00\x85q\x010h\x00h\x01a",
}


def read_or_refuse(opcodes: bytes) -> str:
    """Return the refusal's sentence; empty: it was read."""
    try:
        read_numpy_pickle(b"\x80\x04" + opcodes + b".")
    except WeightsError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("kind", DEEP)
def test_what_is_nested_too_deeply_or_unfolds_too_far_is_refused(kind: str) -> None:
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; import test_pickles;"
        "print(test_pickles.read_or_refuse(test_pickles.DEEP[sys.argv[1]]))"
    )
    room = Path(__file__).parent
    command = [sys.executable, "-c", code, kind, str(room), str(room.parents[2] / "tests")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the pickle is not a plain collection of tensors")


def hidden(opcodes: bytes) -> bytes:
    """Some opcodes within bytes, of whose length a frame has the first digit alone.

    Python's unpickler forgets that digit, takes the bytes for none, and runs what follows.
    """
    content = b"\0" + opcodes
    return b"\x95" + struct.pack("<Q", 2) + b"\x8e" + struct.pack("<Q", len(content)) + content


def test_what_is_loaded_is_what_was_checked() -> None:
    assert read_numpy_pickle(b"\x80\x04" + hidden(b"K\x07") + b".") == b"\0K\x07"
    arrays = {"a": np.arange(50_000), "b": "text"}  # in several frames
    for protocol in (4, 5):
        again: Any = read_numpy_pickle(pickle.dumps(arrays, protocol))
        np.testing.assert_array_equal(again["a"], arrays["a"])


def test_objects_may_be_shared_and_nested_as_far_as_writers_do() -> None:
    shared = tuple(range(100))
    value: Any = [shared] * 1000
    for _ in range(safe_pickle.MAX_NESTING - 3):
        value = {"inner": value}
    for protocol in range(3, 6):
        assert read_numpy_pickle(pickle.dumps(value, protocol)) == value
    with pytest.raises(WeightsError, match="more than 100 deep"):
        read_numpy_pickle(pickle.dumps([value]))


@pytest.mark.parametrize("seed", range(6))
def test_a_random_pickle_is_read_or_refused_at_once(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        try:
            value = read_numpy_pickle(b"\x80\x04" + random_opcodes(rng) + b".")
        except WeightsError:
            continue
        assert depth_of(value) <= safe_pickle.MAX_NESTING
        assert len(repr(value)) < 10 * safe_pickle.MAX_UNFOLDED
