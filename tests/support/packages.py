"""Small packages of other people, with entry points, to be found on the path of imports."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, code: str, **groups: dict[str, str]
) -> None:
    """Make a module importable, and its entry points known; a group's dots are underscores."""
    (folder / f"{module}.py").write_text(dedent(code))
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = []
    for group, points in groups.items():
        dotted = group.replace("_", ".")
        lines += [f"[{dotted}]", *(f"{name} = {value}" for name, value in points.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(str(folder))
