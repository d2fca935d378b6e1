"""README as a stranger meets it: in a clean environment, its commands and examples as printed."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from support.environments import PROJECT, ROOT, Environment

README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


class Stranger:
    """Somebody with a clone of the repository, who types what README prints.

    `make` and `pip` find all that they would install in place.
    """

    def __init__(self, home: Path) -> None:
        self.clone = home / "clone"
        self.clone.mkdir()
        for path in ROOT.iterdir():
            if path.name not in (".venv", ".git"):
                (self.clone / path.name).symlink_to(path)
        self.environment = Environment(self.clone / ".venv")
        self.before = f"cd {self.clone}"  # what was typed and holds for what comes
        self.demo = ""

    def type(self, command: str) -> None:
        if command.startswith("make test"):  # this is it
            assert "pytest" in self.run("make --dry-run test")
        elif command.startswith("make demo"):
            self.environment.install_extra("demo")
            (self.clone / ".venv" / "demo").touch()
            printed = self.run(command)
            (self.demo,) = re.findall("^photos and memory: (.+)$", printed, re.MULTILINE)
        elif command.startswith("pip install"):
            (extra,) = re.findall(r'^pip install "\.\[(\w+)\]"$', command)
            self.environment.install_extra(extra)
        elif command.startswith("cbcl teach"):
            self.teach(command)
        elif command.startswith("cd "):
            self.before += f" && cd {self.demo}"
        elif command.startswith(". "):
            self.before += f" && {command.partition('#')[0]}"
        else:
            self.run(command)

    def run(self, command: str) -> str:
        done = subprocess.run(
            ["/bin/bash", "-c", f"{self.before} && {command}"],
            env=self.environment.variables(activated=False),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def teach(self, command: str) -> None:
        """Start the server, read that it is there, and press Ctrl-C."""
        with subprocess.Popen(
            ["/bin/bash", "-c", f"{self.before} && exec {command}"],
            env={**self.environment.variables(activated=False), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            taken = "port 8737 is taken"
            line = next((one for one in server.stdout if not one.startswith(taken)), "")
            server.send_signal(signal.SIGINT)
            rest, errors = server.communicate()
        assert line.startswith("teach shop.cbcl at http://127.0.0.1:"), f"{line}{rest}{errors}"


def test_every_command_of_the_readme_works_as_printed_after_make_demo(tmp_path: Path) -> None:
    stranger = Stranger(tmp_path)
    commands = [
        command
        for block in re.findall("```console\n(.*?)```", README, re.DOTALL)
        for command in re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    ]
    assert commands[0].startswith("make demo")
    for command in commands:
        stranger.type(command)
    assert stranger.demo


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment(tmp_path_factory.mktemp("stranger") / "environment")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if ">>> " in page.read_text()], ids=lambda page: page.name
)
def test_the_examples_of_a_page_need_nothing_but_what_pip_installs(
    page: Path, installed: Environment, tmp_path: Path
) -> None:
    if page.name == "bench.md":
        installed = Environment(tmp_path / "environment")
        installed.install_study()
    done = subprocess.run(
        [installed.bin / "python", "-m", "doctest", page],
        cwd=tmp_path,
        env=installed.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_module_that_is_not_declared_cannot_be_imported_there(installed: Environment) -> None:
    assert not any(line.startswith("scikit-image") for line in PROJECT["dependencies"])
    for module, code in (("cbcl", 0), ("sklearn", 0), ("skimage", 1), ("pytest", 1)):
        words = [str(installed.bin / "python"), "-c", f"import {module}"]
        done = subprocess.run(words, env=installed.variables(), capture_output=True, check=False)
        assert done.returncode == code, module
