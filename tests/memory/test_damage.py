"""Damaged memories: whatever bit of a file is wrong, it is told, and never another answer."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from click.testing import CliRunner
from support.memory_contents import some
from support.memory_files import execute, flip, rewrite_step

from cbcl import CBCLError, LabelError, MemoryFileError, Recognizer, load_backbone
from cbcl.cli.commands import main
from cbcl.heads.base import MAX_COUNT, StoredExample
from cbcl.memory.check import check, repair
from cbcl.memory.rows import MAX_JPEG
from cbcl.memory.store import Memory
from cbcl.method.discriminant.statistics import ClassStatistics


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A memory of three labels, one of them learned twice, without a history of pictures."""
    path = tmp_path / "things.cbcl"
    with Recognizer(path, "identity", head="vote") as recognizer:
        for seed, label in enumerate(("cup", "key", "pen", "key")):
            recognizer.learn(label, some(3, seed))
    return path


def known(path: Path) -> dict[str, bytes]:
    with Recognizer(path, "identity") as recognizer:
        return {
            label: concepts.centroids.tobytes()
            for label, concepts in recognizer.snapshot().concepts().items()
        }


def page_of(path: Path, name: str) -> tuple[int, bytes]:
    """Return where the root page of a table or index begins, and the page."""
    ((size,),) = execute(path, "PRAGMA page_size")
    ((page,),) = execute(path, "SELECT rootpage FROM sqlite_schema WHERE name = ?", name)
    start = (page - 1) * size
    return start, path.read_bytes()[start : start + size]


def flips(path: Path, name: str) -> Iterator[int]:
    """Flip every used bit of the page of an index, one after the other; yield its place."""
    start, page = page_of(path, name)
    used = [start + place for place, byte in enumerate(page) if byte or place < 16]
    for bit in flip(path, (8 * place + bit for place in used for bit in range(8))):
        yield bit // 8


def test_no_flipped_bit_of_the_index_of_labels_changes_what_is_known(path: Path) -> None:
    before = known(path)
    told = []
    for place in flips(path, "known"):
        try:
            assert known(path) == before, place
        except MemoryFileError:
            told.append(place)
            assert check(path) != []
    assert len(told) > 100


@pytest.mark.parametrize("index", ["of_class", "of_picture"])
def test_no_flipped_bit_of_the_indexes_of_examples_gives_the_photos_of_another(
    tmp_path: Path, index: str
) -> None:
    path = tmp_path / "things.cbcl"
    with Recognizer(path, LOOK) as recognizer:
        recognizer.learn_many({"cup": noise(3, 1), "key": noise(3, 2)})
    before = photos(path)
    told = []
    for place in flips(path, index):
        try:
            assert photos(path) == before, place
        except MemoryFileError:
            told.append(place)
    assert len(told) > 50


@pytest.mark.parametrize("table", ["examples", "pictures", "steps"])
def test_no_flipped_bit_of_a_table_silently_gives_other_photos_or_another_history(
    tmp_path: Path, table: str
) -> None:
    path = tmp_path / "things.cbcl"
    with Recognizer(path, LOOK, head="vote") as recognizer:
        recognizer.learn_many({"cup": noise(3, 1), "key": noise(3, 2)})
        before = [*recognizer.history()]
    shown = photos(path)
    told = []
    for place in flips(path, table):
        try:
            with Recognizer(path, LOOK) as recognizer:
                same = [*recognizer.history()] == before
            assert (same and photos(path) == shown) or check(path) != [], place
        except (MemoryFileError, LabelError):
            assert check(path) != [], place
            told.append(place)
    assert len(told) > 20


def photos(path: Path) -> dict[str, list[bytes]]:
    """Return the thumbnails of each label, read in every way that there is."""
    with Recognizer(path, LOOK) as recognizer:
        shown = {label: see_examples(recognizer, label) for label in recognizer.labels()}
        numbers = {thing.label: [*thing.shown] for thing in recognizer.snapshot().things()}
        by_number = {
            label: {recognizer.snapshot().thumbnail(number) for number in own}
            for label, own in numbers.items()
        }
    assert all(by_number[label] == {*own} for label, own in shown.items())
    return shown


def spoil_index(path: Path) -> None:
    """Let the index of labels say that "pen" is in the row of "key"."""
    start, page = page_of(path, "known")
    place = start + page.index(b"pen") + 3
    data = bytearray(path.read_bytes())
    assert data[place] == 3
    data[place] = 4
    path.write_bytes(data)


def test_two_labels_on_one_row_are_refused_and_not_exported(path: Path, tmp_path: Path) -> None:
    spoil_index(path)
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(MemoryFileError, match=r"an index .*`cbcl check --repair`"):
            recognizer.labels()
        with pytest.raises(MemoryFileError, match="repair"):
            recognizer.export(tmp_path / "out")
    assert not (tmp_path / "out.safetensors").exists()


def test_an_index_of_the_history_does_not_decide_what_is_exported(
    path: Path, tmp_path: Path
) -> None:
    """The labels are read all the same; but what is wrong is told before it is passed on."""
    start, page = page_of(path, "until")
    data = bytearray(path.read_bytes())
    data[start + page.rindex(b"\x04\x02") + 1] = 3  # step 4 ended row 3, not row 2
    path.write_bytes(data)
    assert sorted(known(path)) == ["cup", "key", "pen"]
    with Recognizer(path, "identity") as recognizer:
        with pytest.raises(MemoryFileError, match="repair"):
            recognizer.export(tmp_path / "out")
        with suppress(MemoryFileError):
            recognizer.undo()
        assert set(recognizer.labels()) == {"cup", "key", "pen"}


def test_indexes_are_rebuilt_if_nothing_else_is_damaged(path: Path) -> None:
    before = known(path)
    assert not repair(path)
    spoil_index(path)
    assert all("check --repair" in finding.advice for finding in check(path))
    assert repair(path)
    assert check(path) == []
    assert known(path) == before
    spoil_index(path)
    execute(path, "UPDATE classes SET centroids = zeroblob(length(centroids)) WHERE label = 'cup'")
    whole = path.read_bytes()
    assert not repair(path)
    assert path.read_bytes() == whole


def test_the_command_says_that_indexes_were_rebuilt(path: Path) -> None:
    spoil_index(path)
    told = CliRunner().invoke(main, ["check", str(path)])
    assert told.exit_code == 1
    assert "check --repair" in told.output
    repaired = CliRunner().invoke(main, ["check", str(path), "--repair"])
    assert repaired.exit_code == 0
    assert repaired.output == f"rebuilt the indexes of {path}.\n{path} is ok.\n"


def test_a_label_that_only_its_index_has_is_refused_and_repaired(
    path: Path, tmp_path: Path
) -> None:
    """One bit makes the end of a row 0, where there was none."""
    before = known(path)
    start, page = page_of(path, "classes")
    data = bytearray(path.read_bytes())
    header = data.rindex(b"\x13\x01\x00", start, start + page.index(b"pen"))
    data[header + 2] = 8  # of a text of 3 bytes, an integer, and NULL
    path.write_bytes(data)
    assert execute(path, "SELECT until FROM classes WHERE class = 3") == [(0,)]
    with Recognizer(path, "identity") as recognizer:
        for use in (recognizer.labels, lambda: recognizer.save_copy(tmp_path / "copy.cbcl")):
            with pytest.raises(MemoryFileError, match="repair"):
                use()
    assert any("'pen'" in finding.problem for finding in check(path))
    assert repair(path)
    assert check(path) == []
    assert known(path) == before


# A name that SQLite lets nobody give, given all the same; "evil" becomes "sqlite_evil".
RENAME = """UPDATE sqlite_schema SET name = replace(name, 'evil', 'sqlite_evil'),
    tbl_name = replace(tbl_name, 'evil', 'sqlite_evil'), sql = replace(sql, 'evil', 'sqlite_evil')
    WHERE name = 'evil'"""
HIDDEN = {
    "trigger": "CREATE TRIGGER evil AFTER INSERT ON steps BEGIN DELETE FROM classes; END",
    "view": "CREATE VIEW evil AS SELECT 1",
    "table": "CREATE TABLE evil (photo BLOB)",
    "index": "CREATE INDEX evil ON pictures (jpeg)",
}


def add_hidden(path: Path, kind: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (HIDDEN[kind], "PRAGMA writable_schema = ON", RENAME):
            connection.execute(statement)


@pytest.mark.parametrize("kind", HIDDEN)
def test_what_is_named_as_if_sqlite_had_made_it_is_not_trusted(path: Path, kind: str) -> None:
    add_hidden(path, kind)
    before = path.read_bytes()
    with Recognizer(path, "identity") as recognizer:
        for use in (recognizer.labels, lambda: recognizer.learn("fox", some(2))):
            with pytest.raises(MemoryFileError, match="cbcl did not make"):
                use()
    assert "cbcl did not make" in check(path)[0].problem
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO memory VALUES ('photo', zeroblob(9), x'00')",
        "INSERT INTO sqlite_sequence VALUES (zeroblob(9), 1)",
        "INSERT INTO sqlite_sequence VALUES ('classes', zeroblob(9))",
    ],
)
def test_rows_that_nothing_would_ever_delete_are_not_trusted(path: Path, statement: str) -> None:
    execute(path, statement)
    with Recognizer(path, "identity") as recognizer, pytest.raises(MemoryFileError):
        recognizer.labels()
    assert check(path) != []


def test_forgetting_for_good_and_copying_leave_no_picture_that_nothing_refers_to(
    path: Path, tmp_path: Path
) -> None:
    hidden = b"a photo that nobody sees"
    execute(path, "INSERT INTO pictures (jpeg, vector, checksum) VALUES (?, x'', x'')", hidden)
    execute(path, "INSERT INTO examples SELECT 99, max(picture), 0, 0 FROM pictures")
    with Recognizer(path, "identity") as recognizer:
        recognizer.save_copy(tmp_path / "copy.cbcl")
        recognizer.forget("cup", for_good=True)
    for file in (path, tmp_path / "copy.cbcl"):
        assert hidden not in file.read_bytes()


def reading_back(path: Path) -> Any:
    with Recognizer(path, "identity") as recognizer:
        return recognizer.labels(), recognizer.snapshot().settings, len(recognizer.history())


@pytest.mark.parametrize("head", ["vote", "discriminant"])
def test_counts_that_could_not_be_read_are_not_written(
    tmp_path: Path, head: Literal["vote", "discriminant"]
) -> None:
    """Two memories whose counts are possible, but not their sum; no count costs its size in RAM."""
    ours, theirs = tmp_path / "ours.cbcl", tmp_path / "theirs.cbcl"
    half = MAX_COUNT // 2
    for path, seed in ((ours, 0), (theirs, 1)):
        with Recognizer(path, "identity", head=head) as recognizer:
            recognizer.learn("cup", some(40, seed))
        write_count(path, half)
    before = reading_back(ours)
    with Recognizer(ours, "identity") as recognizer:
        tracemalloc.start()
        with pytest.raises(MemoryFileError, match=r"'cup'.*nothing was changed"):
            recognizer.adopt(theirs)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 50_000_000
        assert recognizer.recognize(some(1)[0]).ranking[0].label == "cup"
    assert reading_back(ours) == before
    assert check(ours) == []


def write_count(path: Path, count: int) -> None:
    """Let the only class of a memory be of many pictures, with the right checksum."""
    with closing(Memory(path)) as memory, memory.writing() as writing:
        ((label, stored),) = memory.load(writing.view).items()
        if isinstance(stored, ClassStatistics):
            known = stored
            before = known.summary
            assert before is not None
            summary = before._replace(n=count - (known.n - before.n))
            stored = replace(known, n=count, summary=summary)
        else:
            counts = np.full_like(stored.concepts.counts, 1)
            counts[0] = count - len(counts) + 1
            stored = stored._replace(concepts=stored.concepts._replace(counts=counts))
        writing.add_step("learn", {"pictures": {label: count}}, writing.view.settings)
        writing.replace_class(label, stored, [])


@pytest.mark.parametrize("option", [{"n_voters": MAX_COUNT}, {"max_centroids": 2**70}])
def test_settings_that_could_not_be_read_are_not_written(
    path: Path, option: dict[str, int]
) -> None:
    before = reading_back(path)
    with (
        Recognizer(path, "identity", **option) as recognizer,  # type: ignore[arg-type]
        pytest.raises(MemoryFileError, match="nothing was changed"),
    ):
        recognizer.learn("fox", some(2))
    assert reading_back(path) == before


@pytest.mark.parametrize(
    "example",
    [
        StoredExample(0, bytes(MAX_JPEG + 1), some(1)[0]),
        StoredExample(-1, b"", some(1)[0]),
        StoredExample(0, b"", some(1)[0, :5]),
        StoredExample(0, b"", np.full(8, np.nan, np.float32)),
    ],
    ids=["size", "centroid", "features", "nan"],
)
def test_examples_that_could_not_be_read_are_not_written(
    path: Path, example: StoredExample
) -> None:
    before = reading_back(path)
    with (
        closing(Memory(path)) as memory,
        pytest.raises(MemoryFileError, match="nothing was changed"),
    ):
        add_example(memory, example)
    assert reading_back(path) == before


def add_example(memory: Memory, example: StoredExample) -> None:
    with memory.writing() as writing:
        stored = memory.load(writing.view, ["cup"])["cup"]
        writing.add_step("learn", {"pictures": {"cup": 1}}, writing.view.settings)
        writing.replace_class("cup", stored, [example])


COLUMNS = {
    "memory": "name value checksum",
    "steps": "time action about radius n_voters max_centroids head strangers undone checksum",
    "classes": "label since until centroids counts spread checksum sketches statistics",
    "pictures": "jpeg vector checksum",
    "examples": "class picture centroid rank",
}
LOOK = load_backbone(
    lambda pictures: [np.asarray(picture.resize((4, 4))).ravel() for picture in pictures],
    name="pixels",
    at_least=4,
)
VALUES = ("NULL", "9223372036854775807", "'text'", "x'00ff'")


def write_anything(path: Path, statement: str) -> None:
    """Write values of types that the tables do not allow, as a few wrong bits do."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        ours = "type = 'table' AND name NOT LIKE 'sqlite%'"
        schema = connection.execute(f"SELECT sql, name FROM sqlite_schema WHERE {ours}")
        strict = schema.fetchall()
    loose = [(sql.replace(") STRICT", ")").replace("NOT NULL", ""), name) for sql, name in strict]
    for tables, change in ((loose, statement), (strict, "SELECT 1")):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            connection.executemany("UPDATE sqlite_schema SET sql = ? WHERE name = ?", tables)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(change)


def noise(count: int, seed: int = 0) -> list[Any]:
    return [*np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)]


def see_examples(recognizer: Recognizer, label: str) -> list[bytes]:
    return [one.jpeg for one in recognizer.snapshot().examples(label)]


def use_everything(path: Path, folder: Path) -> Iterator[Callable[[], object]]:
    """Yield all that can be done to a memory."""
    with Recognizer(path, LOOK) as recognizer:
        yield recognizer.labels
        yield lambda: recognizer.recognize(noise(1)[0])
        yield lambda: recognizer.snapshot().things()
        yield lambda: recognizer.snapshot().examine()
        yield lambda: [step.summary for step in recognizer.history()]
        for label in ("cup", "key"):
            yield partial(see_examples, recognizer, label)
        yield lambda: recognizer.export(folder / "out")
        yield lambda: recognizer.save_copy(folder / "copy.cbcl")
        with Recognizer(folder / "ours.cbcl", LOOK) as ours:
            yield lambda: ours.adopt(path)
        yield lambda: recognizer.learn("cup", noise(2, 9))
        yield lambda: recognizer.merge("pen", "cup")
        yield recognizer.undo
        yield recognizer.undo
        yield recognizer.undo
        yield lambda: recognizer.forget("cup", for_good=True)


@pytest.mark.parametrize(
    ("table", "head"),
    [*((table, "discriminant") for table in COLUMNS), ("classes", "vote"), ("examples", "vote")],
)
def test_values_of_wrong_types_are_told_and_nothing_else(
    tmp_path: Path, table: str, head: Literal["vote", "discriminant"]
) -> None:
    path = tmp_path / "things.cbcl"
    with Recognizer(path, LOOK, head=head) as recognizer:
        for seed, label in enumerate(("cup", "key", "pen", "key")):
            recognizer.learn(label, noise(3, seed))
    whole = path.read_bytes()
    told = 0
    for number, (column, value) in enumerate(product(COLUMNS[table].split(), VALUES)):
        path.write_bytes(whole)
        last = f"SELECT max(rowid) FROM {table}"
        write_anything(path, f"UPDATE {table} SET {column} = {value} WHERE rowid = ({last})")
        told += check(path) != []
        (tmp_path / str(number)).mkdir()
        for use in use_everything(path, tmp_path / str(number)):
            with suppress(CBCLError):
                use()
    assert told > 2


NESTED = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "about",
    [
        '{"pictures": 5}',
        '{"pictures": {"cup": "many"}}',
        '{"labels": "cup"}',
        '{"labels": [5]}',
        '{"label": ["cup"]}',
        '{"action": 7, "label": "cup"}',
        '{"strangers": 5}',
        '{"strangers": ["often"]}',
        "[1]",
        NESTED,
    ],
    ids=lambda about: about[:20],
)
def test_odd_entries_of_the_history_are_told(path: Path, tmp_path: Path, about: str) -> None:
    rewrite_step(path, about=about)
    assert "history" in check(path)[0].problem
    with Recognizer(path, "identity") as recognizer:
        for use in (recognizer.history, recognizer.undo):
            with pytest.raises(MemoryFileError, match="history"):
                use()
    with (
        Recognizer(tmp_path / "ours.cbcl", "identity") as ours,
        pytest.raises(MemoryFileError, match="history"),
    ):
        ours.adopt(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"radius": "inf"', f'"radius": 1{"0" * 400}'),
        ('"radius": "inf"', f'"radius": {NESTED}'),
        ('"n_voters": 1', f'"n_voters": 1{"0" * 400}'),
        ('"total": ', f'"total": 1{"0" * 400}, "more": '),
        ('"dimension": 8', f'"dimension": 1{"0" * 400}'),
        ('"labels": ', f'"labels": {NESTED}, "more": '),
        ('"labels": ', '"labels": 7, "more": '),
        ('"spreads": ', '"spreads": "abc", "more": '),
        ('"settings": ', '"settings": [], "more": '),
        ('"format": 1', '"format": {}'),
    ],
    ids=lambda text: text[:20],
)
def test_odd_exports_are_told(path: Path, tmp_path: Path, old: str, new: str) -> None:
    with Recognizer(path, "identity") as recognizer:
        _, words = recognizer.export(tmp_path / "out").files
    text = words.read_text()
    assert old in text
    words.write_text(text.replace(old, new, 1))
    with Recognizer(tmp_path / "new.cbcl", "identity") as recognizer:
        with pytest.raises(MemoryFileError):
            recognizer.import_(tmp_path / "out")
        assert not recognizer.path.exists()


MISPLACED = {
    "place": "UPDATE examples SET centroid = 3",
    "vector": "UPDATE pictures SET vector = x'', checksum = checksum_of(jpeg, x'') WHERE picture=1",
}


@pytest.mark.parametrize(
    ("head", "change"),
    [("discriminant", "place"), ("vote", "place"), ("vote", "vector")],
)
def test_thumbnails_that_are_none_of_their_class_are_told(
    tmp_path: Path, head: Literal["vote", "discriminant"], change: str
) -> None:
    path = tmp_path / "things.cbcl"
    with Recognizer(path, LOOK, head=head) as recognizer:
        for seed, label in enumerate(("cup", "key")):
            recognizer.learn(label, noise(3, seed))
    execute(path, MISPLACED[change])
    assert check(path) != []
    with Recognizer(path, LOOK) as recognizer:
        for use in (
            lambda: recognizer.merge("key", "cup"),
            lambda: recognizer.unlearn(1),
            lambda: recognizer.learn("cup", noise(2, 9)),
        ):
            with pytest.raises(MemoryFileError, match=r"thumbnails of '(cup|key)'"):
                use()
        assert recognizer.labels() == {"cup": 3, "key": 3}


def test_the_check_sends_nobody_to_the_check(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:9000])
    for words in (["check", str(path)], ["check", str(path), "--repair"]):
        told = CliRunner().invoke(main, words)
        assert told.exit_code == 1
        assert "restore a copy of the file" in told.output
        assert "`cbcl check`" not in told.output
