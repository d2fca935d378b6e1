"""One run of examples/demo.py."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"


class DemoRun(NamedTuple):
    """One run of the demo."""

    demo: dict[str, Any]  # its names
    lines: list[str]  # what it printed
    place: Path  # the folder that it made


def run_demo(folder: Path) -> DemoRun:
    demo = runpy.run_path(str(DEMO))
    printed: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.print", lambda text, end="\n": printed.append(text + end))
        demo["main"](folder)
    return DemoRun(demo, "".join(printed).splitlines(), folder / "demo")
