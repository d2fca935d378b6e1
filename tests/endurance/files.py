"""Files from elsewhere: pickles, weights, networks, exports and records, mutated."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

from cbcl.errors import CBCLError
from endurance.canary import Canary
from endurance.stored_files import FILE_KINDS, FileKind, make_files
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import Batch, Input, Limits, attack_in_workers, fast_folder, wants_memory

LIMITS = Limits(megabytes=400.0, seconds=8.0)  # a pickle of 200 kB takes less than two
BATCH = 1000


def read_or_refuse(read: Callable[[], object], canary: Canary, folder: Path) -> str:
    """Read a file: there is a result, or an error in a sentence, and nothing else was done."""
    canary.set(folder)
    try:
        read()
    except CBCLError as error:
        canary.check()
        if wants_memory(error.__cause__):
            raise AssertionError(f"it asks for more memory than there is: {error}") from error
        if "\n" in str(error) or not str(error).endswith("."):
            raise AssertionError(f"it is refused in no sentence: {error!r}") from error
        return "refused"
    finally:
        canary.check()
    return "read"


class MutatedFiles:
    """Files of all kinds, each with what lies beside it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.files: dict[str, dict[str, bytes]] = make_files(folder / "originals")
        self.canary: Canary | None = None

    def inputs(self, batch: Batch) -> Iterator[Input]:
        kind = FILE_KINDS[batch.kind]
        for number in range(batch.start, batch.stop):
            rng = random.Random(f"{self.seed} {batch.kind} {number}")
            files = self.files[batch.kind]
            if number:  # the first is the original
                files = kind.mutate(files, rng)
            yield Input(f"seed {self.seed}, {batch.kind} {number}", _pack(files))

    def examine(self, batch: Batch, given: Input) -> str:
        self.canary = self.canary or Canary()
        kind: FileKind = FILE_KINDS[batch.kind]
        folder = self.folder / f"{batch.kind} {batch.start}"
        folder.mkdir(exist_ok=True)
        for path in folder.iterdir():
            path.unlink()
        for name, data in _unpack(given.data).items():
            (folder / name).write_bytes(data)
        came = read_or_refuse(lambda: kind.read(folder), self.canary, folder)
        if given.name.endswith(" 0") and came == "refused":
            raise AssertionError("the original is refused")
        return came


def _pack(files: dict[str, bytes]) -> bytes:
    sizes = {name: len(data) for name, data in files.items()}
    return json.dumps(sizes).encode() + b"\n" + b"".join(files.values())


def _unpack(packed: bytes) -> dict[str, bytes]:
    sizes, _, content = packed.partition(b"\n")
    files: dict[str, bytes] = {}
    for name, size in json.loads(sizes).items():
        files[name], content = content[:size], content[size:]
    return files


def mutate_files(attack: Attack) -> Outcome:
    """Mutate files of each kind, by its share."""
    shares = {name: kind.share for name, kind in FILE_KINDS.items()}
    batches: list[Batch] = []
    for name, share in shares.items():
        count = max(1, attack.count * share // sum(shares.values()))
        batches += [Batch(name, n, min(n + BATCH, count)) for n in range(0, count, BATCH)]
    batches.sort(key=lambda batch: batch.start)
    with fast_folder(attack.folder) as folder:
        return attack_in_workers(attack, MutatedFiles(attack.seed, folder), batches, LIMITS)


TRIALS: tuple[Trial, ...] = (Trial("mutated files", "files", 7000, 300_000, mutate_files),)
