"""A memory for others to read, and back: arrays in a safetensors file, words in a JSON file beside it.

m centroids of all classes, d features. Thumbnails and history stay behind.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cbcl.errors import MemoryFileError
from cbcl.files import write_atomically
from cbcl.memory.rows import (
    MemoryInfo,
    Settings,
    StoredClass,
    as_label,
    as_settings,
    as_spread,
    read_about,
)
from cbcl.memory.store import Memory
from cbcl.method.concepts import Concepts, check_concepts

FORMAT = 1
MAX_BYTES = 1 << 32


class ExportResult(NamedTuple):
    """The files that were written, and the labels that could not be, since they are damaged."""

    files: list[Path]
    left_out: list[str]


def export(memory: Memory, path: Path) -> ExportResult:
    """Write `path` (.safetensors) and the JSON file beside it; neither may be there."""
    from safetensors.numpy import save

    view = memory.view()
    classes: dict[str, StoredClass] = {}
    left_out = []
    for label in view.classes:
        try:
            classes |= memory.load(view, [label])
        except MemoryFileError:
            left_out.append(label)
    if not classes:
        raise MemoryFileError(f"{memory.path} knows nothing: there is nothing to export.")
    concepts = [stored.concepts for stored in classes.values()]
    tensors = {
        "centroids": np.concatenate([known.centroids for known in concepts]),
        "counts": np.concatenate([known.counts for known in concepts]),
        "classes": np.repeat(np.arange(len(concepts)), [len(known.counts) for known in concepts]),
        "backbone": np.frombuffer(memory.backbone_state(), dtype=np.uint8),
    }
    radius = view.settings.radius
    words = {
        "format": FORMAT,
        "labels": list(classes),
        "spreads": [asdict(stored.spread) for stored in classes.values()],
        "about": asdict(view.about),
        "settings": view.settings._asdict()
        | {"radius": "inf" if radius == inf else radius},  # JSON has no infinity
    }
    files = {
        path: save(tensors),
        _words(path): json.dumps(words, indent=1, ensure_ascii=False).encode(),
    }
    for file in files:
        if file.exists():
            raise MemoryFileError(f"{file} is there already: give another name.")
    for file, data in files.items():
        try:
            write_atomically(file, data)
        except OSError as error:
            raise MemoryFileError(
                f"{file} cannot be written: {error.strerror or error}."
            ) from error
    return ExportResult([*files], left_out)


def _words(path: Path) -> Path:
    return path.with_suffix(".json")


def import_(path: Path, memory: Memory) -> None:
    """Make a new memory of what was exported."""
    if memory.exists():
        raise MemoryFileError(f"{memory.path} is there already: import into a new file.")
    try:
        about, settings, classes, state = _read(path)
    except OSError as error:
        raise MemoryFileError(
            f"{error.filename} cannot be read: {error.strerror or error}."
        ) from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MemoryFileError(
            f"{path} and {path.with_suffix('.json').name} are no exported memory: {error}."
        ) from error
    with memory.writing(about, state) as writing:
        writing.begin("import", {"labels": list(classes)}, settings)
        for label, stored in classes.items():
            writing.put(label, stored, [])


def _read(path: Path) -> tuple[MemoryInfo, Settings, dict[str, StoredClass], bytes]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    words: dict[str, Any] = json.loads(_bytes(_words(path)))
    if words["format"] != FORMAT:
        raise ValueError(f"format {words['format']} is not {FORMAT}")
    try:
        tensors = load(_bytes(path))
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    about = read_about(json.dumps(words["about"]).encode(), _words(path))
    given = words["settings"]
    what = str(_words(path))
    settings = as_settings(float(given["radius"]), given["n_voters"], given["max_centroids"], what)
    labels = [as_label(label) for label in words["labels"]]
    owners = tensors["classes"]
    if tensors["centroids"].ndim != 2 or tensors["centroids"].shape[1] != about.dimension:
        raise ValueError(
            f"centroids of shape {tensors['centroids'].shape} do not have {about.dimension} features"
        )
    if len({*labels}) != len(labels) or {*owners.tolist()} != {*range(len(labels))}:
        raise ValueError("the labels and the centroids do not belong together")
    classes = {}
    for number, (label, spread) in enumerate(zip(labels, words["spreads"], strict=True)):
        concepts = check_concepts(
            Concepts(tensors["centroids"][owners == number], tensors["counts"][owners == number])
        )
        sums = as_spread(spread["n"], float(spread["total"]), float(spread["squares"]), what)
        classes[label] = StoredClass(concepts, sums)
    return about, settings, classes, tensors["backbone"].tobytes()


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"{path.name} is larger than any memory")
    return path.read_bytes()
