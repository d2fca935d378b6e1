"""The memory file: safe to open, whole whatever happens, and as docs/memory-format.md says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from support.memory_contents import described, some
from support.memory_files import (
    execute,
    flip,
    import_changed,
    replaced,
    rewrite,
    write_alone,
)

from cbcl import BackboneError, MemoryFileError, Recognizer
from cbcl.memory.check import check
from cbcl.memory.exchange import export, import_
from cbcl.memory.packing import checksum
from cbcl.memory.schema import APPLICATION_ID, VERSION
from cbcl.memory.store import Memory
from cbcl.memory.transaction import MAX_HISTORY, MAX_UNDO


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "things.cbcl"
    with Recognizer(path, "identity", head="vote") as recognizer:
        recognizer.learn("cup", some(3))
        recognizer.learn("key", some(3, seed=1))
    return path


def refused(path: Path) -> str:
    """Return the one sentence that opening it gives, from every side."""
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(MemoryFileError) as reading:
            recognizer.recognize(some(1)[0])
        before = path.read_bytes()
        with pytest.raises(MemoryFileError):
            recognizer.learn("pen", some(2))
        assert path.read_bytes() == before
    assert check(path) != []
    assert reading.value.subject == path
    assert reading.value.public == str(reading.value).replace(str(path), path.name)
    return str(reading.value)


def test_it_is_one_sqlite_file_that_says_what_it_is(path: Path) -> None:
    assert [file.name for file in path.parent.iterdir()] == ["things.cbcl"]
    assert execute(path, "PRAGMA application_id") == [(APPLICATION_ID,)]
    assert execute(path, "PRAGMA user_version") == [(VERSION,)]
    assert execute(path, "PRAGMA journal_mode") == [("wal",)]
    assert path.read_bytes()[68:72] == b"CBCL"


def test_the_documented_way_to_read_it_without_cbcl_works(path: Path) -> None:
    query = "SELECT label, centroids, counts FROM classes WHERE until IS NULL ORDER BY label"
    rows = execute(path, query)
    read = {label: (np.frombuffer(c, "<f4"), np.frombuffer(n, "<i8")) for label, c, n in rows}
    assert list(read) == ["cup", "key"]
    np.testing.assert_allclose(read["cup"][0], some(3).mean(axis=0), rtol=1e-5)
    assert read["cup"][1].tolist() == [3]


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        (f"PRAGMA user_version = {VERSION + 1}", "newer cbcl"),
        ("UPDATE memory SET value = x'7b7d' WHERE name = 'about'", "damaged"),
        (
            "CREATE TRIGGER evil AFTER INSERT ON steps BEGIN DELETE FROM classes; END",
            "cbcl did not make",
        ),
        ("CREATE VIEW evil AS SELECT load_extension('evil')", "cbcl did not make"),
        ("CREATE TABLE more (x)", "cbcl did not make"),
        ("DROP INDEX known", "cbcl did not make"),
    ],
)
def test_a_database_that_cbcl_did_not_write_so_is_not_touched(
    path: Path, statement: str, problem: str
) -> None:
    execute(path, statement)
    assert problem in refused(path)


def test_a_file_of_another_kind_is_not_touched(tmp_path: Path) -> None:
    execute(tmp_path / "a.db", "CREATE TABLE t (x)")
    assert "another program's database" in refused(tmp_path / "a.db")
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8\xff" + bytes(5000))
    assert "not a memory of cbcl" in refused(tmp_path / "a.jpg")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE classes SET centroids = zeroblob(length(centroids)) WHERE label = 'cup'",
        "UPDATE classes SET counts = x'ffffffffffffffff' WHERE label = 'cup'",
        "UPDATE classes SET label = 'cap' WHERE label = 'cup'",
        "UPDATE classes SET centroids = substr(centroids, 1, 8) WHERE label = 'cup'",
    ],
)
def test_a_damaged_class_is_found_told_and_can_be_forgotten(path: Path, statement: str) -> None:
    execute(path, statement)
    label = "cap" if "cap" in statement else "cup"
    (finding,) = check(path)
    assert label in finding.problem
    assert "forget" in finding.advice
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(MemoryFileError, match=f"'{label}' is damaged"):
            recognizer.recognize(some(1)[0])
        recognizer.forget(label, for_good=True)
        assert recognizer.labels() == {"key": 3}
    assert check(path) == []


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("centroids", np.full((1, 8), np.nan, "<f4")),
        ("counts", np.array([0], "<i8")),
        ("counts", np.array([3, 3], "<i8")),
    ],
)
def test_numbers_that_cannot_be_are_refused_even_with_the_right_checksum(
    path: Path, column: str, value: Any
) -> None:
    rewrite(path, "cup", **{column: value.tobytes()})
    with (
        Recognizer(path, "identity") as recognizer,
        pytest.raises(MemoryFileError, match="not written by cbcl"),
    ):
        recognizer.recognize(some(1)[0])


def test_a_file_with_random_damage_opens_or_says_so(path: Path) -> None:
    rng = np.random.default_rng(0)
    whole = path.read_bytes()
    told = 0
    for _ in range(60):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 20):
            data[place] = rng.integers(256)
        write_alone(path, data)
        try:
            with Recognizer(path, "identity") as recognizer:
                recognizer.recognize(some(1)[0])
                recognizer.history()
        except MemoryFileError:
            told += 1
            assert check(path) != []
    assert told > 10


def test_a_file_cut_off_opens_or_says_so(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(1, len(whole), 1777):
        path.write_bytes(whole[:length])
        assert check(path) != []
        with Recognizer(path, "identity") as recognizer, suppress(MemoryFileError):
            recognizer.recognize(some(1)[0])


def test_an_empty_file_is_a_new_memory(tmp_path: Path) -> None:
    (tmp_path / "new.cbcl").touch()
    with Recognizer(tmp_path / "new.cbcl", "identity") as recognizer:
        assert recognizer.labels() == {}
        for ask in (lambda: recognizer.snapshot().settings, recognizer.undo):
            with pytest.raises(MemoryFileError, match=r"new\.cbcl is empty: learn"):
                ask()
        recognizer.learn("cup", some(2))
        assert recognizer.labels() == {"cup": 2}


FULL = """
import resource, signal, sys
import numpy as np
from cbcl import Recognizer, MemoryFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # beyond the limit, writing fails as on a full disk
with Recognizer(sys.argv[1], "identity", radius=0.0) as recognizer:
    before = recognizer.labels()
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    try:
        recognizer.learn("huge", np.random.default_rng(0).normal(size=(10_000, 8)))
    except MemoryFileError as error:
        print(error)
    assert recognizer.labels() == before
    assert recognizer.recognize(np.ones(8, np.float32)).ranking
"""


def test_on_a_full_disk_nothing_is_lost(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, check=True
    )
    assert "no room" in done.stdout
    with Recognizer(path, "identity") as recognizer:
        assert recognizer.labels() == {"cup": 3, "key": 3}
        recognizer.learn("pen", some(2))
    assert check(path) == []


FULL_AFTER_FORGETTING = """
import os, resource, signal, sys
import numpy as np
from cbcl import Recognizer, MemoryFileError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
draw = np.random.default_rng(0).normal
with Recognizer(sys.argv[1], "identity", radius=0.0) as recognizer:
    recognizer.learn("large", draw(size=(10_000, 8)))
with Recognizer(sys.argv[1], "identity", radius=0.0) as recognizer:
    recognizer.learn("huge", draw(size=(3_000, 8)))  # it is in the log, and not yet in the file
    size = os.stat(sys.argv[1]).st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        recognizer.forget("cup", for_good=True)
    except MemoryFileError as error:
        print(error)
    assert "cup" not in recognizer.labels()
"""


def test_what_is_forgotten_is_told_where_the_log_cannot_be_emptied(path: Path) -> None:
    command = [sys.executable, "-c", FULL_AFTER_FORGETTING, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "has forgotten it, but" in done.stdout
    with Recognizer(path, "identity") as recognizer:
        assert set(recognizer.labels()) == {"key", "large", "huge"}
    assert check(path) == []


# A process that may not write here. Root, who may write anything, becomes another user, who need
# not be able to read this environment: all that is imported is imported before.
AS_A_USER = """
import os, sys
import numpy as np
from cbcl import MemoryFileError, Recognizer
with Recognizer(sys.argv[2], "identity") as other:
    other.recognize(np.ones(8, np.float32))
    other.learn("pen", np.ones((2, 8), np.float32))
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


@pytest.fixture
def shared(path: Path) -> Iterator[Path]:
    """A memory in a read-only folder that every user may enter."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        closed = [str(above) for above in folder.parents if not above.stat().st_mode & 0o001]
        if closed and os.geteuid() == 0:
            pytest.skip(f"no other user may enter {closed[0]}: set TMPDIR to a folder open to all")
        shutil.copy(path, folder / "shared.cbcl")
        (folder / "shared.cbcl").chmod(0o444)
        folder.chmod(0o555)
        yield folder / "shared.cbcl"
        folder.chmod(0o755)


def test_a_read_only_memory_can_be_asked_but_not_taught(path: Path, shared: Path) -> None:
    code = """
with Recognizer(sys.argv[1], "identity") as recognizer:
    print(recognizer.recognize(np.ones(8, np.float32)).ranking[0].label)
    try:
        recognizer.learn("pen", np.ones((2, 8), np.float32))
    except MemoryFileError as error:
        print(error)
"""
    command = [sys.executable, "-c", AS_A_USER + code, str(shared), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    label, *errors = done.stdout.splitlines() or [done.stderr]
    assert label in ("cup", "key")
    assert "read-only" in errors[0]
    assert check(shared) == []


def test_two_hundred_kills_lose_nothing() -> None:
    words = ["--only", "kills at random moments", "--count", "200"]
    done = subprocess.run(
        [sys.executable, "-m", "endurance", *words],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "200 kills, 0 found, 0 lost" in done.stdout
    assert re.search(r"  \d{3,} calls acknowledged", done.stdout)


SPOIL: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: data[:0],
    "other": lambda data: data.replace(b"8", b"9"),
    "list": lambda data: b"[1]" + data[:0],
}


@pytest.mark.parametrize(
    ("which", "how"),
    [
        ("out.json", "other"),  # other numbers in the arrays are numbers, too
        *product(("out.safetensors", "out.json"), ("cut", "empty", "list")),
    ],
)
def test_a_spoiled_export_is_not_imported(path: Path, tmp_path: Path, which: str, how: str) -> None:
    with closing(Memory(path)) as memory, closing(Memory(tmp_path / "copy.cbcl")) as copy:
        export(memory, tmp_path / "out.safetensors")
        file = tmp_path / which
        file.write_bytes(SPOIL[how](file.read_bytes()))
        with pytest.raises(MemoryFileError):
            import_(tmp_path / "out.safetensors", copy)
        assert not copy.path.exists()


def test_what_is_damaged_is_left_out_of_an_export_and_told(path: Path, tmp_path: Path) -> None:
    execute(path, "UPDATE classes SET centroids = zeroblob(length(centroids)) WHERE label = 'cup'")
    with closing(Memory(path)) as memory, closing(Memory(tmp_path / "copy.cbcl")) as copy:
        files, left_out = export(memory, tmp_path / "out.safetensors")
        assert left_out == ["cup"]
        import_(files[0], copy)
        assert list(copy.view().classes) == ["key"]


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (("settings", "n_voters"), 0),
        (("settings", "n_voters"), 2**70),
        (("settings", "radius"), -1.0),
        (("settings", "radius"), "nan"),
        (("settings", "max_centroids"), -5),
        (("about", "dimension"), 8.0),
        (("about", "private"), "no"),
        (("spreads", 0, "n"), -9),
        (("spreads", 0, "total"), "nan"),
        (("labels", 1), "cup"),
        (("labels", 1), "unknown"),
        (("labels",), ["cup"]),
        (("labels",), ["cup", "key", "pen"]),
    ],
)
def test_impossible_words_are_not_imported(path: Path, where: tuple[Any, ...], what: Any) -> None:
    with closing(Memory(path)) as memory:
        import_changed(memory, replaced(where, what))


@pytest.mark.parametrize(
    "change",
    [
        "n_voters = 0",
        "n_voters = -3",
        "radius = -1.0",
        "max_centroids = -5",
        "about = '[1]'",
        "action = 'x'",
        "strangers = 'often'",
        "strangers = 'never'",
        "strangers = ''",
        "strangers = 'Sometimes'",
    ],
)
def test_a_history_that_was_changed_is_found(path: Path, change: str) -> None:
    execute(path, f"UPDATE steps SET {change} WHERE step = 2")
    assert check(path) != []
    with Recognizer(path, "identity") as recognizer, pytest.raises(MemoryFileError):
        recognizer.undo()


def test_no_flipped_bit_goes_unnoticed_and_changes_an_answer(path: Path) -> None:
    def answers() -> Any:
        with Recognizer(path, "identity") as recognizer:
            history = [step[1:4] for step in recognizer.history()]
            return (
                recognizer.recognize(some(1)[0])[:5],
                recognizer.labels(),
                history,
                described(recognizer._memory),
            )

    before = answers()
    told = 0
    n_bits = 8 * path.stat().st_size
    for place in flip(path, np.random.default_rng(0).choice(n_bits, 300, replace=False).tolist()):
        findings = check(path)
        told += bool(findings)
        if not findings:
            assert answers() == before, place
    assert told > 10


def test_a_file_may_not_choose_what_else_is_opened(path: Path) -> None:
    for name in ("/dev/zero.onnx", "timm/resnet18"):
        ((old,),) = execute(path, "SELECT value FROM memory WHERE name = 'about'")
        value = json.dumps({**json.loads(old), "backbone": name}).encode()
        row = (value, checksum("about", value))
        execute(path, "UPDATE memory SET value = ?, checksum = ? WHERE name = 'about'", *row)
        with (
            Recognizer(path) as recognizer,
            pytest.raises(BackboneError, match="give that backbone"),
        ):
            recognizer.recognize(some(1)[0])


def test_settings_outlive_a_thousand_steps(tmp_path: Path) -> None:
    with Recognizer(tmp_path / "a.cbcl", "identity", radius=0.5, max_centroids=4) as recognizer:
        recognizer.learn("cup", some(3))
        before = recognizer.snapshot().settings
        for _ in range(MAX_HISTORY // 2 + 100):
            recognizer.rename("cup", "mug")
            recognizer.undo()
        assert recognizer.snapshot().settings == before
        assert len(recognizer.history()) <= MAX_HISTORY + MAX_UNDO
        assert recognizer.undo().action == "learn"


def test_a_memory_deleted_or_replaced_while_open_is_told(path: Path, tmp_path: Path) -> None:
    with Recognizer(path, "identity") as recognizer:
        assert recognizer.labels() == {"cup": 3, "key": 3}
        recognizer.learn("fox", some(2))
        path.rename(tmp_path / "moved.cbcl")
        with pytest.raises(MemoryFileError, match="moved or deleted"):
            recognizer.learn("pen", some(2))
    with Recognizer(tmp_path / "other.cbcl", "identity") as other:
        other.learn("owl", some(2))
    with Recognizer(tmp_path / "moved.cbcl", "identity") as recognizer:
        assert "fox" in recognizer.labels()
        recognizer.learn("pen", some(2))
        (tmp_path / "other.cbcl").replace(tmp_path / "moved.cbcl")
        with pytest.raises(MemoryFileError, match="was replaced"):
            recognizer.labels()


def count_descriptors(file: os.stat_result) -> int:
    """Return how often this process has a file open, whatever its name."""
    count = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            count += os.path.samestat(descriptor.stat(), file)
    return count


@pytest.mark.skipif(sys.platform != "linux", reason="it takes locks that only Linux has")
def test_a_memory_replaced_during_a_step_is_closed(path: Path, tmp_path: Path) -> None:
    """The thread that writes is told last, when others read the new file already."""
    with Recognizer(tmp_path / "other.cbcl", "identity") as other:
        other.learn("owl", some(2))
    old, memory = path.stat(), Memory(path)
    assert [*memory.view().classes] == ["cup", "key"]
    inside, replaced = Event(), Event()

    def write() -> None:
        with suppress(KeyError), memory.writing():
            inside.set()
            replaced.wait()
            raise KeyError  # and nothing is written

    with closing(memory):
        thread = Thread(target=write)
        thread.start()
        inside.wait()
        (tmp_path / "other.cbcl").replace(path)
        with pytest.raises(MemoryFileError, match="was replaced"):
            memory.view()
        assert [*memory.view().classes] == ["owl"]
        replaced.set()
        thread.join()
        assert count_descriptors(old) > 0
        with pytest.raises(MemoryFileError, match="was replaced"), memory.writing():
            pass
        assert count_descriptors(old) == 0
        assert [*memory.view().classes] == ["owl"]
        with memory.writing() as writing:
            writing.add_step("forget", {"label": "owl"}, writing.view.settings)
            writing.retire_class("owl")
    assert check(path) == []


def test_a_memory_moved_away_while_open_is_whole_and_closing_never_fails(
    path: Path, tmp_path: Path
) -> None:
    recognizer = Recognizer(path, "identity")
    recognizer.learn("fox", some(2))
    path.rename(tmp_path / "moved.cbcl")
    recognizer.close()
    with Recognizer(tmp_path / "moved.cbcl", "identity") as moved:
        assert moved.labels() == {"cup": 3, "fox": 2, "key": 3}
        (tmp_path / "moved.cbcl").rename(tmp_path / "again.cbcl")
        (tmp_path / "moved.cbcl").mkdir()
    assert check(tmp_path / "again.cbcl") == []


def test_the_working_folder_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with Recognizer("a.cbcl", "identity") as recognizer:
        recognizer.learn("cup", some(2))
        monkeypatch.chdir(tmp_path / "other")
        recognizer.learn("key", some(2, seed=1))
        assert recognizer.labels() == {"cup": 2, "key": 2}
    assert not (tmp_path / "other" / "a.cbcl").exists()


def test_a_child_process_loses_nothing(path: Path) -> None:
    code = """
import os, sys
import numpy as np
from cbcl import Recognizer
recognizer = Recognizer(sys.argv[1], "identity")
recognizer.learn("parent", np.ones((2, 8)))
recognizer.labels()
turn, done = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    recognizer.learn("child", np.ones((2, 8)))
    os.write(done[1], b".")
    os.read(turn[0], 1)
    recognizer.learn("again", np.ones((2, 8)))
    os.write(done[1], b".")
    os.read(turn[0], 1)  # and is killed
os.read(done[0], 1)
recognizer.close()
with Recognizer(sys.argv[1], "identity") as other:
    other.learn("other", np.ones((2, 8)))
os.write(turn[1], b".")
os.read(done[0], 1)
os.kill(child, 9)
os.waitpid(child, 0)
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    with Recognizer(path, "identity") as recognizer:
        assert set(recognizer.labels()) == {"cup", "key", "parent", "child", "other", "again"}
    assert check(path) == []


def test_a_memory_that_was_read_only_for_a_while_can_be_taught_again(
    path: Path, shared: Path
) -> None:
    code = """
import pathlib
memory = pathlib.Path(sys.argv[1]).with_name("own.cbcl")
with Recognizer(memory, "identity") as recognizer:
    recognizer.learn("cup", np.ones((2, 8), np.float32))
memory.chmod(0o444)
with Recognizer(memory, "identity") as recognizer:  # which leaves a log that is read-only, too
    print(list(recognizer.labels()))
memory.chmod(0o644)
with Recognizer(memory, "identity") as recognizer:
    recognizer.learn("pen", np.zeros((2, 8), np.float32))
    print(list(recognizer.labels()))
"""
    shared.parent.chmod(0o777)
    command = [sys.executable, "-c", AS_A_USER + code, str(shared), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["['cup']", "['cup', 'pen']"], done.stderr


def test_what_another_user_learns_is_seen_from_a_read_only_place(path: Path, shared: Path) -> None:
    """Where not even locks can be written, the file is read again when it has changed."""
    code = """
recognizer = Recognizer(sys.argv[1], "identity")
print(list(recognizer.labels()), flush=True)
input()
print(list(recognizer.labels()), flush=True)
"""
    command = [sys.executable, "-c", AS_A_USER + code, str(shared), str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdin is not None
        assert reader.stdout.readline() == "['cup', 'key']\n"
        shared.parent.chmod(0o755)
        shared.chmod(0o644)
        with Recognizer(shared, "identity") as recognizer:
            recognizer.learn("pen", some(2))
        shared.parent.chmod(0o555)
        reader.stdin.write("\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "['cup', 'key', 'pen']\n"
        reader.stdin.close()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "is a folder"),
        ("no/a.cbcl", "missing"),
        ("pipe", "is not a file that can be a memory"),
        ("circle", "cannot be opened"),
        ("x" * 300, "cannot be opened"),
    ],
)
def test_what_can_be_no_memory_is_told(tmp_path: Path, name: str, problem: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    recognizer = Recognizer(tmp_path / name, "identity")
    with closing(recognizer), pytest.raises(MemoryFileError, match=problem):
        recognizer.learn("cup", some(2))
