"""Print the oldest supported version of every dependency, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

EXTRAS = (
    "demo",
    "heic",
    "mqtt",
    "study",
    "web",
)  # those that people use; tools for development may be the newest


def main() -> None:
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    extras = [project["optional-dependencies"][name] for name in EXTRAS]
    for requirement in [*project["dependencies"], *chain(*extras)]:
        bounds = re.fullmatch(r"([\w-]+)>=([\w.]+)(?:,<[\w.]+)?", requirement)
        assert bounds, f"{requirement} has no lower bound"
        print(f"{bounds[1]}=={bounds[2]}")


if __name__ == "__main__":
    main()
