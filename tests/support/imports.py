"""The modules of a package, and which of them each imports, wherever in its file."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType


def modules_of(package: ModuleType) -> dict[str, Path]:
    """Return the files of a package, by the names of their modules."""
    source = Path(str(package.__file__)).parent
    return {_module_name(package.__name__, source, path): path for path in source.rglob("*.py")}


def _module_name(package: str, source: Path, path: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(part for part in (package, *parts) if part != "__init__")


def imports(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Return the modules that each of them imports."""
    return {name: _imported(path, set(modules)) for name, path in modules.items()}


def _imported(path: Path, modules: set[str]) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & modules
            names |= submodules or {node.module}
    return names & modules
