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
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from endurance.trial import Attack, Outcome

SOURCE = Path(__file__).with_name("writes.c")
RAM = Path("/dev/shm")  # a killed process loses nothing there that it would not lose on a disk


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


KILLS = (Strike.KILL_BEFORE, Strike.KILL_HALFWAY, Strike.KILL_AFTER)


def preloaded(run: Callable[[Attack], Outcome]) -> Callable[[Attack], Outcome]:
    """Return the same trial, run in a process that has writes.c preloaded, on files in RAM."""

    def start(attack: Attack) -> Outcome:
        shim = _compile(attack.folder)
        with TemporaryDirectory(dir=RAM if RAM.is_dir() else attack.folder) as folder:
            name = [run.__module__, run.__name__, str(attack.count), str(attack.seed), folder]
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


def count_calls() -> int:
    """Return how many calls wrote since `arm`."""
    call = ctypes.CDLL(None).endure_calls
    call.restype = ctypes.c_long
    return int(call())


def note(number: int) -> None:
    """Write a number to the trace."""
    call = ctypes.CDLL(None).endure_note
    call.argtypes = [ctypes.c_int64]
    call(number)


def fork(work: Callable[[], object]) -> int:
    """Do work in a child; return its exit status, negative where a signal ended it."""
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
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def report(work: Callable[[], int]) -> int:
    """Do work in a child, and return the number that it returned."""
    reading, writing = os.pipe()
    status = fork(lambda: os.write(writing, str(work()).encode()))
    os.close(writing)
    with os.fdopen(reading) as answer:
        number = answer.read()
    if status:
        raise RuntimeError(f"a child ended with {status}")
    return int(number)


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
