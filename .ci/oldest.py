"""Print the oldest supported version of every dependency, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path
from typing import Any

EXTRAS = ("demo", "heic", "mqtt", "web")  # for people; tools for development may be the newest


def read_project(folder: str) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads(Path(folder, "pyproject.toml").read_text())["project"]
    return project


def main() -> None:
    project, study = read_project("."), read_project("study")
    extras = [project["optional-dependencies"][name] for name in EXTRAS]
    for requirement in chain(project["dependencies"], *extras, study["dependencies"]):
        if requirement.startswith("cbcl"):
            continue
        bounds = re.fullmatch(r"([\w-]+)>=([\w.]+)(?:,<[\w.]+)?", requirement)
        assert bounds, f"{requirement} has no lower bound"
        print(f"{bounds[1]}=={bounds[2]}")


if __name__ == "__main__":
    main()
