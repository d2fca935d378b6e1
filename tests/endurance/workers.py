"""Forked workers that give inputs to a reader, with limits, and measure each of them.

A worker that is killed by a limit, or crashes, leaves the input behind that did it; that one is
repeated alone. A finding carries its input, packed, so that `unpack` makes a test of it.
"""

from __future__ import annotations

import base64
import ctypes
import gc
import mmap
import os
import pickle
import re
import resource
import select
import signal
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Protocol

from endurance.trial import Attack, Outcome

MB = 1_000_000
SHARED_BYTES = 32 * MB  # for the input that a worker has at the moment
MAX_PACKED = 4000  # characters of an input in a finding
MAX_FOUND = 20  # findings of a trial that are told; after them it ends
WALL_SECONDS = 120.0  # for an input that waits and computes nothing


class LostWorkError(AssertionError):
    """Acknowledged work is gone, or silently another."""


class Input(NamedTuple):
    """One thing to try."""

    name: str  # "seed 0, JPEG 1234"
    data: bytes


class Batch(NamedTuple):
    """Inputs of one kind that a worker tries one after another."""

    kind: str  # figures are of the worst input of a kind
    start: int
    stop: int


class Limits(NamedTuple):
    """The most that one input may take."""

    megabytes: float  # beyond what the worker has before
    seconds: float  # of the processor


class Attacker(Protocol):
    """Makes inputs, and tries them. Both are called in a forked worker, an object for each."""

    def inputs(self, batch: Batch) -> Iterator[Input]: ...

    def examine(self, batch: Batch, given: Input) -> str:
        """Return a word for the tally, such as "refused"; whatever it raises is a finding."""
        ...


@dataclass
class BatchResult:
    """Outcome of a worker: findings, suspects of having broken a limit, and the worst of all."""

    tried: int = 0
    lost: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    found: list[str] = field(default_factory=list)
    suspects: list[Input] = field(default_factory=list)
    megabytes: float = 0.0
    seconds: float = 0.0


class Worker(NamedTuple):
    """A forked process, and its batch."""

    pid: int
    batch: Batch
    result: int  # the descriptor to read it from
    shared: mmap.mmap


def attack_in_workers(
    attack: Attack, attacker: Attacker, batches: Sequence[Batch], limits: Limits
) -> Outcome:
    """Try all batches on all cores; figures are the worst megabytes and seconds of each kind."""
    outcome, tally, waiting = Outcome(), Counter[str](), [*reversed(batches)]
    workers: list[Worker] = []
    try:
        while (waiting or workers) and len(outcome.found) < MAX_FOUND:
            while waiting and len(workers) < (os.cpu_count() or 1):
                workers.append(_fork(attacker, waiting.pop(), limits))
            ready, _, _ = select.select([worker.result for worker in workers], [], [])
            for worker in [worker for worker in workers if worker.result in ready]:
                workers.remove(worker)
                result, culprit, end = _collect(worker)
                outcome.tried += result.tried
                tally += result.tally
                outcome.found += result.found
                outcome.lost += result.lost
                _note_worst(outcome, worker.batch.kind, result)
                suspects = [culprit] if culprit is not None else result.suspects
                for suspect in suspects:
                    outcome.found += _repeat(attacker, worker.batch, suspect, limits, end)
                outcome.tried += culprit is not None  # the rest of its batch is not tried
                attack.progress(outcome.tried)
    finally:
        for worker in workers:
            os.kill(worker.pid, signal.SIGKILL)
            _collect(worker)
    outcome.remarks.append(", ".join(f"{word} {count:,}" for word, count in tally.most_common()))
    return outcome


def measure(attacker: Attacker, batch: Batch, limits: Limits) -> BatchResult:
    """Try the one input of a batch in a worker of its own; limits it breaks are findings."""
    result, culprit, end = _collect(_fork(attacker, batch, limits))
    for given in [culprit] if culprit is not None else result.suspects:
        problem = end or f"takes {result.megabytes:.0f} MB of {limits.megabytes:.0f}"
        result.found.append(f"{given.name}: {problem}{packed(given.data)}")
    return result


@contextmanager
def fast_folder(folder: Path) -> Iterator[Path]:
    """Provide a folder in RAM where there is one: on some disks, writing a file takes longest.

    A killed process loses nothing there that it would not lose on a disk.
    """
    shared = Path("/dev/shm")
    with TemporaryDirectory(prefix="cbcl-", dir=shared if shared.is_dir() else folder) as name:
        yield Path(name)


def packed(data: bytes) -> str:
    """Return an input as text at the end of a finding, where it is short enough."""
    if not data:
        return ""
    text = base64.b85encode(zlib.compress(data, 9)).decode()
    return f"; unpack({text!r})" if len(text) <= MAX_PACKED else f"; {len(data)} bytes"


def unpack(text: str) -> bytes:
    """Return the input of a finding."""
    return zlib.decompress(base64.b85decode(text))


def wants_memory(error: BaseException | None) -> bool:
    """Tell whether an error came of memory that was not there: a refusal would hide it."""
    while error is not None:
        if isinstance(error, MemoryError) or re.search(r"\bmemory\b", str(error)):
            return True
        error = error.__cause__ or error.__context__
    return False


class _Alone:
    def __init__(self, attacker: Attacker, given: Input) -> None:
        self.attacker, self.given = attacker, given

    def inputs(self, _: Batch) -> Iterator[Input]:
        yield self.given

    def examine(self, batch: Batch, given: Input) -> str:
        return self.attacker.examine(batch, given)


def _repeat(attacker: Attacker, batch: Batch, given: Input, limits: Limits, end: str) -> list[str]:
    result = measure(_Alone(attacker, given), batch, limits)
    if result.found or not end:  # alone it keeps the limits: those before it left memory behind
        return result.found
    return [f"{given.name}: {end}, but not when it is tried alone{packed(given.data)}"]


def _note_worst(outcome: Outcome, kind: str, result: BatchResult) -> None:
    for unit, value in (("peak MB", result.megabytes), ("seconds", result.seconds)):
        key = f"{kind}: {unit}"
        outcome.figures[key] = round(max(value, outcome.figures.get(key, 0.0)), 3)


def _fork(attacker: Attacker, batch: Batch, limits: Limits) -> Worker:
    read_end, write_end = os.pipe()
    shared = mmap.mmap(-1, SHARED_BYTES)
    # What is ours and freed in the child would hide as much that an input takes.
    gc.freeze()
    ctypes.CDLL(None).malloc_trim(0)
    pid = -1
    try:
        pid = os.fork()
    finally:
        if pid:
            gc.unfreeze()
    if pid:
        os.close(write_end)
        return Worker(pid, batch, read_end, shared)
    os.close(read_end)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries in C write there what they refuse
    try:
        result = _try_all(attacker, batch, limits, shared)
    except BaseException:  # of the harness itself
        result = BatchResult(found=[f"{batch}: {traceback.format_exc()}"])
    with os.fdopen(write_end, "wb") as file:
        pickle.dump(result, file)
    os._exit(0)


def _collect(worker: Worker) -> tuple[BatchResult, Input | None, str]:
    """Return the result of a worker; if it was killed: the input that it had then, and by what."""
    with os.fdopen(worker.result, "rb") as file:
        data = file.read()
    _, status = os.waitpid(worker.pid, 0)
    with worker.shared as shared:
        if status == 0 and data:
            result: BatchResult = pickle.loads(data)
            return result, None, ""
        size = int.from_bytes(shared[:8], "little")
        culprit = Input(*pickle.loads(shared[8 : 8 + size])) if size else Input("no input", b"")
    ends = {
        signal.SIGPROF: "takes too many seconds of the processor",
        signal.SIGALRM: f"does not end in {WALL_SECONDS:.0f} s",
    }
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    end = ends.get(signal.Signals(number)) if number else "ends the process"
    return BatchResult(), culprit, end or f"crashes ({signal.Signals(number).name})"


def _try_all(attacker: Attacker, batch: Batch, limits: Limits, shared: mmap.mmap) -> BatchResult:
    result = BatchResult()
    base = 0.0
    for given in attacker.inputs(batch):
        note = pickle.dumps(tuple(given))
        shared[: 8 + len(note)] = len(note).to_bytes(8, "little") + note
        base = base or _limit_memory(limits)  # once the first input is made, and all is imported
        signal.setitimer(signal.ITIMER_PROF, limits.seconds)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        begun = time.process_time()
        try:
            result.tally[attacker.examine(batch, given)] += 1
        except BaseException as error:  # also those of extensions that are no Exception
            kind = type(error).__name__
            result.found.append(f"{given.name}: {kind}: {error}{packed(given.data)}")
            result.lost += isinstance(error, LostWorkError)
        seconds, peak = time.process_time() - begun, _peak() - base
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        result.tried += 1
        if peak > max(result.megabytes, limits.megabytes) and len(result.suspects) < MAX_FOUND:
            result.suspects.append(given)
        result.megabytes, result.seconds = max(result.megabytes, peak), max(result.seconds, seconds)
        if len(result.found) >= MAX_FOUND:
            break
    return result


def _peak() -> float:
    """Return the most memory that this process ever had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / MB


def _limit_memory(limits: Limits) -> float:
    """Let the process have three times the limit beyond what it has; return what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(3 * limits.megabytes * MB)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    return _peak()
