"""Records of runs: one JSON line each, appended whole; what is recorded is not run again."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import cbcl
from cbcl.errors import DataError
from cbcl.machine import description
from cbcl.study.streams import Protocol

Record: TypeAlias = Mapping[str, Any]

PREFIX = "study-"
TORN = b"\x00"  # ends a line that was left unfinished; no JSON has it
FIELDS = {
    "run",
    "inputs",
    "classes",
    "increments",
    "tested",
    "right",
    "confusion",
    "bytes",
    "seconds",
}


class Run(NamedTuple):
    """What is run: a learner on a stream of a data set, seen through a backbone."""

    data: str
    backbone: str
    learner: str
    max_centroids: int | None
    increment: int
    base: int | None
    shots: int | None
    classes: int
    seed: int

    @property
    def protocol(self) -> Protocol:
        return Protocol(self.increment, self.base, self.shots, self.classes)


def key(run: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """What two records of the same run have in common."""
    return json.dumps([dict(run), inputs["vectors"], inputs["pictures"]], sort_keys=True)


def read(folder: Path) -> list[Record]:
    """All records in a folder, the first where one was made twice; a line that a kill left unfinished is no record."""
    found: dict[str, Record] = {}
    for path in sorted(folder.glob(f"{PREFIX}*.jsonl")):
        *lines, _ = path.read_bytes().split(b"\n")  # what has no end yet is not there yet
        for number, line in enumerate(lines, 1):
            if line and not line.endswith(TORN):
                record = _parsed(line)
                if record is None:
                    raise DataError(
                        f"{path}, line {number}, is no record: repair or remove that line."
                    )
                found.setdefault(key(record["run"], record["inputs"]), record)
    return [*found.values()]


def append(folder: Path, record: Record) -> None:
    """One more line, written at once, so that a kill or another process leaves whole lines."""
    path = folder / f"{PREFIX}{safe(record['run']['data'])}.jsonl"
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            unfinished = file.read(1) not in (
                b"",
                b"\n",
            )  # by one that was killed, or ran out of room
            file.write(TORN + b"\n" + line if unfinished else line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror or error}.") from error


def safe(data: str) -> str:
    """The name of a data set, or the last part of a folder's, as part of a file's.

    >>> safe("cifar100"), safe("photos/my things/")
    ('cifar100', 'my-things')
    """
    return re.sub(r"[^\w-]+", "-", Path(data).name).strip("-") or "data"


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not set(record) >= FIELDS:
        return None
    return (
        record
        if set(Run._fields) <= set(record["run"])
        and {"vectors", "pictures"} <= set(record["inputs"])
        else None
    )


@cache
def surroundings() -> dict[str, Any]:
    """The commit, the version, the machine and the libraries, for a record."""
    names = ("numpy", "scipy", "scikit-learn")
    return {
        "commit": _commit(Path(cbcl.__file__).parent),
        "version": cbcl.__version__,
        "machine": description(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in names},
        },
    }


def _commit(source: Path) -> str | None:
    """The commit that the package is at, and whether its source was changed since; None: it is not in a repository."""

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(source), *arguments], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            return None
        return done.stdout.strip()

    commit = git("rev-parse", "--short", "HEAD")
    if commit is None or git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return f"{commit}-dirty" if git("status", "--porcelain", "--", ".") else commit
