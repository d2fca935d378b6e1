"""Records: read as written, whole after a kill and beside other writers, each run once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.processes import importing_tests

import cbcl
from cbcl.errors import DataError
from cbcl_study.records import (
    DEFAULTS,
    FIELDS,
    UNFINISHED,
    Run,
    _commit,
    append,
    key,
    read,
    safe,
    surroundings,
)
from cbcl_study.streams import Protocol

RUN = Run("digits", "identity", "cbcl", None, 2, None, 5, 100, 0)


def record(
    seed: int = 0, data: str = "digits", vectors: str = "abc", **more: Any
) -> dict[str, Any]:
    """A record that might be."""
    return {
        "run": RUN._replace(data=data, seed=seed)._asdict(),
        "inputs": {"vectors": vectors, "pictures": "def", "weights": "", "preprocessing": {}},
        "classes": ["cup", "key"],
        "increments": [1, 1],
        "tested": [5, 6],
        "right": [[4], [3, 5]],
        "confusion": "",
        "tunings": [[None, 1], [0.1 + 0.2, 3]],
        "bytes": 1000,
        "seconds": {"learning": 0.25},
        **more,
    }


def seeds(folder: Path) -> list[int]:
    return [one["run"]["seed"] for one in read(folder)]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = [
        record(0),
        record(1, "cup ☕"),
        record(2, classes=["naïve", 'a "quote"', "two\nlines", "\u2028"]),
    ]
    for one in written:
        append(tmp_path / "new" / "results", one)
    found = read(tmp_path / "new" / "results")
    assert sorted(found, key=lambda one: one["run"]["seed"]) == written
    assert Run(**found[0]["run"]) in {
        RUN._replace(seed=seed, data=written[seed]["run"]["data"]) for seed in range(3)
    }
    assert sorted(path.name for path in (tmp_path / "new" / "results").iterdir()) == [
        "study-cup.jsonl",
        "study-digits.jsonl",
    ]


def test_a_record_is_one_line(tmp_path: Path) -> None:
    for seed in range(3):
        append(tmp_path, record(seed, classes=["two\nlines"]))
    lines = (tmp_path / "study-digits.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == [
        record(seed, classes=["two\nlines"]) for seed in range(3)
    ]
    assert lines[-1] == b""


def test_where_nothing_is_recorded_there_is_nothing_to_read(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == []
    (tmp_path / "speed.jsonl").write_text("another kind of record\n")
    assert read(tmp_path) == []


def test_a_run_says_its_protocol() -> None:
    run = RUN._replace(base=3, classes=50, whole_base=True, usual_order=True)
    assert run.protocol == Protocol(
        increment=2, base=3, shots=5, classes=50, whole_base=True, usual_order=True
    )


def test_two_records_of_one_run_count_once_and_it_is_the_first(tmp_path: Path) -> None:
    for note in ("first", "second"):
        append(tmp_path, record(7, note=note))
    append(tmp_path, record(8, note="another"))
    assert [one["note"] for one in read(tmp_path)] == ["first", "another"]


@pytest.mark.parametrize("change", [{name: "other"} for name in RUN._fields], ids=RUN._fields)
def test_everything_that_a_run_is_tells_it_from_others(change: dict[str, Any]) -> None:
    inputs = record()["inputs"]
    assert key(RUN._asdict(), inputs) != key({**RUN._asdict(), **change}, inputs)


def test_other_vectors_or_pictures_make_another_run_and_the_order_of_words_does_not() -> None:
    inputs = record()["inputs"]
    assert key(RUN._asdict(), inputs) != key(RUN._asdict(), {**inputs, "vectors": "xyz"})
    assert key(RUN._asdict(), inputs) != key(RUN._asdict(), {**inputs, "pictures": "xyz"})
    assert key(RUN._asdict(), inputs) == key(
        dict(reversed(RUN._asdict().items())), dict(reversed(inputs.items()))
    )


def test_a_record_from_before_a_field_was_added_is_one_with_its_default(tmp_path: Path) -> None:
    old = record()
    del old["run"]["whole_base"], old["run"]["usual_order"]
    append(tmp_path, old)
    append(tmp_path, record(note="the same run"))
    append(tmp_path, whole := {**record(), "run": {**record()["run"], "whole_base": True}})
    assert read(tmp_path) == [record(), whole]
    before = json.dumps([old["run"], "abc", "def"], sort_keys=True)
    assert key(old["run"], old["inputs"]) == key(record()["run"], old["inputs"]) == before
    assert '"whole_base": true' in key(whole["run"], whole["inputs"])


@pytest.mark.parametrize("left", [1, 10, -2, -1])
def test_a_line_that_a_kill_left_unfinished_is_no_record_and_the_next_has_its_own(
    left: int, tmp_path: Path
) -> None:
    path = tmp_path / "study-digits.jsonl"
    append(tmp_path, record(0))
    whole = path.read_bytes()
    append(tmp_path, record(1))
    path.write_bytes(whole + path.read_bytes()[len(whole) :][:left])
    # Also where only the newline is missing: who writes it may still be at work.
    assert seeds(tmp_path) == [0]
    append(tmp_path, record(2))
    first, torn, last, end = path.read_bytes().split(b"\n")
    assert (json.loads(first), json.loads(last), end) == (record(0), record(2), b"")
    assert torn.endswith(UNFINISHED)
    assert seeds(tmp_path) == [0, 2]
    append(tmp_path, record(1))  # which can be done over
    assert seeds(tmp_path) == [0, 2, 1]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"null", b'{"run": {}}', b"<<<<<<< HEAD", b"\xff\xfe", b"[" * 100_000]
)
def test_a_broken_line_among_others_is_told_with_its_file_and_number(
    line: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "study-digits.jsonl"
    append(tmp_path, record(0))
    path.write_bytes(path.read_bytes() + line + b"\n")
    append(tmp_path, record(1))
    with pytest.raises(
        DataError, match=r"study-digits\.jsonl is broken in line 2: repair or remove that line"
    ):
        read(tmp_path)


def without(part: str, name: str | None = None) -> dict[str, Any]:
    """Return a record that lacks one of its parts, or a field of one."""
    lacking = record(0)
    del (lacking if name is None else lacking[part])[name or part]
    return lacking


@pytest.mark.parametrize(
    "lacking",
    [
        *(
            {**record(0), part: one}
            for part in ("run", "inputs")
            for one in (None, 7, "a", [], [1])
        ),
        *(without(part) for part in sorted(FIELDS)),
        *(without("run", name) for name in RUN._fields if name not in DEFAULTS),
        without("inputs", "vectors"),
    ],
)
def test_a_record_that_does_not_say_all_of_what_was_run_is_none(
    lacking: dict[str, Any], tmp_path: Path
) -> None:
    append(tmp_path, record(1, "others"))
    (tmp_path / "study-digits.jsonl").write_text(json.dumps(lacking) + "\n")
    with pytest.raises(DataError, match=r"study-digits\.jsonl is broken in line 1"):
        read(tmp_path)


def test_nothing_but_a_kill_makes_a_line_pass_for_unfinished(tmp_path: Path) -> None:
    for seed in range(2):
        append(tmp_path, record(seed, classes=["\0", "ends with \0"]))
    assert UNFINISHED not in (tmp_path / "study-digits.jsonl").read_bytes()
    assert seeds(tmp_path) == [0, 1]


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("cub200", "cub200"),
        ("folder my things", "folder-my-things"),
        ("../..", "data"),
        ("a/b\0c", "b-c"),
        ("☕", "data"),
    ],
)
def test_records_stay_in_their_folder_whatever_the_data_is_called(
    data: str, name: str, tmp_path: Path
) -> None:
    assert safe(data) == name
    append(tmp_path / "results", record(0, data))
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
    assert [path.name for path in (tmp_path / "results").iterdir()] == [f"study-{name}.jsonl"]
    assert read(tmp_path / "results") == [record(0, data)]


def test_an_empty_line_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "study-digits.jsonl"
    append(tmp_path, record(0))
    path.write_bytes(b"\n" + path.read_bytes() + b"\n\n")
    append(tmp_path, record(1))
    assert seeds(tmp_path) == [0, 1]


APPENDING = """
import sys
from pathlib import Path
from test_records import record
from cbcl_study.records import append

folder, start = Path(sys.argv[1]), int(sys.argv[2])
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
for seed in range(start, start + 200):
    append(folder, record(seed, long="x" * (seed * 137 % 30_000)))
"""


def test_two_processes_that_append_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            [sys.executable, "-c", APPENDING, str(tmp_path), str(start)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=importing_tests(),
        )
        for start in (0, 1000)
    ]
    for process in both:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in both:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in both:
        process.communicate(timeout=60)
        assert process.returncode == 0
    found = {one["run"]["seed"]: one for one in read(tmp_path)}
    assert sorted(found) == [*range(200), *range(1000, 1200)]
    assert all(one == record(seed, long="x" * (seed * 137 % 30_000)) for seed, one in found.items())


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match=r"study-digits\.jsonl cannot be written: "):
        append(tmp_path / "file", record())
    (tmp_path / "study-digits.jsonl").mkdir()
    with pytest.raises(DataError, match=r"study-digits\.jsonl cannot be written: Is a directory"):
        append(tmp_path, record())


Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Git in a new repository that holds a package, in nobody's name."""
    if shutil.which("git") is None:
        pytest.skip("git is not here")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    package = tmp_path / "repository" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (tmp_path / "repository" / ".gitignore").write_text("__pycache__/\nvenv/\n")

    def run(*words: str) -> str:
        settings = ["user.name=nobody", "user.email=nobody@example.org", "commit.gpgsign=false"]
        options = [word for setting in settings for word in ("-c", setting)]
        command = ["git", "-C", str(tmp_path / "repository"), *options, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    run("init", "--quiet")
    return run


def test_the_commit_is_that_of_the_source_and_says_whether_it_was_changed(
    git: Git, tmp_path: Path
) -> None:
    repository = tmp_path / "repository"
    package = repository / "src" / "package"
    assert _commit(package) is None  # there is none yet
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    clean = git("rev-parse", "--short", "HEAD")
    assert _commit(package) == clean
    (repository / "notes.txt").write_text("beside the source")
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"ignored")
    assert _commit(package) == clean
    (package / "more.py").write_text("")
    assert _commit(package) == f"{clean}-dirty"
    (package / "more.py").unlink()
    (package / "__init__.py").write_text("changed = True\n")
    assert _commit(package) == f"{clean}-dirty"
    git("add", ".")
    assert _commit(package) == f"{clean}-dirty"
    git("commit", "--quiet", "--message", "more")
    assert _commit(package) == git("rev-parse", "--short", "HEAD") != clean


def test_a_package_that_is_installed_beside_or_inside_a_repository_has_no_commit(
    git: Git, tmp_path: Path
) -> None:
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    for place in (tmp_path / "elsewhere", tmp_path / "repository" / "venv"):
        shutil.copytree(tmp_path / "repository" / "src" / "package", place / "package")
        assert _commit(place / "package") is None


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _commit(Path(cbcl.__file__).parent) is None


def test_a_record_says_where_it_comes_from() -> None:
    found = surroundings()
    assert set(found) == {"commit", "version", "machine", "versions"}
    assert found["version"] == cbcl.__version__
    assert {"python", "numpy", "scipy", "scikit-learn"} <= set(found["versions"])
    assert json.loads(json.dumps(found)) == found
