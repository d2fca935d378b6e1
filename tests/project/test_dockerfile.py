"""The Dockerfile fits the project: there is no Docker here to build it with."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from cbcl.cli.commands import main

ROOT = Path(__file__).parents[2]
TEXT = re.sub(r"\s*\\\n\s*", " ", (ROOT / "Dockerfile").read_text())
STEPS: list[tuple[str, str]] = re.findall(r"^([A-Z]+) (.+)$", TEXT, flags=re.MULTILINE)


def step(name: str) -> str:
    return [words for instruction, words in STEPS if instruction == name][-1]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied: set[str] = set()
    for instruction, words in STEPS:
        if instruction == "COPY" and not words.startswith("--from"):
            copied |= {*words.split()[:-1]}
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)


def test_the_extras_it_installs_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [extras] = re.findall(r"\.whl\)\[([\w,]+)\]", TEXT)
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}
    assert step("ENTRYPOINT") == json.dumps([*project["scripts"]])


def test_it_does_not_run_as_root_and_its_command_is_one() -> None:
    assert int(step("USER")) > 0
    assert f"--uid {step('USER')} " in step("RUN")
    name, *arguments = json.loads(step("CMD"))
    whole = main.make_context("cbcl", [name], resilient_parsing=True)
    context = main.commands[name].make_context(name, arguments, whole)
    assert str(context.params["port"]) == step("EXPOSE")
    assert context.params["host"] == "0.0.0.0"
