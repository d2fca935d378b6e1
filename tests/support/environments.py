"""Environments as `pip install` makes them, without a network.

They link to cbcl and its dependencies, as these are declared and installed here, and nothing else.
"""

from __future__ import annotations

import os
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import cbcl
import cbcl_study

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STUDY = tomllib.loads((ROOT / "study" / "pyproject.toml").read_text())["project"]
SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


class Environment:
    """A virtual environment with cbcl in it, and a home of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.bin = place / "bin"
        venv.create(place, symlinks=True)
        (self._packages,) = place.glob("lib/python*/site-packages")
        (self._packages / "cbcl").symlink_to(Path(cbcl.__file__).parent)
        about = self._packages / f"cbcl-{cbcl.__version__}.dist-info"
        about.mkdir()
        about.joinpath("METADATA").write_text(f"Name: cbcl\nVersion: {cbcl.__version__}\n")
        for name, entry in PROJECT["scripts"].items():
            module, _, function = entry.partition(":")
            text = SCRIPT.format(python=self.bin / "python", module=module, function=function)
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)
        self._install(PROJECT["dependencies"])

    def install_extra(self, extra: str) -> None:
        """Install what `pip install ".[extra]"` does."""
        self._install(PROJECT["optional-dependencies"][extra])

    def install_study(self) -> None:
        """Install what `pip install ./study` does, less its commands."""
        (self._packages / "cbcl_study").symlink_to(Path(cbcl_study.__file__).parent)
        self._install([one for one in STUDY["dependencies"] if Requirement(one).name != "cbcl"])

    def variables(self, *, activated: bool = True) -> dict[str, str]:
        """Return the variables of a new user's shell, with the environment activated or not."""
        own = [str(self.bin)] if activated else []
        home = self.place.parent / "home"
        home.mkdir(exist_ok=True)
        path = os.pathsep.join([*own, "/usr/local/bin", "/usr/bin", "/bin"])
        return {"PATH": path, "HOME": str(home), "TMPDIR": str(home), "BROWSER": "true"}

    def _install(self, requirements: list[str]) -> None:
        for required in _closure(requirements):
            self._link(required)

    def _link(self, installed: Distribution) -> None:
        """Link the packages and modules of a distribution, and what describes it."""
        for name in {file.parts[0] for file in installed.files or ()}:
            target = self._packages / name
            usable = name not in ("..", "__pycache__") and not name.endswith(".pth")
            if usable and not target.is_symlink():
                target.symlink_to(Path(str(installed.locate_file(name))))


def _closure(requirements: list[str]) -> Iterator[Distribution]:
    """Yield the distributions that requirements ask for, directly or not, each once."""
    left = [Requirement(text) for text in requirements]
    seen = set()
    while left:
        wanted = left.pop()
        key = (canonicalize_name(wanted.name), *sorted(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        installed = distribution(wanted.name)
        yield installed
        for each in map(Requirement, installed.requires or ()):
            asked = [{"extra": extra} for extra in ("", *wanted.extras)]
            if each.marker is None or any(map(each.marker.evaluate, asked)):
                left.append(each)
