"""A pickle that would crash, hang or fill the memory is refused before it is loaded."""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
from typing import Any

import pytest

from cbcl.errors import WeightsError
from cbcl.vision.weights import safe_pickle
from cbcl.vision.weights.numpy_archive import read_numpy_pickle

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
        "import sys; sys.path.insert(0, sys.argv[1]); import test_pickles;"
        "print(test_pickles.read_or_refuse(test_pickles.DEEP[sys.argv[2]]))"
    )
    folder = __file__.rpartition("/")[0]
    done = subprocess.run(
        [sys.executable, "-c", code, folder, kind], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("the pickle is not a plain collection of tensors")


def test_objects_may_be_shared_and_nested_as_far_as_writers_do() -> None:
    shared = tuple(range(100))
    value: Any = [shared] * 1000
    for _ in range(safe_pickle.MAX_NESTING - 3):
        value = {"inner": value}
    for protocol in range(3, 6):
        assert read_numpy_pickle(pickle.dumps(value, protocol)) == value
    with pytest.raises(WeightsError, match="more than 100 deep"):
        read_numpy_pickle(pickle.dumps([value]))


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
    """A pickle by chance: runs of opcodes, some of them repeated very often."""
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
    """The objects within objects of a value, met by a loop, since recursion would end first."""
    depth, level = 0, [value]
    while level:
        depth += 1
        containers = [one for one in level if isinstance(one, tuple | list | dict)]
        level = [part for one in containers for part in (*one, *_values(one))]
    return depth


def _values(value: Any) -> list[Any]:
    return [*value.values()] if isinstance(value, dict) else []


@pytest.mark.parametrize("seed", range(6))
def test_a_pickle_by_chance_is_read_or_refused_in_no_time(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(60):
        try:
            value = read_numpy_pickle(b"\x80\x04" + random_opcodes(rng) + b".")
        except WeightsError:
            continue
        assert depth_of(value) <= safe_pickle.MAX_NESTING
        assert len(repr(value)) < 10 * safe_pickle.MAX_UNFOLDED
