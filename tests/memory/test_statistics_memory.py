"""Memories of the discriminant: statistics and negatives in the file, bit for bit, or told."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save
from support.memory_contents import described
from support.memory_files import execute, flip, import_changed, replaced, rewrite

from cbcl import MemoryFileError
from cbcl.heads.base import Settings, StoredExample
from cbcl.heads.centroids.changes import CentroidClass
from cbcl.heads.centroids.head import VOTE
from cbcl.heads.discriminant.formats import HEADER
from cbcl.heads.discriminant.head import DISCRIMINANT
from cbcl.memory.check import check
from cbcl.memory.exchange import export, import_
from cbcl.memory.packing import pack_class, unpack_class
from cbcl.memory.rows import MemoryInfo
from cbcl.memory.schema import VERSION
from cbcl.memory.store import Memory
from cbcl.memory.transaction import Transaction
from cbcl.method.centroids.concepts import Concepts
from cbcl.method.centroids.confidence import Spread
from cbcl.method.discriminant.coding import CodedRows, encode
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.discriminant.statistics import ClassStatistics, learn_class, sketch

STORED = Path(__file__).parents[1] / "recognition" / "stored"
SETTINGS = Settings(head="discriminant")
D = 96  # of most memories here


def directions(n: int, d: int = D, seed: int = 0) -> np.ndarray[Any, Any]:
    """Return n vectors like those of a network: some features strong, none negative."""
    rng = np.random.default_rng(seed)
    return as_directions((rng.gamma(0.5, size=d) * rng.gamma(1.0, size=(n, d))).astype(np.float32))


def learned(n: int, d: int = D, seed: int = 0) -> ClassStatistics:
    return learn_class(directions(n, d, seed))[0]


def about(d: int = D) -> MemoryInfo:
    return MemoryInfo("some", "0" * 32, d, private=False, made="test")


def contents(known: ClassStatistics) -> list[object]:
    """Return every bit, and the type of every number."""
    arrays = [known.views.codes, known.views.scales, known.sketches]
    counts = [known.n]
    if known.summary is not None:
        n, *rows, rest = known.summary
        counts.append(n)
        arrays += [array for coded in rows for array in (coded.codes, coded.scales)] + [rest]
    return [*counts, *((array.dtype, array.shape, array.tobytes()) for array in arrays)]


def teach(writing: Transaction, label: str, stored: ClassStatistics, examples: int = 0) -> None:
    jpegs = [
        StoredExample(ordinal, f"{label} {ordinal}".encode(), np.empty(0, np.float32))
        for ordinal in range(examples)
    ]
    writing.add_step("learn", {"pictures": {label: stored.n}}, SETTINGS)
    writing.replace_class(label, stored, jpegs)


CLASSES = {"cup": learned(30), "key": learned(3, seed=1), "": learned(2, seed=2)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "things.cbcl"
    with closing(Memory(path)) as memory:
        for label, stored in CLASSES.items():
            with memory.writing(about()) as writing:
                teach(writing, label, stored, examples=2)
    return path


def everything(memory: Memory) -> dict[str, list[object]]:
    """Return all that is known, every bit of it; the negatives by the empty label."""
    view = memory.view()
    return {label: contents(stored) for label, stored in memory.load(view, view.rows).items()}


EVERYTHING = {label: contents(stored) for label, stored in CLASSES.items()}


@pytest.mark.parametrize("d", [1, 3, 63, 64, 65, 1280])
@pytest.mark.parametrize("n", [1, 2, 24, 25, 32, 33, 600])
def test_what_is_read_is_what_was_written_bit_for_bit(n: int, d: int) -> None:
    known = learned(n, d)
    row = pack_class("cup", known, DISCRIMINANT)
    read = unpack_class(row, "cup", DISCRIMINANT, about(d), Path("a.cbcl"))
    assert isinstance(read, ClassStatistics)
    assert contents(read) == contents(known)
    assert not read.views.codes.flags.writeable


@pytest.mark.parametrize("d", [65, 1280])
def test_the_documented_bytes_are_the_statistics(d: int) -> None:
    known = learned(600, d)
    *_, blob, _ = pack_class("cup", known, DISCRIMINANT)
    assert blob is not None
    assert known.summary is not None
    assert blob[0] == 1
    assert np.frombuffer(blob, "<i8", 2, offset=1).tolist() == [600, 600 - 8]
    assert np.frombuffer(blob, "<u2", 3, offset=17).tolist() == [8, 8, 12]
    start = 23

    def read(kind: str, n: int, numbers: int) -> Any:
        nonlocal start
        array = np.frombuffer(blob, kind, n * numbers, offset=start).reshape(n, numbers)
        start += array.nbytes
        return array.astype(np.float32)

    def scaled(kind: str, n: int) -> Any:
        return read(kind, n, d) * read("<f4", n, 1)

    assert (scaled("i1", 8) == known.views.values).all()
    assert (scaled("<i2", 1) == known.summary.mean.values).all()
    assert (scaled("i1", 8) == known.summary.fine.values).all()
    packed = read("u1", 12, (d + 1) // 2).astype(np.uint8)
    nibbles = np.stack([packed & 15, packed >> 4], axis=2).reshape(12, -1)[:, :d].astype(np.float32)
    coarse = np.where(nibbles > 7, nibbles - 16, nibbles) * read("<f4", 12, 1)
    assert (coarse == known.summary.coarse.values).all()
    assert (read("<f2", 1, d)[0] == known.summary.rest).all()
    assert start == len(blob)


def test_learning_goes_on_after_reading_as_if_nothing_had_been_written(path: Path) -> None:
    more = directions(40, seed=3)
    with closing(Memory(path)) as memory:
        read = memory.load(memory.view(), ["cup"])["cup"]
    assert isinstance(read, ClassStatistics)
    assert contents(learn_class(more, read)[0]) == contents(learn_class(more, CLASSES["cup"])[0])


def test_negatives_are_no_class_and_kept_like_one(path: Path) -> None:
    with closing(Memory(path)) as memory:
        view = memory.view()
        assert [*view.classes] == [*memory.load(view)] == ["cup", "key"]
        assert view.negatives == view.rows[""] == 3
        assert everything(memory) == EVERYTHING
        thumbnails = memory.thumbnails(view, "")
        assert [(one.jpeg, one.vector.shape) for one in thumbnails] == [
            (b" 0", (0,)),
            (b" 1", (0,)),
        ]
        numbers = [number for number, _ in memory.places(view, "")]
        assert memory.example(numbers[1])[0] == ""
        assert memory.nearest(view, [("", 1)], 3) == {("", 1): numbers[1:]}
        first = memory.thumbnails(view, "cup")[0].number
        assert memory.nearest(view, [("cup", 0)], 3) == {("cup", 0): [first]}
        summaries = memory.summarize_examples(view, 3)
        assert {label: summary.kept for label, summary in summaries.items()} == dict.fromkeys(
            CLASSES, 2
        )
        assert summaries[""].shown == numbers
        assert [step.summary for step in memory.history()] == [
            "none of these (2)",
            "key (3)",
            "cup (30)",
        ]
    assert check(path) == []


def test_a_memory_without_negatives_has_none(tmp_path: Path) -> None:
    with closing(Memory(tmp_path / "a.cbcl")) as memory:
        with memory.writing(about()) as writing:
            teach(writing, "cup", CLASSES["cup"])
        view = memory.view()
        assert view.negatives is None
        assert [*memory.summarize_examples(view, 3)] == ["cup"]
        with pytest.raises(KeyError):
            memory.thumbnails(view, "")


def test_a_step_on_negatives_is_undone_exactly(path: Path) -> None:
    with closing(Memory(path)) as memory:
        with memory.writing() as writing:
            writing.add_step("forget", {"label": ""}, SETTINGS)
            writing.retire_class("")
        assert memory.history()[0].summary == "none of these"
        assert "" not in everything(memory)
        with memory.writing() as writing:
            writing.undo()
        assert memory.history()[0].summary == "forget none of these"
        assert everything(memory) == EVERYTHING
        with memory.writing() as writing:
            teach(writing, "", learned(30, seed=2))
        assert everything(memory)[""] == contents(learned(30, seed=2))
        for rest in (["cup", "key", ""], ["cup", "key"], ["cup"]):
            with memory.writing() as writing:
                writing.undo()
            assert everything(memory) == {label: EVERYTHING[label] for label in rest}
    assert check(path) == []


def test_forgetting_for_good_leaves_nothing_of_the_statistics(path: Path) -> None:
    gone = [CLASSES[label].views.codes.tobytes() for label in ("", "key")]
    assert all(codes in path.read_bytes() for codes in gone)
    with closing(Memory(path)) as memory:
        for label in ("", "key"):
            with memory.writing() as writing:
                writing.add_step("forget", {"label": label}, SETTINGS)
                writing.retire_class(label)
                writing.erase_history()
        memory.checkpoint()
        assert everything(memory) == {"cup": EVERYTHING["cup"]}
        assert {step.summary for step in memory.history()} == {""}
    assert not any(codes in path.read_bytes() for codes in gone)
    assert check(path) == []


def sketches(n: int, seed: int) -> list[int]:
    return [int(own) for own in sketch(encode(directions(n, seed=seed)))]


def test_what_was_taught_is_found_by_its_sketch(path: Path) -> None:
    cups, keys, negatives = sketches(30, 0), sketches(3, 1), sketches(2, 2)
    with closing(Memory(path)) as memory:
        view = memory.view()
        wanted = [*cups[-2:], *keys, *negatives, *sketches(5, 9)]
        expected = dict.fromkeys(cups[-2:], "cup")
        expected |= dict.fromkeys(keys, "key") | dict.fromkeys(negatives, "")
        assert memory.find_taught(view, wanted) == expected
        assert memory.find_taught(view, np.array(wanted, np.uint64)) == expected
        assert memory.find_taught(view, []) == {}
        with memory.writing() as writing:
            writing.add_step("merge", {"label": "key", "into": "cup"}, SETTINGS)
            writing.retire_class("key")
            writing.retire_class("")
            teach(writing, "owl", CLASSES["cup"])
        changed = memory.find_taught(memory.view(), wanted)
        assert changed == dict.fromkeys(cups[-2:], "cup")
        memory.load(memory.view())
        assert memory.find_taught(memory.view(), wanted) == changed


def test_what_was_taught_is_found_without_reading_the_statistics(path: Path) -> None:
    execute(path, "UPDATE classes SET statistics = x'' WHERE label = 'cup'")
    with closing(Memory(path)) as memory:
        assert memory.find_taught(memory.view(), sketches(1, 0)) == {sketches(1, 0)[0]: "cup"}
        with pytest.raises(MemoryFileError, match="'cup' is damaged"):
            memory.load(memory.view())
    execute(path, "UPDATE classes SET sketches = x'0011' WHERE label = ''")
    with (
        closing(Memory(path)) as memory,
        pytest.raises(MemoryFileError, match="what is known of 'none of these' is damaged"),
    ):
        memory.find_taught(memory.view(), sketches(1, 0))


def test_a_memory_of_the_vote_was_taught_nothing_by_sketches(tmp_path: Path) -> None:
    shutil.copy(STORED / "plain.cbcl", tmp_path / "old.cbcl")
    with closing(Memory(tmp_path / "old.cbcl")) as memory:
        assert memory.find_taught(memory.view(), [1, 2]) == {}


DAMAGE = [
    "sketches = x''",
    "sketches = NULL",
    "sketches = zeroblob(length(sketches))",
    "statistics = NULL",
    "statistics = zeroblob(length(statistics))",
    "statistics = substr(statistics, 1, length(statistics) - 1)",
    "statistics = CAST(x'01' || statistics AS BLOB)",
    "counts = x'0100000000000000'",
]


@pytest.mark.parametrize("label", ["cup", ""])
@pytest.mark.parametrize("change", DAMAGE)
def test_damaged_statistics_are_found_told_and_can_be_forgotten(
    path: Path, label: str, change: str
) -> None:
    execute(path, f"UPDATE classes SET {change} WHERE label = ?", label)
    name = label or "none of these"
    (finding,) = check(path)
    assert finding.problem == f"what is known of '{name}' is damaged"
    assert f"forget` '{name}'" in finding.advice
    with closing(Memory(path)) as memory:
        with pytest.raises(MemoryFileError, match=f"what is known of '{name}' is damaged"):
            everything(memory)
        with memory.writing() as writing:
            writing.add_step("forget", {"label": label}, SETTINGS)
            writing.retire_class(label)
        with (
            memory.writing() as writing,
            pytest.raises(MemoryFileError, match=f"cannot undo forget, .*'{name}' is damaged"),
        ):
            writing.undo()
    (finding,) = check(path)
    assert finding.problem == f"what was known of '{name}' before step 4 is damaged"


def header(blob: bytes, place: int, value: int) -> bytes:
    fields = [*HEADER.unpack_from(blob)]
    fields[place] = value
    return HEADER.pack(*fields) + blob[HEADER.size :]


def numbers(blob: bytes, offset: int, value: float, kind: str = "<f4") -> bytes:
    """Put a number into a blob, at a place from its start or, below zero, from its end."""
    start = offset if offset >= 0 else len(blob) + offset
    data = np.array(value, kind).tobytes()
    return blob[:start] + data + blob[start + len(data) :]


SCALES = HEADER.size + 8 * D  # of the views of a class that has eight
IMPOSSIBLE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda blob: blob[:0],
    "cut off": lambda blob: blob[:-1],
    "cut off in the header": lambda blob: blob[: HEADER.size - 1],
    "too long": lambda blob: blob + b"\0",
    "another version": lambda blob: header(blob, 0, 2),
    "no vectors": lambda blob: header(blob, 1, 0),
    "fewer vectors than are folded": lambda blob: header(blob, 1, 23),
    "more vectors than views": lambda blob: header(blob, 1, 90),
    "absurdly many vectors": lambda blob: header(header(blob, 1, 2**62), 2, 2**62),
    "a negative count": lambda blob: header(blob, 2, -24),
    "no summary": lambda blob: header(blob, 2, 0),
    "absurdly many views": lambda blob: header(blob, 3, 65535),
    "fewer views": lambda blob: header(blob, 3, 7),
    "absurdly many fine axes": lambda blob: header(blob, 4, 65535),
    "absurdly many coarse axes": lambda blob: header(blob, 5, 65535),
    "NaN in the scales": lambda blob: numbers(blob, SCALES, np.nan),
    "infinity in the scales": lambda blob: numbers(blob, SCALES + 4, np.inf),
    "a huge scale": lambda blob: numbers(blob, SCALES, 3e38),
    "a negative scale": lambda blob: numbers(blob, SCALES, -1.0),
    "NaN in the scales of axes": lambda blob: numbers(blob, -2 * D - 4, np.nan),
    "NaN in the rest": lambda blob: numbers(blob, -2, np.nan, "<f2"),
    "infinity in the rest": lambda blob: numbers(blob, -2 * D, np.inf, "<f2"),
    "a negative rest": lambda blob: numbers(blob, -2 * D, -1.0, "<f2"),
}


def refuse(path: Path, words: str = "not written by cbcl") -> None:
    assert len(check(path)) == 1
    with closing(Memory(path)) as memory, pytest.raises(MemoryFileError, match=words):
        everything(memory)


@pytest.mark.parametrize("how", IMPOSSIBLE)
def test_statistics_that_cannot_be_are_refused_even_with_the_right_checksum(
    path: Path, how: str
) -> None:
    assert len(CLASSES["cup"].views) == 8
    blob = pack_class("cup", CLASSES["cup"], DISCRIMINANT)[4]
    assert blob is not None
    rewrite(path, "cup", statistics=IMPOSSIBLE[how](blob))
    refuse(path)


@pytest.mark.parametrize(
    ("label", "blobs"),
    [
        ("cup", {"sketches": None}),
        ("cup", {"statistics": None}),
        ("cup", {"sketches": b"\0" * 7}),
        ("cup", {"sketches": b"\0" * 8 * 513}),
        ("key", {"sketches": b"\0" * 8 * 2}),
        ("key", {"spread": b"\0" * 24}),
        ("", {"sketches": None, "statistics": None}),
    ],
)
def test_rows_of_no_head_are_refused_even_with_the_right_checksum(
    path: Path, label: str, blobs: dict[str, bytes | None]
) -> None:
    rewrite(path, label, **blobs)
    refuse(path)


def test_measurements_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    path, d = tmp_path / "few.cbcl", 4
    with closing(Memory(path)) as memory, memory.writing(about(d)) as writing:
        teach(writing, "cup", learned(2, d))
    blob = pack_class("cup", learned(2, d), DISCRIMINANT)[4]
    assert blob is not None
    rewrite(path, "cup", statistics=numbers(blob, HEADER.size + 4, np.nan))
    refuse(path)


def vote(d: int = D) -> CentroidClass:
    centroids = np.ones((1, d), np.float32)
    return CentroidClass(Concepts(centroids, np.array([2])), Spread())


def test_a_class_of_the_other_head_is_refused(path: Path) -> None:
    centroids, counts, spread, *_ = pack_class("key", vote(), VOTE)
    blobs = {"centroids": centroids, "counts": counts, "spread": spread}
    rewrite(path, "key", **blobs, sketches=None, statistics=None)
    refuse(path)


@pytest.mark.parametrize("head", ["vote", "other"])
def test_a_changed_head_is_found(path: Path, head: str) -> None:
    execute(path, "UPDATE steps SET head = ? WHERE step = 3", head)
    assert check(path) != []
    with closing(Memory(path)) as memory, pytest.raises(MemoryFileError):
        memory.view()


def write(memory: Memory, stored: ClassStatistics | CentroidClass, settings: Settings) -> None:
    with memory.writing() as writing:
        writing.add_step("learn", {}, settings)
        writing.replace_class("key", stored, [])


def test_what_could_not_be_read_again_is_not_written(path: Path) -> None:
    known = CLASSES["key"]
    bad_scales = CodedRows(known.views.codes, np.full(3, np.nan, np.float32))
    wrong: list[tuple[ClassStatistics | CentroidClass, str]] = [
        (replace(known, n=4), "4 vectors cannot have 3 views and 3 sketches"),
        (replace(known, sketches=known.sketches[1:]), "2 sketches"),
        (replace(known, views=bad_scales), "a scale is invalid"),
        (learned(3, D + 1), f"another length than {D}"),
        (vote(), "memory of the discriminant"),
    ]
    with closing(Memory(path)) as memory:
        for stored, words in wrong:
            with pytest.raises((MemoryFileError, ValueError), match=words):
                write(memory, stored, SETTINGS)
        with pytest.raises(ValueError, match="memory of the vote"):
            write(memory, known, Settings())
        assert (everything(memory), memory.view().step) == (EVERYTHING, 3)


@pytest.mark.parametrize("label", ["cup", ""])
def test_an_example_of_a_view_that_cannot_be_is_found(path: Path, label: str) -> None:
    n = CLASSES[label].n
    row = "class = (SELECT class FROM classes WHERE label = ?)"
    execute(path, f"UPDATE examples SET centroid = {n - 1} WHERE centroid = 1 AND {row}", label)
    assert check(path) == []
    execute(path, f"UPDATE examples SET centroid = {n} WHERE centroid = {n - 1} AND {row}", label)
    name = label or "none of these"
    assert [finding.problem for finding in check(path)] == [f"a thumbnail of '{name}' is damaged"]


def test_an_example_of_no_class_is_found(path: Path) -> None:
    execute(path, "UPDATE examples SET class = 99 WHERE class = 1 AND centroid = 0")
    assert [finding.problem for finding in check(path)] == ["a thumbnail belongs to no label"]


def test_no_flipped_bit_of_statistics_goes_unnoticed(path: Path) -> None:
    told = 0
    n_bits = 8 * path.stat().st_size
    for place in flip(path, np.random.default_rng(0).choice(n_bits, 200, replace=False).tolist()):
        findings = check(path)
        told += bool(findings)
        try:
            with closing(Memory(path)) as memory:
                assert everything(memory) == EVERYTHING or findings, place
        except MemoryFileError:
            assert findings, place
    assert told > 10


@pytest.mark.parametrize("name", ["plain", "voters", "budget"])
def test_a_memory_of_format_two_is_one_of_the_vote_and_renewed_by_the_first_step(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "old.cbcl"
    shutil.copy(STORED / f"{name}.cbcl", path)
    before = path.read_bytes()
    assert check(path) == []
    with closing(Memory(path)) as memory:
        view = memory.view()
        classes = memory.load(view)
        assert (view.settings.head, view.negatives) == ("vote", None)
        assert {type(stored) for stored in classes.values()} == {CentroidClass}
        history = memory.history()
    assert path.read_bytes() == before
    with closing(Memory(path)) as memory:
        with memory.writing() as writing:
            writing.add_step("rename", {}, view.settings)
        assert memory.history()[1:] == history
        same = memory.load(memory.view())
        assert [pack_class(*one, VOTE) for one in same.items()] == [
            pack_class(*one, VOTE) for one in classes.items()
        ]
    assert execute(path, "PRAGMA user_version") == [(VERSION,)]
    assert check(path) == []


@pytest.mark.parametrize("d", [8, D, D + 1])
@pytest.mark.parametrize("sizes", [(30, 3, 2), (3, 1, 0), (24, 0, 25)])
def test_exported_statistics_come_back_the_same(
    tmp_path: Path, d: int, sizes: tuple[int, ...]
) -> None:
    made = {
        label: learned(n, d, seed)
        for seed, (label, n) in enumerate(zip(("cup", "key", ""), sizes, strict=True))
        if n
    }
    with (
        closing(Memory(tmp_path / "a.cbcl")) as memory,
        closing(Memory(tmp_path / "b.cbcl")) as copy,
    ):
        for label, stored in made.items():
            with memory.writing(about(d), b"state") as writing:
                teach(writing, label, stored)
        files, left_out = export(memory, tmp_path / "out")
        assert left_out == []
        assert json.loads(files[1].read_text())["settings"]["head"] == "discriminant"
        import_(files[0], copy)
        assert everything(copy) == {label: contents(stored) for label, stored in made.items()}
        assert (described(copy), copy.backbone_state()) == (described(memory), b"state")
        assert copy.history()[0].summary == ", ".join(one or "none of these" for one in made)


def test_damaged_negatives_are_left_out_of_an_export_and_told(path: Path, tmp_path: Path) -> None:
    execute(path, "UPDATE classes SET statistics = x'' WHERE label = ''")
    with closing(Memory(path)) as memory, closing(Memory(tmp_path / "copy.cbcl")) as copy:
        files, left_out = export(memory, tmp_path / "out")
        assert left_out == ["none of these"]
        import_(files[0], copy)
        assert everything(copy) == {label: EVERYTHING[label] for label in ("cup", "key")}


def test_an_export_of_before_there_were_two_heads_is_imported(tmp_path: Path) -> None:
    words = {
        "format": 1,
        "labels": ["cup", "key"],
        "spreads": [
            {"n": 1, "total": 0.5, "squares": 0.25},
            {"n": 0, "total": 0.0, "squares": 0.0},
        ],
        "about": about(2).__dict__,
        "settings": {"radius": "inf", "n_voters": 3, "max_centroids": None},
    }
    tensors = {
        "centroids": np.arange(6, dtype=np.float32).reshape(3, 2),
        "counts": np.array([1, 2, 3]),
        "classes": np.array([0, 0, 1]),
        "backbone": np.empty(0, np.uint8),
    }
    (tmp_path / "old.json").write_text(json.dumps(words))
    (tmp_path / "old.safetensors").write_bytes(save(tensors))
    with closing(Memory(tmp_path / "a.cbcl")) as memory:
        import_(tmp_path / "old.safetensors", memory)
        assert memory.view().settings == Settings(n_voters=3, head="vote")
        cup = memory.load(memory.view())["cup"]
        assert isinstance(cup, CentroidClass)
        assert cup.concepts.centroids.tolist() == [[0.0, 1.0], [2.0, 3.0]]
        assert cup.spread == Spread(1, 0.5, 0.25)
        again, _ = export(memory, tmp_path / "again")
        kept = load(again[0].read_bytes())
        assert {name: array.tolist() for name, array in kept.items()} == {
            name: array.tolist() for name, array in tensors.items()
        }


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (("format",), 1),
        (("format",), 3),
        (("settings", "head"), "vote"),
        (("settings", "head"), "other"),
        (("settings", "head"), None),
        (("labels",), ["cup", "key"]),
        (("labels", 1), "cup"),
        (("labels", 1), "unknown"),
        (("labels", 1), ""),
        (("statistics", 0, "n"), 2**40),
        (("statistics", 0, "n"), True),
        (("statistics", 0, "folded"), -24),
        (("statistics", 0, "folded"), 0),
        (("statistics", 0, "views"), 7),
        (("statistics", 0, "views"), 10**30),
        (("statistics", 0, "fine"), 9),
        (("statistics", 0, "coarse"), 11.0),
        (("statistics", 1, "sketches"), 2),
        (("statistics", 2, "n"), 3),
        (("statistics",), []),
        (("about", "dimension"), D + 1),
        (("about", "dimension"), 8),
    ],
)
def test_impossible_words_about_statistics_are_not_imported(
    path: Path, where: tuple[Any, ...], what: Any
) -> None:
    with closing(Memory(path)) as memory:
        import_changed(memory, replaced(where, what))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("view_codes", lambda array: array[:-1]),
        ("view_codes", lambda array: array.astype(np.int16)),
        ("view_codes", lambda array: array.reshape(-1)),
        ("view_scales", lambda array: array * np.float32(np.nan)),
        ("mean_codes", lambda array: np.concatenate([array, array])),
        ("fine_scales", lambda array: -array),
        ("coarse_codes", lambda array: array + np.int8(8)),
        ("rests", lambda array: array - np.float16(1.0)),
        ("rests", lambda array: array[0, 0]),
        ("sketches", lambda array: array.astype(np.int64)),
        ("more", lambda _: np.ones(1)),
    ],
)
def test_impossible_arrays_of_statistics_are_not_imported(
    path: Path, name: str, change: Callable[[Any], Any]
) -> None:
    def spoil(_: dict[str, Any], tensors: dict[str, Any]) -> None:
        tensors[name] = np.ascontiguousarray(change(tensors.get(name)))

    with closing(Memory(path)) as memory:
        assert "not an exported memory" in import_changed(memory, spoil)


@pytest.mark.parametrize(("d", "most"), [(1280, 3_870_000), (2048, 6_200_000)])
def test_a_hundred_large_classes_fit_into_what_the_paper_claims(
    tmp_path: Path, d: int, most: int
) -> None:
    known = learned(512, d)
    path = tmp_path / "hundred.cbcl"
    with closing(Memory(path)) as memory:
        for number in range(100):
            with memory.writing(about(d)) as writing:
                teach(writing, f"class {number:03}", known)
    assert path.stat().st_size <= most


def test_a_class_is_packed_and_unpacked_in_less_than_a_millisecond() -> None:
    stored = learned(24, 1280)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        row = pack_class("cup", stored, DISCRIMINANT)
        unpack_class(row, "cup", DISCRIMINANT, about(1280), Path("a.cbcl"))
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.001
