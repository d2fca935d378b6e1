"""Heads of other packages that are broken: one sentence each, and they hide nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import run, said
from support.memory_contents import some
from support.packages import install

from cbcl import Recognizer
from cbcl.errors import PluginError
from cbcl.heads import base
from cbcl.heads.base import find_head

CODE = """
    from support.nearest_head import NEAREST
    NUMBER = 7
"""
PROBLEMS = {
    "renamed": r"cannot be loaded from leaky:X \(cannot import name 'gone' from 'cbcl'\)",
    "raising": r"cannot be loaded from raising:X \(ZeroDivisionError\)",
    "absent": r"cannot be loaded from no_such_module:X \(No module named 'no_such_module'\)",
    "number": r"is other_heads:NUMBER, which is not a Head",
    "other": r"calls itself 'nearest'",
}


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_loaded", {**base._loaded})
    points = {"absent": "no_such_module:X", "number": "other_heads:NUMBER"}
    points |= {"other": "other_heads:NEAREST", "renamed": "leaky:X", "raising": "raising:X"}
    (tmp_path / "leaky.py").write_text("from cbcl import gone")
    (tmp_path / "raising.py").write_text("1 / 0  # of /home/ann")
    install(monkeypatch, tmp_path, "other_heads", CODE, cbcl_heads=points)


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_entry_point_that_is_no_head_is_told(name: str, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=f"head '{name}' {PROBLEMS[name]}"):
        find_head(name)
    result = run("learn", tmp_path / "a.cbcl", "--label", "cup", "cup.jpg", "--head", name)
    assert result.exit_code == 1
    assert f"head '{name}' " in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert name in said("learn", "--help")


def test_a_broken_head_does_not_keep_from_undoing(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "a.cbcl", "identity", head="vote") as recognizer:
        recognizer.learn("cup", some(2))
        recognizer.learn("cup", some(3))
        assert recognizer.undo().action == "learn"
        assert recognizer.labels() == {"cup": 2}
