"""Write-ahead log (WAL) beside a memory file: whether it is of this file, or of one before.

SQLite applies the WAL of a killed process to whatever file has the name of its own by then. So a
memory has an identity, a number in its first page (SQLite's schema_version): it begins at random,
and every step adds one and writes that page. The WAL tells between which numbers its file must be.
"""

from __future__ import annotations

import struct
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

MIN_IDENTITY = 1 << 16  # below it, files of earlier versions, of which nothing can be said
MAX_IDENTITY = (1 << 31) - 1
HEADER = struct.Struct(">8I")  # magic, version, page size, sequence, two salts, checksum
FRAME = struct.Struct(">6I")  # page, pages of the file if a step ends here, two salts, checksum
IDENTITY = slice(40, 44)  # of the first page of a file


class WalSummary(NamedTuple):
    """Steps in a WAL, from its own salts on, which change whenever it begins anew."""

    salts: tuple[int, int]
    first: int | None  # identity after the first step; None: it does not tell
    n_steps: int

    def fits(self, identity: int) -> bool:
        """Tell whether a file was that of the first step, or has some of the steps already."""
        if self.first is None:
            return True
        return self.first - 1 <= identity < self.first + self.n_steps


def next_identity(present: int) -> int:
    """Return the identity after a step, or a first one."""
    if MIN_IDENTITY <= present < MAX_IDENTITY:
        return present + 1
    return SystemRandom().randrange(MIN_IDENTITY, MAX_IDENTITY // 2)


def wal_of(path: Path) -> Path:
    """Return the path of the WAL of a memory file."""
    file = path.resolve()
    return file.with_name(f"{file.name}-wal")


def read_wal(path: Path, identity: int) -> WalSummary | None:
    """Return what the WAL of a memory file holds; None: no step.

    It is read no further than to its first step, if that is the one after this identity.
    """
    try:
        with wal_of(path).open("rb") as file:
            _, _, page_size, _, *salts, _, _ = HEADER.unpack(file.read(HEADER.size))
            first, n_steps = None, 0
            while len(head := file.read(FRAME.size)) == FRAME.size:
                page, end, *own_salts, _, _ = FRAME.unpack(head)
                if own_salts != salts:  # what is left of an earlier use
                    break
                if page == 1 and not n_steps:
                    data = file.read(IDENTITY.stop)
                    first = int.from_bytes(data[IDENTITY], "big")
                    file.seek(page_size - len(data), 1)
                else:
                    file.seek(page_size, 1)
                n_steps += end > 0
                if n_steps and first == identity + 1:
                    break
    except (FileNotFoundError, struct.error):
        return None
    return WalSummary((salts[0], salts[1]), first, n_steps) if n_steps else None
