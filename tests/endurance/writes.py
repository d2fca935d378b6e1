"""Processes struck at a system call that writes: killed there, or told that the disk is full.

`writes.c` counts those calls. A trial that needs it runs in a process that has it preloaded, and
which forks those that are struck: what they import is there already.

    python -m endurance.writes MODULE FUNCTION COUNT SEED FOLDER     as `preloaded` calls it
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import asdict
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from endurance.trial import Attack, Outcome
from endurance.workers import fast_folder

SOURCE = Path(__file__).with_name("writes.c")


class Strike(IntEnum):
    """What is done at the n-th call, as in writes.c."""

    COUNT = 0
    KILL_BEFORE = 1
    KILL_HALFWAY = 2
    KILL_AFTER = 3
    FULL = 4
    FULL_HALFWAY = 5
    FAIL_SYNC = 6
    TRACE = 7


class Call(NamedTuple):
    """A call that wrote: w(rite), s(ync), t(runcate), u(nlink), r(ename), - where it failed.

    An "m" is no call, but a number that was noted.
    """

    kind: str
    path: str  # of a rename, both, with a newline between them
    offset: int  # or the new size, or the number
    data: bytes


KILLS = (Strike.KILL_BEFORE, Strike.KILL_HALFWAY, Strike.KILL_AFTER)


def preloaded(run: Callable[[Attack], Outcome]) -> Callable[[Attack], Outcome]:
    """Return the same trial, run in a process that has writes.c preloaded, on files in RAM."""

    def start(attack: Attack) -> Outcome:
        shim = _compile(attack.folder)
        with fast_folder(attack.folder) as folder:
            name = [run.__module__, run.__name__, str(attack.count), str(attack.seed), str(folder)]
            with subprocess.Popen(
                [sys.executable, "-m", "endurance.writes", *name],
                env={**os.environ, "LD_PRELOAD": str(shim), "OPENBLAS_NUM_THREADS": "1"},
                cwd=Path(__file__).parents[1],
                stdout=subprocess.PIPE,
                text=True,
            ) as process:
                assert process.stdout is not None
                line = "{}"
                for line in process.stdout:
                    if line.strip().isdigit():
                        attack.progress(int(line))
        if process.returncode:
            return Outcome(found=[f"{run.__name__}: the trial itself failed, see above"])
        return Outcome(**json.loads(line))

    return start


def _compile(folder: Path) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        sys.exit("this trial needs a C compiler: cc")
    shim = folder / "writes.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(shim), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return shim


def arm(folder: Path, how: Strike, at: int = 0, trace: int = -1) -> None:
    """Begin to count the calls of this process that write below a folder, and strike at one."""
    call = ctypes.CDLL(None).endure_arm
    call.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, ctypes.c_int]
    call(os.fsencode(folder), how, at, trace)


def disarm() -> None:
    arm(Path("/nowhere"), Strike.COUNT)


def note(number: int) -> None:
    """Write a number to the trace."""
    call = ctypes.CDLL(None).endure_note
    call.argtypes = [ctypes.c_int64]
    call(number)


def start(work: Callable[[], object]) -> int:
    """Do work in a child; return its process number."""
    child = os.fork()
    if child == 0:
        status = 70
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def wait(child: int) -> int:
    """Return the exit status of a child; negative where a signal ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fork(work: Callable[[], object]) -> int:
    """Do work in a child, and wait for it; return its exit status."""
    return wait(start(work))


def read_trace(work: Callable[[], object], folder: Path) -> list[Call]:
    """Do work in a child; return its calls that wrote below a folder, and what it noted."""
    with TemporaryFile() as file:

        def traced() -> None:
            arm(folder, Strike.TRACE, trace=file.fileno())
            work()

        if status := fork(traced):
            raise RuntimeError(f"a child ended with {status}")
        return parse_trace(file)


def parse_trace(file: IO[bytes]) -> list[Call]:
    """Read the file that a process traced its calls to."""
    file.seek(0)
    calls = []
    while head := file.read(32):
        kind, length, offset, size = struct.unpack("=4q", head)
        path = os.fsdecode(file.read(length))
        calls.append(Call(chr(kind), path, offset, file.read(size)))
    return calls


def kinds_of(calls: Iterable[Call]) -> str:
    """Return the letters of calls, without what was noted."""
    return "".join(call.kind for call in calls if call.kind != "m")


def places(kinds: str, hows: Iterable[Strike]) -> list[tuple[int, Strike]]:
    """Return all calls to strike at, by their numbers, in each way that can make a difference."""
    takes = {Strike.FAIL_SYNC: "s", Strike.KILL_HALFWAY: "w", Strike.FULL_HALFWAY: "w"}
    return [
        (number, how)
        for number, kind in enumerate(kinds, 1)
        for how in hows
        if kind in takes.get(how, kind)
    ]


def main() -> None:
    module, function, count, seed, folder = sys.argv[1:]

    def progress(done: int) -> None:
        sys.stdout.write(f"{done}\n")
        sys.stdout.flush()

    run: Callable[[Attack], Outcome] = getattr(import_module(module), function)
    outcome = run(Attack(int(count), int(seed), Path(folder), progress))
    sys.stdout.write(f"{json.dumps(asdict(outcome))}\n")


if __name__ == "__main__":
    main()
