"""The rooms: which may import from which, and what is imported only when it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from graphlib import TopologicalSorter

from support.imports import imports, modules_of

import cbcl

# A room may import from those before it and from itself; but not from those it is to be apart from.
ROOMS = [
    "errors",
    "device",
    "files",
    "machine",
    "tasks",
    "downloads",
    "plugins",
    "method",
    "vision",
    "heads",
    "export",
    "memory",
    "recognition",
    "client",
    "watch",
    "web",
    "cli",
    "__main__",
]
APART = {
    ("vision", "method"),
    ("memory", "vision"),
    ("client", "recognition"),
    ("web", "watch"),
    ("web", "method"),
    ("web", "memory"),
    ("export", "watch"),
}


MODULES = modules_of(cbcl)
IMPORTS = imports(MODULES)


def room_of(name: str) -> str:
    return name.split(".")[1]


def test_rooms_import_only_from_rooms_to_their_left() -> None:
    for name, names in IMPORTS.items():
        for imported in names - {"cbcl"} if name != "cbcl" else ():
            rooms = room_of(name), room_of(imported)
            assert ROOMS.index(rooms[1]) <= ROOMS.index(rooms[0]), f"{name} imports {imported}"
            assert rooms not in APART, f"{name} imports {imported}"


def test_no_module_imports_itself_in_a_circle() -> None:
    graph = {name: names - {"cbcl"} for name, names in IMPORTS.items() if name != "cbcl"}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names them


def loaded_by(code: str) -> set[str]:
    """Return the packages beyond the standard library that are loaded in the end."""
    names = "{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)"
    code += f"\nimport sys; print(*{names})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if not name.startswith("_")}


def test_importing_it_loads_nothing_else() -> None:
    assert loaded_by("import cbcl") <= {"cbcl", *loaded_by("")}


def test_what_is_asked_for_is_loaded_then() -> None:
    network = {"onnx", "onnxruntime", "torch", "safetensors"}
    heavy = network | {"sklearn", "scipy", "fastapi", "matplotlib", "rich", "click"}
    assert loaded_by("import cbcl; cbcl.CBCLClassifier") & heavy == {"sklearn", "scipy"}
    assert loaded_by("import cbcl; cbcl.Recognizer, cbcl.load_backbone, cbcl.vote") & heavy == set()
    assert loaded_by("import cbcl.cli.commands") & heavy == {"click"}


def test_sql_has_no_numbered_placeholders() -> None:
    """Python 3.14 refuses `?1` with a sequence of values; 3.12 warns."""
    numbered = re.compile(r"\?\d")
    assert [name for name, path in MODULES.items() if numbered.search(path.read_text())] == []
