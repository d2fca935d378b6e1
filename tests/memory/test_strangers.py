"""Format 5: how often strangers are expected. A file of format 4, and values that nobody wrote."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.memory_files import execute, flip, import_changed, replaced, rewrite_step

from cbcl import MemoryFileError, Recognizer, load_backbone
from cbcl.heads.base import Settings
from cbcl.memory.check import check
from cbcl.memory.exchange import export, import_
from cbcl.memory.packing import step_checksum
from cbcl.memory.schema import VERSION
from cbcl.memory.state import STEP_COLUMNS
from cbcl.memory.store import Memory

STORED = Path(__file__).parent / "stored" / "format-4.cbcl"  # written at commit 4038319
THEN: dict[str, Any] = json.loads(STORED.with_suffix(".json").read_text())
QUERIES = [np.array(row, dtype=np.float32) for row in THEN["queries"]]
VECTORS = load_backbone(
    lambda vectors: [np.asarray(one, np.float32) for one in vectors], name="vectors"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copy(STORED, tmp_path / "old.cbcl"))


@pytest.fixture
def path(old: Path) -> Path:
    """The same memory in format 5, with two settings in its history."""
    with Recognizer(old, VECTORS) as recognizer:
        recognizer.expect_strangers("rarely")
        recognizer.expect_strangers("often")
    return old


def answers(recognizer: Recognizer) -> list[tuple[str | None, float]]:
    return [(one.label, one.confidence) for one in recognizer.recognize_many(QUERIES)]


def test_a_memory_of_format_four_expects_strangers_sometimes_and_is_renewed_by_a_step(
    old: Path,
) -> None:
    before = old.read_bytes()
    checksums = execute(old, "SELECT checksum FROM steps ORDER BY step")
    assert execute(old, "PRAGMA user_version") == [(4,)]
    assert check(old) == []
    with Recognizer(old, VECTORS) as recognizer:
        assert recognizer.snapshot().settings.strangers == "sometimes"
        assert recognizer.labels() == THEN["examples"]
        assert [[one.action, one.summary] for one in recognizer.history()] == THEN["history"]
        told = answers(recognizer)
        for answer, then in zip(recognizer.recognize_many(QUERIES), THEN["rankings"], strict=True):
            now = {guess.label: guess.distance for guess in answer.ranking}
            assert now == pytest.approx(dict(then), rel=1e-3)
        assert [label for label, _ in told] == THEN["labels"]
    assert old.read_bytes() == before
    with Recognizer(old, VECTORS) as recognizer:
        recognizer.rename("renamed", "thing 3")
        recognizer.undo()
        assert answers(recognizer) == told
        recognizer.expect_strangers("often")
        recognizer.undo()
        assert answers(recognizer) == told
    assert execute(old, "PRAGMA user_version") == [(VERSION,)]
    assert execute(old, "SELECT checksum FROM steps ORDER BY step")[: len(checksums)] == checksums
    assert check(old) == []


def test_steps_of_format_four_can_be_undone_after_the_migration(path: Path) -> None:
    with Recognizer(path, VECTORS) as recognizer:
        undone = [recognizer.undo() for _ in range(3)]
        assert [step.summary for step in undone[:2]] == ["often", "rarely"]
        assert undone[2].action == "rename"
        assert recognizer.snapshot().settings.strangers == "sometimes"
        assert "thing 3" in recognizer.labels()
    assert check(path) == []


def test_the_checksum_of_the_usual_setting_is_that_of_before_there_was_any() -> None:
    words = ("2026-01-01", "learn", "{}")
    usual, often = (
        step_checksum(*words, Settings(head="discriminant", strangers=one))
        for one in ("sometimes", "often")
    )
    with closing(sqlite3.connect(f"file:{STORED}?immutable=1", uri=True)) as connection:
        columns = STEP_COLUMNS.replace("strangers, ", "")
        rows = connection.execute(f"SELECT {columns} FROM steps").fetchall()
    for time, action, about, radius, n_voters, _, head, expected in rows:
        assert (
            step_checksum(time, action, about, Settings(radius, n_voters, None, head)) == expected
        )
    assert usual != often


@pytest.mark.parametrize("value", ["never", "", "Often", "often ", "o" * 100_000])
def test_a_setting_that_is_none_is_refused_even_with_the_right_checksum(
    path: Path, tmp_path: Path, value: str
) -> None:
    rewrite_step(path, strangers=value)
    assert any("settings" in finding.problem for finding in check(path))
    with Recognizer(path, VECTORS) as recognizer:
        for use in (recognizer.labels, recognizer.snapshot, lambda: answers(recognizer)):
            with pytest.raises(MemoryFileError, match="settings"):
                use()
    with (
        Recognizer(tmp_path / "ours.cbcl", VECTORS) as ours,
        pytest.raises(MemoryFileError),
    ):
        ours.adopt(path)


def add_step(memory: Memory, settings: Settings) -> None:
    with memory.writing() as writing:
        writing.add_step("strangers", {"strangers": settings.strangers}, settings)


def test_a_setting_that_could_not_be_read_is_not_written(path: Path) -> None:
    before = path.read_bytes()
    with closing(Memory(path)) as memory:
        never = memory.view().settings._replace(strangers="never")
        with pytest.raises(MemoryFileError, match="nothing was changed"):
            add_step(memory, never)
        assert memory.view().settings.strangers == "often"
    assert path.read_bytes() == before


def test_an_export_has_it_and_a_foreign_one_is_checked(path: Path, tmp_path: Path) -> None:
    with closing(Memory(path)) as memory:
        several: tuple[object, ...] = ("never", "", None, 1, ["often"], {})
        for number, odd in enumerate(several):
            import_changed(memory, replaced(("settings", "strangers"), odd), f"odd {number}")
        files, _ = export(memory, tmp_path / "out")
    words = json.loads(files[1].read_text())
    assert words["settings"]["strangers"] == "often"
    del words["settings"]["strangers"]
    files[1].write_text(json.dumps(words))
    with closing(Memory(tmp_path / "copy.cbcl")) as copy:
        import_(files[0], copy)
        assert copy.view().settings.strangers == "sometimes"


def test_no_flipped_bit_of_the_setting_goes_unnoticed(path: Path) -> None:
    places = [found.start() for found in re.finditer(b"often", path.read_bytes())]
    assert places
    bits = [8 * place + bit for place in places for bit in range(0, 40, 3)]
    for bit in flip(path, bits):
        assert check(path) != [], bit
