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
from cbcl.errors import DataError, reason
from cbcl.machine import description
from cbcl_study.streams import Protocol

RunRecord: TypeAlias = Mapping[str, Any]

PREFIX = "study-"
UNFINISHED = b"\x00"  # ends a line that was left unfinished; no JSON has it
RESULTS = {"classes", "increments", "tested", "right", "confusion", "bytes", "seconds"}
FIELDS = {"run", "inputs", *RESULTS}


class Run(NamedTuple):
    """A learner on a stream of a data set, seen through a backbone."""

    data: str
    backbone: str
    learner: str
    max_centroids: int | None
    increment: int
    base: int | None
    shots: int | None
    classes: int
    seed: int
    whole_base: bool = False  # fields with a default are later than the first records
    usual_order: bool = False

    @property
    def protocol(self) -> Protocol:
        return Protocol(**{name: getattr(self, name) for name in Protocol._fields})


DEFAULTS = Run._field_defaults


def key(run: Mapping[str, Any], inputs: Mapping[str, Any]) -> str:
    """Return a text that is the same for two records of the same run."""
    fields = dict(item for item in run.items() if item not in DEFAULTS.items())
    return json.dumps([fields, inputs["vectors"], inputs["pictures"]], sort_keys=True)


def read(folder: Path) -> list[RunRecord]:
    """Return all records in a folder, the first where one was made twice.

    Of a learner of somebody's own it is the last: that may have changed. A line that a kill left
    unfinished is no record.
    """
    records: dict[str, RunRecord] = {}
    for path in sorted(folder.glob(f"{PREFIX}*.jsonl")):
        *lines, _ = path.read_bytes().split(b"\n")  # what has no end yet is not there yet
        for number, line in enumerate(lines, 1):
            if not line or line.endswith(UNFINISHED):
                continue
            record = _parse(line)
            if record is None:
                raise DataError(path, f"is broken in line {number}", "repair or remove that line")
            same = key(record["run"], record["inputs"])
            if same not in records or "learner" in record["inputs"]:
                records[same] = record
    return [*records.values()]


def append(folder: Path, record: RunRecord) -> None:
    """Append a line at once, so that a kill or another process leaves whole lines."""
    path = folder / f"{PREFIX}{safe(record['run']['data'])}.jsonl"
    line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
            # Left by a process that was killed, or ran out of room.
            unfinished = file.read(1) not in (b"", b"\n")
            file.write(UNFINISHED + b"\n" + line if unfinished else line)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise DataError(path, f"cannot be written: {reason(error)}") from error


def safe(data: str) -> str:
    """Return the name of a data set, or the last part of a folder's, as part of a file name.

    >>> safe("cifar100"), safe("photos/my things/")
    ('cifar100', 'my-things')
    """
    return re.sub(r"[^\w-]+", "-", Path(data).name).strip("-") or "data"


def _parse(line: bytes) -> RunRecord | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not set(record) >= FIELDS:
        return None
    run, inputs = record["run"], record["inputs"]
    if not isinstance(run, dict) or not isinstance(inputs, dict):
        return None
    has_run = set(Run._fields) <= {*DEFAULTS, *run}
    has_inputs = {"vectors", "pictures"} <= set(inputs)
    return {**record, "run": {**DEFAULTS, **run}} if has_run and has_inputs else None


@cache
def surroundings() -> dict[str, Any]:
    """Return commit, version, machine and libraries, for a record."""
    names = ("numpy", "scipy", "scikit-learn")
    return {
        "commit": _commit(Path(cbcl.__file__).parent),
        "version": cbcl.__version__,
        "machine": description(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in names},
    }


def _commit(source: Path) -> str | None:
    """Return the package's commit, "-dirty" if its source was changed; None: in no repository."""

    def git(*arguments: str) -> str | None:
        try:
            command = ["git", "-C", str(source), *arguments]
            return subprocess.run(
                command, capture_output=True, text=True, check=True
            ).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    commit = git("rev-parse", "--short", "HEAD")
    if commit is None or git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None
    return f"{commit}-dirty" if git("status", "--porcelain", "--", ".") else commit
