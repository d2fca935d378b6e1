"""Exchange format of a memory: arrays in a safetensors file, the rest in a JSON file beside it.

Thumbnails and history are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import MemoryFileError, first_line, reason
from cbcl.files import write_atomically
from cbcl.heads.base import NEGATIVES, Head, Settings, find_head
from cbcl.memory.packing import unpack_info
from cbcl.memory.rows import DAMAGE, MemoryInfo, as_label, as_settings, check_installed, show_label
from cbcl.memory.state import MemoryState
from cbcl.memory.store import Memory

SUFFIX = ".safetensors"
MAX_BYTES = 1 << 32


class ExportResult(NamedTuple):
    """Files that were written, and labels that were left out, since they are damaged."""

    files: list[Path]
    left_out: list[str]


class ExportedMemory(NamedTuple):
    """Contents of exported files."""

    about: MemoryInfo
    settings: Settings
    classes: dict[str, Any]  # and the negatives, whose label is empty
    state: bytes  # of the backbone


def export(memory: Memory, path: Path) -> ExportResult:
    """Write FILE.safetensors and FILE.json, where `path` is either of FILE and FILE.safetensors."""
    from safetensors.numpy import save

    path = _with_suffix(path)
    memory.check_structure()
    view = memory.view()
    classes, left_out = _load_undamaged(memory, view)
    if not classes:
        raise MemoryFileError(memory.path, "knows nothing", "there is nothing to export")
    radius = view.settings.radius
    words, tensors = view.head.to_tensors([*classes.values()], view.about.dimension)
    backbone = np.frombuffer(memory.backbone_state(), dtype=np.uint8)
    description = {
        "format": view.head.exchange_format,
        "labels": list(classes),
        **words,
        "about": view.about.as_dict(),
        "settings": view.settings._asdict()
        | {"radius": "inf" if radius == inf else radius},  # JSON has no infinity
    }
    files = {
        path: save({**tensors, "backbone": backbone}),
        path.with_suffix(".json"): json.dumps(description, indent=1, ensure_ascii=False).encode(),
    }
    for file in files:
        if file.exists():
            raise MemoryFileError(file, "is there already", "give another name")
    for file, data in files.items():
        try:
            write_atomically(file, data)
        except OSError as error:
            raise MemoryFileError(file, f"cannot be written: {reason(error)}") from error
    return ExportResult([*files], left_out)


def _load_undamaged(memory: Memory, view: MemoryState) -> tuple[dict[str, Any], list[str]]:
    """Return classes and negatives, and the labels of those that are damaged."""
    classes: dict[str, Any] = {}
    left_out = []
    for label in view.rows:
        try:
            classes |= memory.load(view, [label])
        except MemoryFileError:
            left_out.append(show_label(label))
    return classes, left_out


def import_(
    path: Path,
    memory: Memory,
    *,
    private: bool = False,
    accept: Callable[[MemoryInfo], None] | None = None,
) -> None:
    """Make a new memory of FILE.safetensors and FILE.json; `accept` may raise an error before."""
    there = MemoryFileError(memory.path, "is there already", "import into a new file")
    if memory.exists():
        raise there
    exported = _read_exported(_with_suffix(path))
    if accept is not None:
        accept(exported.about)
    about = replace(exported.about, private=exported.about.private or private)
    with memory.writing(about, exported.state) as writing:
        if writing.view.step:  # another process was faster
            raise there
        writing.add_step("import", {"labels": list(exported.classes)}, exported.settings)
        for label, stored in exported.classes.items():
            writing.replace_class(label, stored, [])


def _read_exported(path: Path) -> ExportedMemory:
    beside = path.with_suffix(".json")
    try:
        return _read(path, beside)
    except OSError as error:
        file = Path(error.filename or path)
        raise MemoryFileError(file, f"cannot be read: {reason(error)}") from error
    except DAMAGE as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else first_line(error)
        problem = f"and {beside.name} are not an exported memory: {told}"
        raise MemoryFileError(path, problem) from error


def _with_suffix(path: Path) -> Path:
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def _read(path: Path, beside: Path) -> ExportedMemory:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    description: dict[str, Any] = json.loads(_read_bytes(beside))
    try:
        tensors = load(_read_bytes(path))
    except SafetensorError as error:
        raise ValueError(first_line(error)) from error
    about = unpack_info(json.dumps(description["about"]).encode(), beside)
    given = description["settings"]
    before = Settings()  # an export of an earlier version lacks the last two
    values = (
        float(given["radius"]),
        given["n_voters"],
        given["max_centroids"],
        given.get("head", before.head),
        given.get("strangers", before.strangers),
    )
    settings = as_settings(values, beside)
    check_installed(settings.head, beside)
    head = find_head(settings.head)
    if head.exchange_format != description["format"]:
        raise ValueError(f"format {description['format']} is not that of the {settings.head}")
    state = tensors.pop("backbone").tobytes()
    labels = [_as_label(label, head) for label in description["labels"]]
    if not labels or len({*labels}) != len(labels):
        raise ValueError(f"the labels in {beside.name} are none, or the same")
    known = head.from_tensors(description, tensors, about.dimension)
    return ExportedMemory(about, settings, dict(zip(labels, known, strict=True)), state)


def _as_label(given: object, head: Head[Any]) -> str:
    is_negatives = given == NEGATIVES and "negatives" in head.abilities
    return NEGATIVES if is_negatives else as_label(given)


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} is larger than any memory")
    return path.read_bytes()
