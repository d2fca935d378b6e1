"""Search indexes of memories: what they find, what they leave out, and when they are not used."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.photos import noise

from cbcl import CBCLError, Recognizer, load_backbone
from cbcl.cli.commands import main
from cbcl.method import graph_index
from cbcl.method.arrays import Float32s
from cbcl.recognition import search_index
from cbcl.recognition.answer import Answer

D = 24
AS_GIVEN = load_backbone(lambda rows: np.stack(rows), name="as-given")


@pytest.fixture(autouse=True)
def _needs_usearch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch.index")
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(search_index, "EXPANSIONS", (1500,))  # so that nothing is missed
    monkeypatch.setattr(graph_index, "cores", lambda: 1)  # threads make another graph each time


def vectors_of(number: int, n: int = 30) -> Float32s:
    rng = np.random.default_rng(number)
    return (rng.normal(size=D) * 2 + rng.normal(size=(n, D))).astype(np.float32)


def recognizer(path: Path, *, private: bool = False, radius: float = 0.0) -> Recognizer:
    return Recognizer(
        path, AS_GIVEN, head="vote", radius=radius, n_voters=3, cache=False, private=private
    )


def teach(path: Path, n_labels: int = 40) -> Recognizer:
    things = recognizer(path)
    things.learn_many({f"thing {i:02}": [*vectors_of(i)] for i in range(n_labels)})
    return things


def asked(n: int = 60) -> list[Float32s]:
    return [vectors_of(i % 45, 31)[-1] for i in range(n)]


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def but_for_recall(answers: list[Answer]) -> list[Answer]:
    return [answer._replace(recall=None) for answer in answers]


def test_answers_by_an_index_that_misses_nothing_are_those_of_the_exact_search(
    tmp_path: Path,
) -> None:
    things = teach(tmp_path / "things.cbcl")
    exact = things.recognize_many(asked())
    assert {answer.recall for answer in exact} == {None}
    result = things.build_index()
    assert result.n_centroids == 40 * 30
    assert result.recall == 1.0
    with recognizer(tmp_path / "things.cbcl") as opened:
        answers = opened.recognize_many(asked())
    assert {answer.recall for answer in answers} == {1.0}
    assert "recall" in answers[0].as_dict()
    assert but_for_recall(answers) == exact
    things.close()


def test_what_is_learned_forgotten_and_renamed_after_it_was_made_is_known(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    things = teach(path)
    things.build_index()
    things.recognize_many(asked())
    for i in range(40, 45):
        things.learn(f"thing {i:02}", [*vectors_of(i)])
    things.learn("thing 03", [*vectors_of(100, 5)])
    things.forget("thing 07")
    things.rename("thing 09", "other")
    answers = things.recognize_many(asked())
    assert {answer.recall for answer in answers} == {1.0}
    assert things.remove_index()
    exact = things.recognize_many(asked())
    # The limit of "unknown" is that of the day on which the index was made; all else is of now.
    assert [answer.ranking[0].label for answer in answers] == [
        answer.ranking[0].label for answer in exact
    ]
    assert [answer.evidence for answer in answers] == [answer.evidence for answer in exact]
    assert "thing 07" not in {guess.label for answer in answers for guess in answer.ranking}
    things.close()


def test_an_answer_reads_no_class_that_the_index_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "things.cbcl"
    with teach(path) as things:
        things.build_index()
    with recognizer(path) as opened:
        opened.learn("new", [*vectors_of(77)])
        opened.close()
        read: list[str] = []
        original = type(opened._memory)._read_class

        def note(memory: object, row: int, label: str, view: object) -> object:
            read.append(label)
            return original(memory, row, label, view)  # type: ignore[arg-type]

        monkeypatch.setattr(type(opened._memory), "_read_class", note)
        assert opened.recognize(vectors_of(77, 31)[-1]).label == "new"
        assert read == ["new"]


def test_where_most_has_changed_the_search_is_exact(tmp_path: Path) -> None:
    things = teach(tmp_path / "things.cbcl", 10)
    things.build_index()
    for i in range(6):
        things.forget(f"thing {i:02}")
    assert {answer.recall for answer in things.recognize_many(asked(5))} == {None}
    things.close()


def test_a_damaged_index_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    with teach(path) as things:
        exact = things.recognize_many(asked(5))
        things.build_index()
    folder = search_index.folder_of(path)
    (folder / search_index.CENTROIDS).write_bytes(b"short")
    with recognizer(path) as opened:
        assert opened.recognize_many(asked(5)) == exact


def test_forgetting_for_good_leaves_nothing_in_an_index(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    with teach(path) as things:
        things.build_index()
        assert search_index.folder_of(path).exists()
        things.forget("thing 05", for_good=True)
    assert not search_index.folder_of(path).exists()
    assert [*search_index.folder_of(path).parent.iterdir()] == []


def test_private_and_other_memories_have_no_index(tmp_path: Path) -> None:
    private = recognizer(tmp_path / "private.cbcl", private=True)
    private.learn("cup", [*vectors_of(1)])
    with pytest.raises(CBCLError, match=r"private\.cbcl is private, so nothing of it is kept"):
        private.build_index()
    private.close()
    with Recognizer(tmp_path / "default.cbcl", AS_GIVEN, cache=False) as things:
        things.learn("cup", [*vectors_of(1)])
        with pytest.raises(CBCLError, match="learns by the discriminant, which has no centroids"):
            things.build_index()


def test_a_build_that_fails_leaves_the_index_before(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    with teach(path, 10) as things:
        things.build_index()

        def fail(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            things.build_index(progress=fail)
        assert {answer.recall for answer in things.recognize_many(asked(3))} == {1.0}
    folder = search_index.folder_of(path)
    assert [*folder.parent.iterdir()] == [folder]


def test_progress_counts_centroids(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with teach(tmp_path / "things.cbcl", 10) as things:
        things.build_index(progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (300, 300)


def test_the_command_makes_one_uses_it_says_so_and_removes_it(tmp_path: Path) -> None:
    photos, path = noise(tmp_path / "photos", count=4), tmp_path / "things.cbcl"
    with Recognizer(path, "pixels", radius=0.0, n_voters=1, cache=False) as things:
        things.learn_many(things.find_labelled([photos]))
    made = run("index", str(path))
    assert made.stdout.startswith("indexed 16 centroids of ")
    assert made.stdout.endswith("finds 100.0% of the ten nearest.\n")
    asked = run("recognize", str(path), str(photos), "--no-cache", "--csv")
    assert asked.stderr == "searched by an index, which finds 100.0% of the nearest centroids.\n"
    assert asked.stdout.splitlines()[0] == "photo,label,confidence,strangeness,ranking"
    assert len({line.count(",") for line in asked.stdout.splitlines()}) == 1
    assert run("index", str(path), "--remove").stdout == f"{path} has no index any more.\n"
    assert run("recognize", str(path), str(photos), "--no-cache", "--csv").stderr == ""
    assert run("index", str(path), "--remove").stdout == f"{path} has no index to remove.\n"


def test_where_it_cannot_be_written_a_sentence_says_so(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    with teach(path, 3) as things:
        folder = search_index.folder_of(path)
        folder.parent.parent.mkdir(parents=True)
        folder.parent.write_text("a file, where a folder should be")
        with pytest.raises(CBCLError, match=r"cannot be written: "):
            things.build_index()
        assert {answer.recall for answer in things.recognize_many(asked(3))} == {None}


def test_what_a_killed_process_left_is_deleted_after_a_day(tmp_path: Path) -> None:
    path = tmp_path / "things.cbcl"
    folder = search_index.folder_of(path)
    old, new = (folder.with_name(f".{folder.name}.{pid}-1.part") for pid in (1, 2))
    for part in (old, new):
        part.mkdir(parents=True)
    os.utime(old, (0.0, 0.0))
    with teach(path, 3) as things:
        things.build_index()
    assert {*folder.parent.iterdir()} == {folder, new}


def test_a_copy_that_took_another_way_is_not_searched_by_the_index_of_the_first(
    tmp_path: Path,
) -> None:
    path, other = tmp_path / "things.cbcl", tmp_path / "other.cbcl"
    teach(path, 10).close()
    shutil.copyfile(path, other)
    with recognizer(path) as things:
        things.learn("extra", [*vectors_of(200)])
        things.build_index()
    with recognizer(other) as things:
        things.learn("extra", [*vectors_of(300)])
    shutil.copyfile(other, path)
    asked_now = [vectors_of(number, 31)[-1] for number in (200, 300)]
    with recognizer(path) as things:
        answers = things.recognize_many(asked_now)
        assert None not in {answer.recall for answer in answers}
        things.remove_index()
        exact = things.recognize_many(asked_now)
    assert [answer.evidence for answer in answers] == [answer.evidence for answer in exact]
    assert answers[1].ranking[0].label == "extra"
