"""Files as a power cut leaves them: of the writes since the last sync, some sectors arrived.

The writes of a script are recorded with their bytes. A cut comes after any of them. What was synced
is there; any other sector of 512 or 4,096 bytes is as it was then, or after any write since, and so
are the size of a file and the names in the folder. SQLite syncs the log before a step is
acknowledged (synchronous = FULL): so each acknowledged step is there.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

from endurance.scripts import SCRIPTS, prepare
from endurance.steps import look, replace_files
from endurance.trial import Attack, Outcome, Trial
from endurance.writes import Call, note, preloaded, read_trace

SECTORS = (512, 4096)


@dataclass
class File:
    """A file on a disk that may lose its power."""

    synced: bytearray
    pending: list[Call] = field(default_factory=list)  # writes and truncations since

    def sync(self) -> None:
        for call in self.pending:
            apply(call, self.synced)
        self.pending.clear()

    def after_cut(self, rng: random.Random, sector: int) -> bytes:
        """Return what may be on the disk: each sector as it was synced, or some time since."""
        data, final = bytearray(self.synced), bytearray(self.synced)
        writes: dict[int, list[Call]] = {}  # by sector
        for call in self.pending:
            apply(call, final)
            for piece in _pieces(call, sector):
                writes.setdefault(piece.offset // sector, []).append(piece)
        chance = rng.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        for own in writes.values():
            arrived = len(own) if rng.random() < chance else rng.randrange(len(own))
            for piece in own[:arrived]:
                apply(piece, data)
        if len(final) < len(data) and rng.random() < chance:
            del data[len(final) :]
        return bytes(data)


def apply(call: Call, data: bytearray) -> None:
    """Write or truncate."""
    end = call.offset + len(call.data)
    if call.kind == "t":
        del data[call.offset :]
        end = call.offset
    data.extend(bytes(max(0, end - len(data))))
    if call.kind == "w":
        data[call.offset : end] = call.data


def _pieces(call: Call, size: int) -> list[Call]:
    """Divide a write where sectors of the disk begin."""
    if call.kind != "w":
        return []
    end = call.offset + len(call.data)
    first = call.offset - call.offset % size
    bounds = [max(start, call.offset) for start in range(first, end, size)] + [end]
    return [
        call._replace(offset=start, data=call.data[start - call.offset : stop - call.offset])
        for start, stop in pairwise(bounds)
    ]


class Disk:
    """The files of a folder, by name; a name is safe when the folder was synced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files = {file.name: File(bytearray(file.read_bytes())) for file in folder.iterdir()}
        self._synced_names = dict(self.files)

    def do(self, call: Call) -> None:
        path = Path(call.path)
        if call.kind == "s" and path == self._folder:
            self._synced_names = dict(self.files)
        elif call.kind == "s":
            self.files.setdefault(path.name, File(bytearray())).sync()
        elif call.kind == "u":
            self.files.pop(path.name, None)
        elif call.kind in "wt":
            self.files.setdefault(path.name, File(bytearray())).pending.append(call)

    def cut(self, target: Path, rng: random.Random) -> None:
        """Write the files that are left to a folder."""
        names = rng.choice((self.files, self._synced_names))
        sector = rng.choice(SECTORS)
        for old in target.iterdir():
            old.unlink()
        for name, file in names.items():
            data = file.after_cut(rng, sector)
            if name.endswith("-shm"):  # which SQLite maps, and makes anew
                data = rng.randbytes(1 << 15)
            (target / name).write_bytes(data)


def cut_power(attack: Attack) -> Outcome:
    """Cut the power after calls of eight scripts, some often, until enough is tried."""
    outcome, rng = Outcome(), random.Random(attack.seed)
    target, work = attack.folder / "after", attack.folder / "work"
    target.mkdir()
    work.mkdir()
    for number in range(SCRIPTS):
        script = prepare(attack.seed + number, attack.folder)
        path = work / script.start_path.name
        replace_files(script.start, work)
        disk = Disk(work)
        calls = read_trace(partial(script.perform, path, partial(note, 0)), work)
        share = (attack.count - outcome.tried) // (SCRIPTS - number)
        places = sorted(rng.choices(range(len(calls)), k=share))
        acknowledged = position = 0
        for place in places:
            for call in calls[position : place + 1]:
                acknowledged += call.kind == "m"
                disk.do(call)
            position = place + 1
            disk.cut(target, rng)
            found, findings = look(target / path.name)
            case = f"cut {outcome.tried} of seed {attack.seed}, after call {place} of {script.seed}"
            if found not in script.states[acknowledged : acknowledged + 2]:
                outcome.lost += 1
                outcome.found.append(f"{case}: {acknowledged} acknowledged, but found {found}")
            outcome.found += [f"{case}: {finding}" for finding in findings]
            outcome.tried += 1
            attack.progress(outcome.tried)
    return outcome


TRIALS = (Trial("torn writes", "power cuts", 200, 10_000, preloaded(cut_power)),)
