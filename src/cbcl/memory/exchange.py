"""Exchange format of a memory: arrays in a safetensors file, the rest in a JSON file beside it.

m centroids of all classes, d features. Thumbnails and history are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.errors import MemoryFileError, first_line, reason
from cbcl.files import write_atomically
from cbcl.memory.rows import (
    MemoryInfo,
    Settings,
    StoredClass,
    as_label,
    as_settings,
    as_spread,
    unpack_info,
)
from cbcl.memory.store import Memory
from cbcl.method.concepts import Concepts, check_concepts

FORMAT = 1
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
    classes: dict[str, StoredClass]
    state: bytes  # of the backbone


def export(memory: Memory, path: Path) -> ExportResult:
    """Write FILE.safetensors and FILE.json, where `path` is either of FILE and FILE.safetensors."""
    path = _with_suffix(path)
    view = memory.view()
    classes: dict[str, StoredClass] = {}
    left_out = []
    for label in view.classes:
        try:
            classes |= memory.load(view, [label])
        except MemoryFileError:
            left_out.append(label)
    if not classes:
        raise MemoryFileError(memory.path, "knows nothing", "there is nothing to export")
    radius = view.settings.radius
    description = {
        "format": FORMAT,
        "labels": list(classes),
        "spreads": [asdict(stored.spread) for stored in classes.values()],
        "about": asdict(view.about),
        "settings": view.settings._asdict()
        | {"radius": "inf" if radius == inf else radius},  # JSON has no infinity
    }
    files = {
        path: _as_safetensors(classes, memory.backbone_state()),
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
    except (KeyError, TypeError, ValueError, IndexError) as error:
        problem = f"and {beside.name} are not an exported memory: {first_line(error)}"
        raise MemoryFileError(path, problem) from error


def _with_suffix(path: Path) -> Path:
    return path if path.suffix == SUFFIX else path.with_name(path.name + SUFFIX)


def _as_safetensors(classes: dict[str, StoredClass], state: bytes) -> bytes:
    from safetensors.numpy import save

    concepts = [stored.concepts for stored in classes.values()]
    sizes = [len(one.counts) for one in concepts]
    return save(
        {
            "centroids": np.concatenate([one.centroids for one in concepts]),
            "counts": np.concatenate([one.counts for one in concepts]),
            "classes": np.repeat(np.arange(len(concepts)), sizes),
            "backbone": np.frombuffer(state, dtype=np.uint8),
        }
    )


def _read(path: Path, beside: Path) -> ExportedMemory:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    description: dict[str, Any] = json.loads(_read_bytes(beside))
    if description["format"] != FORMAT:
        raise ValueError(f"format {description['format']} is not {FORMAT}")
    try:
        tensors = load(_read_bytes(path))
    except SafetensorError as error:
        raise ValueError(first_line(error)) from error
    about = unpack_info(json.dumps(description["about"]).encode(), beside)
    given = description["settings"]
    settings = as_settings(
        float(given["radius"]),
        given["n_voters"],
        given["max_centroids"],
        given.get("head", "vote"),
        beside,
    )
    if tensors["centroids"].ndim != 2 or tensors["centroids"].shape[1] != about.dimension:
        shape = tensors["centroids"].shape
        raise ValueError(f"centroids of shape {shape} do not have {about.dimension} features")
    classes = _read_classes(description, tensors, beside)
    return ExportedMemory(about, settings, classes, tensors["backbone"].tobytes())


def _read_classes(
    description: dict[str, Any], tensors: dict[str, NDArray[Any]], beside: Path
) -> dict[str, StoredClass]:
    labels = [as_label(label) for label in description["labels"]]
    owners = tensors["classes"]
    if len({*labels}) != len(labels) or {*owners.tolist()} != {*range(len(labels))}:
        raise ValueError("the labels and the centroids do not belong together")
    classes = {}
    for number, (label, spread) in enumerate(zip(labels, description["spreads"], strict=True)):
        rows = owners == number
        concepts = check_concepts(Concepts(tensors["centroids"][rows], tensors["counts"][rows]))
        total, squares = float(spread["total"]), float(spread["squares"])
        classes[label] = StoredClass(concepts, as_spread(spread["n"], total, squares, beside))
    return classes


def _read_bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} is larger than any memory")
    return path.read_bytes()
