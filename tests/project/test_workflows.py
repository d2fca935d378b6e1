"""The workflows: they have not been run here, but they parse, and name what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
SCRIPT = (ROOT / ".ci" / "run").read_text()
LEGS = {*re.findall(r"^(\w+)\(\) [({]", SCRIPT, flags=re.MULTILINE)}
[STANDARD] = re.findall(r'"\$\{@:-([\w ]+)\}"', SCRIPT)


def jobs_of(path: Path) -> list[dict[str, Any]]:
    return [*yaml.safe_load(path.read_text())["jobs"].values()]


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs_of(path) for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_pins_actions_by_major_version_and_its_files_are_there(path: Path) -> None:
    for step in steps_of(path):
        if "uses" in step:
            assert re.fullmatch(r"[\w/-]+@(release/)?v\d+", step["uses"])
        for name in re.findall(r"\.ci/[\w.]+", step.get("run", "")):
            assert (ROOT / name).exists()


def test_every_leg_of_ci_is_run_on_pushes_or_every_night() -> None:
    pushes, nights = (ROOT / ".github" / "workflows" / f"{n}.yml" for n in ("ci", "nightly"))
    assert ".ci/run" in [step.get("run") for step in steps_of(pushes)]  # those of STANDARD
    [night] = jobs_of(nights)
    nightly = {*night["strategy"]["matrix"]["leg"]}
    assert nightly <= LEGS
    standard = {*STANDARD.split()}
    assert standard <= LEGS
    helpers = {"say", "version_of", "find_python", "use_lock", "test_in_parallel", "test_quickly"}
    helpers |= {"test_on_others", "pythons"}  # a part of every_python
    assert standard | nightly | helpers == LEGS


def test_the_tests_that_a_leg_names_are_there() -> None:
    named = re.findall(r"(?:study/)?tests/[\w/]+(?:\.py)?", SCRIPT)
    assert len(named) > 3
    assert all((ROOT / name).exists() for name in named)
