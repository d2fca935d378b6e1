"""The house: its public names, and which room may import from which."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import cbcl

SOURCE = Path(cbcl.__file__).parent

# A module may import from those before it, but never from a room that is marked as closed to it.
ORDER = [
    "cbcl.errors",
    "cbcl.files",
    "cbcl.vision.pictures",
    "cbcl.vision.places",
    "cbcl.vision.preprocessing",
    "cbcl.vision.pickles",
    "cbcl.vision.archives",
    "cbcl.vision.checkpoints",
    "cbcl.vision.graph",
    "cbcl.vision.backbones.backbone",
    "cbcl.vision.backbones.network",
    "cbcl.vision.backbones.int8",
    "cbcl.vision.backbones.efficientnet",
    "cbcl.vision.backbones.resnet",
    "cbcl.vision.backbones.vgg",
    "cbcl.vision.backbones.keras",
    "cbcl.vision.backbones.words",
    "cbcl.vision.backbones.pytorch",
    "cbcl.vision.backbones.catalogue",
    "cbcl.vision.backbones",
    "cbcl.vision.cache",
    "cbcl.vision.extractor",
    "cbcl.method.arrays",
    "cbcl.method._fallback",
    "cbcl.method._kernel",
    "cbcl.method.kernel",
    "cbcl.method.threads",
    "cbcl.method.concepts",
    "cbcl.method.search",
    "cbcl.method.voting",
    "cbcl.method.means",
    "cbcl.method.budget",
    "cbcl.method.tuning",
    "cbcl.method.certainty",
    "cbcl.method.knowledge",
    "cbcl.method.classifier",
    "cbcl.memory.schema",
    "cbcl.memory.records",
    "cbcl.memory.opening",
    "cbcl.memory.steps",
    "cbcl.memory.store",
    "cbcl.memory.check",
    "cbcl.memory.exchange",
    "cbcl.album",
    "cbcl.lesson",
    "cbcl.answer",
    "cbcl.sight",
    "cbcl.changes",
    "cbcl.examination",
    "cbcl.advice",
    "cbcl.nodes",
    "cbcl.portable",
    "cbcl.known",
    "cbcl.recognizer",
    "cbcl.rivals.linear",
    "cbcl.rivals.hybrid",
    "cbcl.rivals.discriminant",
    "cbcl.rivals.projection",
    "cbcl",
    "cbcl.study.cifar",
    "cbcl.study.datasets",
    "cbcl.study.downloads",
    "cbcl.study.vectors",
    "cbcl.study.streams",
    "cbcl.study.scores",
    "cbcl.study.records",
    "cbcl.study.watch",
    "cbcl.study.learners",
    "cbcl.study.runs",
    "cbcl.study.paper",
    "cbcl.study.reasons",
    "cbcl.study.plan",
    "cbcl.study.cells",
    "cbcl.study.headline",
    "cbcl.study.tables",
    "cbcl.study.beyond",
    "cbcl.study.figures",
    "cbcl.study.rendering",
    "cbcl.study.report",
    "cbcl.screen",
    "cbcl.arguments",
    "cbcl.backbones",
    "cbcl.bench",
    "cbcl.web.faults",
    "cbcl.web.desks",
    "cbcl.web.seen",
    "cbcl.web.latest",
    "cbcl.web.events",
    "cbcl.web.metrics",
    "cbcl.web.limits",
    "cbcl.web.connections",
    "cbcl.web.guard",
    "cbcl.web.log",
    "cbcl.web.uploads",
    "cbcl.web.schemas",
    "cbcl.web.telling",
    "cbcl.web.classroom",
    "cbcl.web.routes",
    "cbcl.web.pages",
    "cbcl.web.app",
    "cbcl.web.serving",
    "cbcl.web.client",
    "cbcl.cli",
    "cbcl.__main__",
]
CLOSED = {"cbcl.method": "cbcl.vision", "cbcl.memory": "cbcl.vision"}  # these know no pictures


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names} & set(ORDER)
            found |= whole or {node.module}
    return {name for name in found if name.split(".")[0] == "cbcl"}


def test_modules_import_only_from_their_left() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = ["cbcl", *path.relative_to(SOURCE).with_suffix("").parts]
        name = ".".join(part for part in parts if part != "__init__")
        if name in ("cbcl.method", "cbcl.memory", "cbcl.vision", "cbcl.rivals", "cbcl.study", "cbcl.web"):
            assert not imports(path)
            continue
        assert imports(path) <= set(ORDER[: ORDER.index(name)]), name
        room = name.rpartition(".")[0]
        if room in CLOSED:
            assert not [one for one in imports(path) if one.startswith(CLOSED[room])], name


def test_public_names_are_sorted_documented_and_there() -> None:
    assert cbcl.__all__ == sorted(cbcl.__all__)
    for name in cbcl.__all__:
        assert getattr(cbcl, name).__doc__, name


def loaded_by(code: str) -> set[str]:
    """The packages beyond the standard library that are loaded in the end."""
    code += "\nimport sys; print(*{name.split('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name for name in done.stdout.split() if not name.startswith("_")}


def test_importing_it_loads_nothing_else() -> None:
    assert loaded_by("import cbcl") <= {"cbcl", *loaded_by("")}


def test_what_is_asked_for_is_loaded_then() -> None:
    heavy = {
        "onnx",
        "onnxruntime",
        "sklearn",
        "scipy",
        "torch",
        "fastapi",
        "matplotlib",
        "rich",
        "click",
        "safetensors",
    }
    assert loaded_by("import cbcl; cbcl.CBCLClassifier") & heavy == {"sklearn", "scipy"}
    assert loaded_by("import cbcl; cbcl.Recognizer, cbcl.load_backbone, cbcl.vote") & heavy == set()
    assert loaded_by("import cbcl.cli") & heavy == {"click"}


def test_every_public_name_is_offered_and_found() -> None:
    assert dir(cbcl) == cbcl.__all__
    with pytest.raises(AttributeError, match="no attribute 'cbcl'"):
        _ = cbcl.cbcl
