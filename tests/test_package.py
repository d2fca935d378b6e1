"""The house: its public names, and which room may import from which."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import cbcl

SOURCE = Path(cbcl.__file__).parent

# A module may import from those before it.
ORDER = [
    "cbcl.method.arrays",
    "cbcl.method._fallback",
    "cbcl.method._kernel",
    "cbcl.method.kernel",
    "cbcl.method.threads",
    "cbcl.method.concepts",
    "cbcl.method.search",
    "cbcl.method.voting",
    "cbcl.method.budget",
    "cbcl.method.tuning",
    "cbcl.method.classifier",
    "cbcl",
]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "cbcl.method":
            found |= {f"cbcl.method.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {name for name in found if name.split(".")[0] == "cbcl"}


def test_modules_import_only_from_their_left() -> None:
    for path in SOURCE.rglob("*.py"):
        parts = ["cbcl", *path.relative_to(SOURCE).with_suffix("").parts]
        name = ".".join(part for part in parts if part != "__init__")
        if name == "cbcl.method":
            assert not imports(path)
            continue
        assert imports(path) <= set(ORDER[: ORDER.index(name)]), name


def test_public_names_are_sorted_documented_and_there() -> None:
    assert cbcl.__all__ == sorted(cbcl.__all__)
    for name in cbcl.__all__:
        assert getattr(cbcl, name).__doc__, name


def test_importing_it_loads_numpy_and_scikit_learn_only() -> None:
    code = """
import sys
import numpy, sklearn.cluster, sklearn.utils.multiclass, threadpoolctl
before = set(sys.modules)
import cbcl
print(*({name.split(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["cbcl"]
