"""Files from elsewhere: pickles by coverage; weights, networks, exports and records mutated."""

from __future__ import annotations

import json
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from support.checkpoints import depth_of

from cbcl.errors import CBCLError
from cbcl.vision.weights.safe_pickle import MAX_NESTING
from cbcl.vision.weights.torch_checkpoint import read_note, read_state_dict
from cbcl_study.backbones.numpy_archive import read_numpy_pickle
from cbcl_study.data.cifar import find_cifar
from cbcl_study.data.datasets import CIFAR100
from endurance.canary import Canary
from endurance.guided import Lineage
from endurance.pickle_mutation import (
    NUMBERS,
    checkpoints,
    cifar_batches,
    legacy,
    mutate_pickle,
    numpy_pickles,
)
from endurance.stored_files import FILE_KINDS, FileKind, make_files
from endurance.trial import Attack, Outcome, Trial
from endurance.workers import Batch, Input, Limits, attack_in_workers, fast_folder, wants_memory

LIMITS = Limits(megabytes=400.0, seconds=8.0)  # a pickle of 200 kB takes less than two
LINEAGE = 20_000  # pickles that are found one by another
WATCHED_SHARE = 40  # of so many one is watched, at first: that takes the time of ten others
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


class PickleReaders:
    """The readers of pickles, by the kind of their files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpora = {
            "numpy pickles": numpy_pickles(),
            "torch checkpoints": checkpoints(),
            "CIFAR batches": cifar_batches(),
        }

    def read(self, kind: str, data: bytes) -> None:
        if kind == "numpy pickles":
            value = read_numpy_pickle(data)
            if depth_of(value) > MAX_NESTING:
                raise AssertionError("it is nested too deeply")
            repr(value)
        elif kind == "torch checkpoints":
            self._read_checkpoint(data)
        else:
            (self.folder / "train").write_bytes(data)
            find_cifar(CIFAR100, self.folder)

    def prepare(self, kind: str) -> None:
        """Write what lies beside a mutated file."""
        self.folder.mkdir(exist_ok=True)
        if kind == "CIFAR batches":
            train, meta = self.corpora[kind]
            (self.folder / "test").write_bytes(train)
            (self.folder / "meta").write_bytes(meta)

    def _read_checkpoint(self, data: bytes) -> None:
        path = self.folder / "weights.pth"
        if len(data) % 2:
            path.write_bytes(legacy(data, {"0": NUMBERS}))
        else:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("weights/data.pkl", data)
                archive.writestr("weights/data/0", NUMBERS.tobytes())
            read_note(path)
        for tensor in read_state_dict(path).values():
            np.asarray(tensor).sum()  # all of its numbers are there


class GuidedPickles:
    """Lineages of pickles; each of its own random numbers."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed, self.folder = seed, folder
        self.readers: PickleReaders | None = None
        self.lineage: Lineage | None = None
        self.canary: Canary | None = None

    def inputs(self, batch: Batch) -> Iterator[Input]:
        readers = PickleReaders(self.folder / f"{batch.kind} {batch.start}")
        readers.prepare(batch.kind)
        rng = random.Random(f"{self.seed} {batch}")
        watched = max(100, (batch.stop - batch.start) // WATCHED_SHARE)
        self.lineage = Lineage(readers.corpora[batch.kind], mutate_pickle, rng, watched)
        self.readers, self.canary = readers, Canary()
        for number, data in enumerate(self.lineage.inputs(batch.stop - batch.start)):
            yield Input(f"seed {self.seed}, {batch.kind} {batch.start + number}", data)

    def examine(self, batch: Batch, given: Input) -> str:
        if self.readers is None or self.lineage is None or self.canary is None:  # tried alone
            next(self.inputs(batch))
            return self.examine(batch, given)
        readers = self.readers
        with self.lineage.watch():
            return read_or_refuse(
                lambda: readers.read(batch.kind, given.data), self.canary, readers.folder
            )


def guide_pickles(attack: Attack) -> Outcome:
    """Mutate pickles by what they reach; most for the reader of numpy's, which needs no file."""
    kinds = ["numpy pickles", "torch checkpoints", *["numpy pickles"] * 3, "CIFAR batches"]
    batches, start = list[Batch](), 0
    while start < attack.count:
        size = min(LINEAGE, attack.count - start, max(200, attack.count // 8))
        batches.append(Batch(kinds[len(batches) % len(kinds)], start, start + size))
        start += size
    with fast_folder(attack.folder) as folder:
        return attack_in_workers(attack, GuidedPickles(attack.seed, folder), batches, LIMITS)


class MutatedFiles:
    """Files of all other kinds, each with what lies beside it."""

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


TRIALS: tuple[Trial, ...] = (
    Trial("pickles, by coverage", "pickles", 5000, 400_000, guide_pickles),
    Trial("mutated files", "files", 2500, 100_000, mutate_files),
)
