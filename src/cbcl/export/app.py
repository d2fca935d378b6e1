"""The app as a folder of files: the model, the page, the runtime, and a list of all.

A new app replaces the old one in its folder; a folder with other files is refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from cbcl.errors import AppError, reason
from cbcl.export.portable import PortableModel
from cbcl.export.runtime import Runtime
from cbcl.export.words import DEFAULT_LANGUAGE, RIGHT_TO_LEFT, languages, write_words
from cbcl.files import write_atomically

DESCRIPTION = "app.json"  # of the app, with the list of its files
PAGE_FILES = (
    "icon.svg",
    "icon-192.png",
    "icon-512.png",
    "css/base.css",
    "css/layout.css",
    "css/recognize.css",
    "js/camera.js",
    "js/dom.js",
    "js/words.js",
)  # shared with the teaching page
ICON_SIDES = (192, 512)
GROUND = "#f6f5f1"  # --ground of base.css


class ExportedApp(NamedTuple):
    """An app that was written."""

    folder: Path
    n_bytes: int
    labels: list[str]


def export_app(folder: Path, name: str, model: PortableModel, runtime: Runtime) -> ExportedApp:
    """Write the app of a model to a folder that is new, empty, or of an app."""
    previous = _own_files(folder)
    contents = _contents(name, model, runtime)
    for path in contents:
        if (folder / path).exists() and path not in previous:
            problem = f"has a file {path} that is not of an app"
            raise AppError(folder, problem, "give another folder")
    try:
        for path, data in contents.items():
            write_atomically(folder / path, data)
        for path in previous - set(contents):
            (folder / path).unlink(missing_ok=True)
    except OSError as error:
        raise AppError(folder, f"cannot be written: {reason(error)}") from error
    return ExportedApp(folder, sum(map(len, contents.values())), model.labels)


def _own_files(folder: Path) -> set[str]:
    """Return the files of the app in a folder; raise an AppError if it holds something else."""
    try:
        if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
            return set()
        if not folder.is_dir():
            raise AppError(folder, "is not a folder", "give a new one")
        described = json.loads((folder / DESCRIPTION).read_bytes())
        return {path for path in described["files"] if _is_inside(path)}
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            advice = "give a new folder, or an empty one"
            raise AppError(folder, "is not empty, and holds no app", advice) from None
        raise AppError(folder, f"cannot be read: {reason(error)}") from error
    except (KeyError, TypeError, ValueError):
        problem = f"has a file {DESCRIPTION} that is not of an app"
        raise AppError(folder, problem, "give another folder") from None


def _is_inside(path: object) -> bool:
    """Tell whether a path from a description, which anybody may have written, stays inside."""
    if not isinstance(path, str):
        raise TypeError
    parts = Path(path).parts
    return not Path(path).is_absolute() and ".." not in parts


def _contents(name: str, model: PortableModel, runtime: Runtime) -> dict[str, bytes]:
    """Return all files by their paths in the folder; the list of them comes last."""
    own = files("cbcl.export").joinpath("static")
    page = files("cbcl.web").joinpath("static")
    english = languages()[DEFAULT_LANGUAGE]
    pictures = b"".join(example.jpeg for example in model.examples)
    large = {
        "model": _hashed("model.onnx", model.graph),
        "runtime": _hashed("runtime/ort.wasm", runtime.wasm),
        **({"examples": _hashed("examples.bin", pictures)} if pictures else {}),
    }
    small = {
        "index.html": write_words(own.joinpath("index.html").read_text("utf-8"), english).encode(),
        "css/app.css": own.joinpath("css", "app.css").read_bytes(),
        **{
            f"js/{file.name}": file.read_bytes()
            for file in sorted(own.joinpath("js").iterdir(), key=lambda file: file.name)
            if file.name.endswith(".js")
        },
        **{path: page.joinpath(*path.split("/")).read_bytes() for path in PAGE_FILES},
        **{f"words/{language}.json": _as_json(words) for language, words in languages().items()},
        "runtime/ort.js": runtime.script,
        "runtime/ort_loader.js": runtime.loader,
        "runtime/README.txt": _notice(runtime),
        "manifest.json": _manifest(name),
    }
    described = _describe(name, model, large)
    worker = {"service_worker.js": own.joinpath("service_worker.js").read_bytes()}
    every = [*small, *worker, *(path for path, _ in large.values()), "files.js", DESCRIPTION]
    small[DESCRIPTION] = _as_json({**described, "files": every})
    listed = {"version": _version(small), "small": ["./", *small]}
    return {
        **dict(large.values()),
        **worker,
        "files.js": b"const FILES = " + _as_json(listed).rstrip() + b";\n",
        **small,
    }


def _describe(
    name: str, model: PortableModel, large: Mapping[str, tuple[str, bytes]]
) -> dict[str, Any]:
    described: dict[str, Any] = {
        "cbcl": version("cbcl"),
        "name": name,
        "labels": model.labels,
        "at_least": model.at_least,
        "languages": {code: "rtl" if code in RIGHT_TO_LEFT else "ltr" for code in languages()},
        "examples": None,
        **{part: {"file": path, "bytes": len(data)} for part, (path, data) in large.items()},
    }
    if described["examples"]:
        described["examples"]["labels"] = [example.label for example in model.examples]
        described["examples"]["sizes"] = [len(example.jpeg) for example in model.examples]
    return described


def _hashed(path: str, data: bytes) -> tuple[str, bytes]:
    """Return a path with a hash, so that browsers can cache the data for good."""
    stem, _, ending = path.rpartition(".")
    return f"{stem}-{sha256(data).hexdigest()[:12]}.{ending}", data


def _version(contents: Mapping[str, bytes]) -> str:
    digest = sha256()
    for path, data in sorted(contents.items()):
        digest.update(path.encode() + b"\0" + sha256(data).digest())
    return digest.hexdigest()[:16]


def _as_json(value: object) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode()


def _manifest(name: str) -> bytes:
    icons = [
        {"src": f"icon-{side}.png", "sizes": f"{side}x{side}", "type": "image/png"}
        for side in ICON_SIDES
    ]
    return _as_json(
        {
            "name": name,
            "short_name": name,
            "start_url": "./",
            "scope": "./",
            "display": "standalone",
            "background_color": GROUND,
            "theme_color": GROUND,
            "icons": [*icons, {**icons[-1], "purpose": "maskable"}],
        }
    )


def _notice(runtime: Runtime) -> bytes:
    text = (
        f"ONNX Runtime Web {runtime.version}, from the npm package onnxruntime-web.\n"
        "Copyright (c) Microsoft Corporation. Licensed under the MIT License.\n"
        "The files are as published; their names are shorter.\n"
    )
    return text.encode()
