"""docs/architecture.md names every module, and nothing that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import cbcl

ROOT = Path(__file__).parents[2]
SOURCE = Path(cbcl.__file__).parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROOMS = next(part for part in PAGE.split("\n## ") if part.startswith("The rooms\n"))


def paths_in(text: str) -> set[str]:
    """Return the files (`voting.py`) and folders (`weights/`) that a text names in backquotes."""
    return set(re.findall(r"`([\w./-]+(?:\.(?:py|md|c)|/))`", text))


def named_modules() -> set[str]:
    """Return what the list of rooms names, relative to src/cbcl."""
    root, *rooms = ROOMS.split("\n### ")
    named = paths_in(root)
    for room in rooms:
        folder = room.split(":")[0].split("\n")[0]  # "method/", or a file: "client.py"
        prefix = folder if folder.endswith("/") else ""
        named |= {prefix, *(prefix + path for path in paths_in(room))}
    return named - {""}


def test_every_module_is_named_or_is_in_a_folder_that_is() -> None:
    named = named_modules()
    rooms = {path for path in named if path.endswith("/") and path.count("/") == 1}
    groups = tuple(path for path in named - rooms if path.endswith("/"))
    for path in SOURCE.rglob("*.py"):
        module = path.relative_to(SOURCE).as_posix()
        is_named = module in named or module.startswith(groups)
        assert is_named or module.removesuffix("__init__.py") in rooms, f"{module}: add a line"


def test_everything_named_exists() -> None:
    missing = {path for path in named_modules() if not (SOURCE / path).exists()}
    elsewhere = paths_in(PAGE) - paths_in(ROOMS)
    missing |= {
        path for path in elsewhere if not ((ROOT / path).exists() or (SOURCE / path).exists())
    }
    assert missing == set()
