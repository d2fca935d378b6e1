"""The research log says what the records say; batch learning was solved wherever it is recorded."""

from __future__ import annotations

import runpy
from pathlib import Path

from cbcl_study.learners import logistic_penalty
from cbcl_study.records import read
from cbcl_study.rivals.logistic import TOLERANCE

ROOT = Path(__file__).parents[2]


def test_the_penalties_are_those_of_the_records() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_research.py"))["penalties"]
    assert made(read(ROOT / "study" / "results")) in (ROOT / "docs" / "research.md").read_text()


def test_every_recorded_logistic_regression_was_solved() -> None:
    runs = [
        run for run in read(ROOT / "study" / "results") if logistic_penalty(run["run"]["learner"])
    ]
    assert runs
    for run in runs:
        ended = run["gradients"] if "gradients" in run else [run["gradient"]]
        assert max(ended) <= TOLERANCE, run["run"]
