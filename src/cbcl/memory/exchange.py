"""A memory for others to read, and back: arrays in a safetensors file, words in a JSON file beside it.

m centroids of all classes, d features. Thumbnails and history stay behind.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from cbcl.errors import MemoryFileError
from cbcl.memory.records import About, Settings, Stored, as_label
from cbcl.memory.store import Memory
from cbcl.method.certainty import Spread
from cbcl.method.concepts import Concepts, checked

FORMAT = 1
MOST_BYTES = 1 << 32


def export(memory: Memory, path: Path) -> list[Path]:
    """Write `path` (.safetensors) and the JSON file beside it; neither may be there."""
    from safetensors.numpy import save

    view = memory.view()
    classes = memory.load(view)
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
        "settings": view.settings._asdict() | {"radius": "inf" if radius == inf else radius},  # JSON has no infinity
    }
    files = {path: save(tensors), path.with_suffix(".json"): json.dumps(words, indent=1, ensure_ascii=False).encode()}
    for file, data in files.items():
        try:
            with file.open("xb") as stream:
                stream.write(data)
        except OSError as error:
            raise MemoryFileError(f"{file} cannot be written: {error.strerror or error}.") from error
    return [*files]


def import_(path: Path, memory: Memory) -> None:
    """Make a new memory of what was exported."""
    if memory.exists():
        raise MemoryFileError(f"{memory.path} is there already: import into a new file.")
    try:
        about, settings, classes, state = _read(path)
    except OSError as error:
        raise MemoryFileError(f"{error.filename} cannot be read: {error.strerror or error}.") from error
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MemoryFileError(
            f"{path} and {path.with_suffix('.json').name} are no exported memory: {error}."
        ) from error
    with memory.writing(about, state) as writing:
        writing.begin("import", {"labels": list(classes)}, settings)
        for label, stored in classes.items():
            writing.put(label, stored, [])


def _read(path: Path) -> tuple[About, Settings, dict[str, Stored], bytes]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    words: dict[str, Any] = json.loads(_bytes(path.with_suffix(".json")))
    if words["format"] != FORMAT:
        raise ValueError(f"format {words['format']} is not {FORMAT}")
    try:
        tensors = load(_bytes(path))
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    about = About(**words["about"])
    settings = Settings(**words["settings"] | {"radius": float(words["settings"]["radius"])})
    owners = tensors["classes"]
    if tensors["centroids"].ndim != 2 or tensors["centroids"].shape[1] != about.dimension:
        raise ValueError(f"centroids of shape {tensors['centroids'].shape} do not have {about.dimension} features")
    classes = {}
    for number, (label, spread) in enumerate(zip(words["labels"], words["spreads"], strict=True)):
        rows = owners == number
        concepts = checked(Concepts(tensors["centroids"][rows], tensors["counts"][rows]))
        classes[as_label(label)] = Stored(concepts, Spread(**spread))
    return about, settings, classes, tensors["backbone"].tobytes()


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} is larger than any memory")
    return path.read_bytes()
