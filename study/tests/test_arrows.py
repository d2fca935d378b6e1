"""The parts of the study: which may import from which."""

from __future__ import annotations

from graphlib import TopologicalSorter

from support.imports import imports, modules_of

import cbcl_study

# A part may import from those before it and from itself: the report reads what was run, and no part
# that runs knows a page.
PARTS = [
    "streams",
    "records",
    "scores",
    "paper",
    "backbones",
    "data",
    "rivals",
    "hybrid",
    "ablations",
    "statistical",
    "learners",
    "experiments",
    "checkpoints",
    "returned",
    "runs",
    "report",
    "cli",
]
IMPORTS = imports(modules_of(cbcl_study))


def part_of(name: str) -> str:
    return name.split(".")[1]


def test_parts_import_only_from_those_before_them() -> None:
    for name, names in IMPORTS.items():
        for imported in names - {"cbcl_study"}:
            order = PARTS.index(part_of(imported)), PARTS.index(part_of(name))
            assert order[0] <= order[1], f"{name} imports {imported}"


def test_no_module_imports_itself_in_a_circle() -> None:
    TopologicalSorter(IMPORTS).prepare()  # raises CycleError, which names them
