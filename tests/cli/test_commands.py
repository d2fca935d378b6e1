"""The command line, run as a user runs it."""

from __future__ import annotations

import csv
import inspect
import io
import json
import os
import pty
import runpy
import signal
import subprocess
import sys
from importlib.metadata import EntryPoints
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.cli import run, said
from support.photos import NAMES, encoded, folders, views

from cbcl import Recognizer
from cbcl.cli.commands import main
from cbcl.heads import base

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folders(tmp_path_factory.mktemp("photos") / "things")


@pytest.fixture
def memory(photos: Path, tmp_path: Path) -> Path:
    said("learn", tmp_path / "things.cbcl", photos)
    return tmp_path / "things.cbcl"


def all_commands(
    command: click.Command = main, name: str = "cbcl"
) -> list[tuple[str, click.Command]]:
    found = [(name, command)]
    if isinstance(command, click.Group):
        for each, sub in command.commands.items():
            found += all_commands(sub, f"{name} {each}")
    return found


@pytest.mark.parametrize(("name", "command"), all_commands())
def test_every_command_and_option_says_what_it_does_with_an_example(
    name: str, command: click.Command
) -> None:
    told = inspect.cleandoc(command.help or "")
    assert told
    if not isinstance(command, click.Group):
        assert f"\n{name} " in told or f"\n{name}\n" in f"{told}\n", "an example"
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_the_reference_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_loaded", {})  # without the heads of other tests
    made = runpy.run_path(str(ROOT / "docs" / "make_cli.py"))["reference"]()
    assert (ROOT / "docs" / "cli.md").read_text() == made, "python docs/make_cli.py"


def test_the_reference_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "make_cli.py"
    script.write_bytes((ROOT / "docs" / "make_cli.py").read_bytes())
    made = runpy.run_path(str(script))
    assert CliRunner().invoke(made["make"], ["--help"]).output.startswith("Usage: ")
    monkeypatch.setattr("cbcl.plugins.entry_points", lambda **_: EntryPoints())
    told = CliRunner().invoke(made["make"], [])
    assert (told.exit_code, "pip install ./study" in told.output) == (1, True)
    assert not script.with_name("cli.md").exists()


def test_a_session_from_learning_to_correcting(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "things.cbcl"
    assert f"{memory} knows 4 things" in said("learn", memory, photos)
    asked = tmp_path / "new.jpg"
    asked.write_bytes(encoded(views("coffee", 1, seed=2)[0]))
    assert "coffee" in said("recognize", memory, asked)
    assert " from coffee; " in said("recognize", memory, "--why", asked)
    assert "espresso\t1\t1\t1" in said("learn", memory, "--label", "espresso", asked)
    assert said("recognize", memory, asked).splitlines()[1].split("\t")[1] == "espresso"
    assert said("merge", memory, "espresso", "coffee") == "espresso is now part of coffee.\n"
    assert "coffee\t4\n" in said("show", memory)
    assert said("rename", memory, "coffee", "a cup ☕") == "coffee is now a cup ☕.\n"
    assert said("undo", memory) == "undone: rename coffee → a cup ☕\n"
    assert "cbcl undo brings it back" in said("forget", memory, "coffee")
    assert "coffee" not in said("show", memory)
    said("undo", memory)
    assert "coffee\t4\n" in said("show", memory)
    assert said("check", memory) == f"{memory} is ok.\n"
    assert "forget\tcoffee\tundone" in said("show", memory, "--history")


def test_json_has_one_object_a_photo(memory: Path, photos: Path) -> None:
    lines = [json.loads(line) for line in said("recognize", memory, "--json", photos).splitlines()]
    assert len(lines) == 12
    assert set(lines[0]) == {"photo", "label", "confidence", "strangeness", "ranking"}
    for line in lines:
        assert line["ranking"][0]["label"] == Path(line["photo"]).parent.name
        assert line["label"] in (line["ranking"][0]["label"], None)
        assert 0 <= line["confidence"] <= 1


def test_csv_has_a_row_a_photo(memory: Path, photos: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(said("recognize", memory, "--csv", photos))))
    assert len(rows) == 12
    assert [row["ranking"].split(" ")[0] for row in rows] == [
        Path(row["photo"]).parent.name for row in rows
    ]


def test_evidence_can_be_had_as_json(memory: Path, photos: Path) -> None:
    (line,) = said("recognize", memory, "--json", "--why", photos / "coffee" / "0.jpg").splitlines()
    evidence = json.loads(line)["evidence"]
    assert [reason["label"] for reason in evidence[:3]] == ["coffee"] * 3
    assert evidence[0]["distance"] < 0.02 < evidence[1]["distance"] < evidence[2]["distance"]
    (against,) = evidence[3:]
    assert against["label"] == json.loads(line)["ranking"][1]["label"]
    assert all(reason["photos"] == 1 for reason in evidence)


def test_evidence_of_the_vote_is_its_voters(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "vote.cbcl"
    said("learn", memory, photos, "--head", "vote")
    photo = photos / "coffee" / "0.jpg"
    assert "from coffee (3 photos)\t" in said("recognize", memory, "--why", photo)
    (line,) = said("recognize", memory, "--json", "--why", photo).splitlines()
    (reason,) = json.loads(line)["evidence"]
    assert (reason["label"], reason["photos"]) == ("coffee", 3)


def test_photos_that_are_known_add_nothing_and_corrected_ones_move(
    memory: Path, photos: Path
) -> None:
    again = said("learn", memory, photos)
    assert "coffee\t3\t0\t3\n" in again
    assert "12 photos were nearly the same as known ones: nothing new.\n" in again
    moving = said("learn", memory, "--label", "mug", photos / "coffee" / "0.jpg")
    assert "mug\t1\t1\t1\n1 photo moved here from coffee.\n" in moving
    assert "coffee\t2\n" in said("show", memory)
    moving = said("learn", memory, "--label", "tea", photos / "coffee")
    assert "\n2 photos moved here from coffee, which has none left.\n" in moving
    assert "\n1 photo moved here from mug, which has none left.\n" in moving
    with Recognizer(memory) as recognizer:
        assert [*recognizer.labels()] == ["astronaut", "chelsea", "rocket", "tea"]


def test_a_label_that_differs_in_case_from_a_known_one_is_told_with_the_way_out(
    memory: Path, photos: Path
) -> None:
    rocket = photos / "rocket" / "0.jpg"
    told = said("learn", memory, "--label", "Coffee", rocket)
    command = f"cbcl merge {memory} Coffee coffee"
    assert f"'Coffee' and 'coffee' are two things now; if they are one: `{command}`.\n" in told
    said(*command.split()[1:])
    assert "coffee\t4\n" in said("show", memory)
    assert "two things" not in said("learn", memory, "--label", " coffee ", rocket)
    renamed = said("rename", memory, "rocket", "Coffee")
    assert renamed == (
        "rocket is now Coffee.\n"
        f"'Coffee' and 'coffee' are two things now; if they are one: `{command}`.\n"
    )
    assert said("rename", memory, "Coffee", "ship") == "Coffee is now ship.\n"
    assert said("rename", memory, "ship", "Ship") == "ship is now Ship.\n"


def test_photos_of_none_of_the_things_are_unknown_counted_and_forgotten(
    memory: Path, photos: Path
) -> None:
    photo = photos / "coffee" / "0.jpg"
    taught = said("learn", memory, "--none", photo)
    assert "none of these\t1\t1\t1\n1 photo moved here from coffee.\n" in taught
    assert said("recognize", memory, photo).splitlines()[1].split("\t")[1] == "unknown"
    assert "4 things, 11 photos, 1 photo of none of these; " in said("show", memory)
    assert "learn\tnone of these (1)\t" in said("show", memory, "--history")
    assert said("forget", memory, "--none").startswith("forgot none of these (cbcl undo")
    assert "none of these" not in said("show", memory)
    result = run("forget", memory, "--none")
    assert result.exit_code == 1
    assert 'Error: nothing was taught as "none of these".\n' in result.output


def test_a_memory_of_the_vote_is_upgraded_and_an_undo_brings_it_back(
    photos: Path, tmp_path: Path
) -> None:
    memory = tmp_path / "vote.cbcl"
    said("learn", memory, photos, "--head", "vote")
    shown = said("show", memory)
    assert "coffee\t3\t1\n" in shown
    assert "head vote: 4 centroids, radius inf, 1 voter.\n`cbcl upgrade` makes" in shown
    assert f"{memory} now tells 4 things apart" in said("upgrade", memory)
    assert "coffee\t3\n" in said("show", memory)
    assert said("show", memory).endswith("; head discriminant.\n")
    result = run("upgrade", memory)
    assert result.exit_code == 1
    assert "needs no upgrade" in result.output
    assert said("undo", memory).startswith("undone: upgrade astronaut, ")
    assert said("show", memory) == shown


def test_an_upgrade_tells_of_photos_that_are_nearly_the_same(tmp_path: Path) -> None:
    photos = folders(tmp_path / "photos", NAMES[:2])
    (photos / NAMES[0] / "again.jpg").write_bytes((photos / NAMES[0] / "0.jpg").read_bytes())
    memory = tmp_path / "vote.cbcl"
    said("learn", memory, photos, "--head", "vote")
    assert "\n1 photo of 7 nearly the same as others: left out.\n" in said("upgrade", memory)
    assert "2 things, 6 photos" in said("show", memory)


def test_an_upgrade_needs_the_vectors_of_all_photos(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "vote.cbcl"
    said("learn", memory, photos, "--head", "vote", "--private")
    shown = said("show", memory)
    result = run("upgrade", memory)
    assert result.exit_code == 1
    assert "cannot be upgraded: it keeps the vectors of only some photos of 'ast" in result.output
    assert said("show", memory) == shown


def test_one_missing_photo_does_not_keep_the_others_from_an_answer(
    memory: Path, photos: Path
) -> None:
    result = run("recognize", memory, "--json", photos / "coffee" / "0.jpg", "nowhere.jpg")
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1
    assert "skipped: nowhere.jpg does not exist." in result.output


def test_an_unknown_label_is_null(memory: Path, tmp_path: Path) -> None:
    (tmp_path / "noise.png").write_bytes(encoded(views("rocket", 1)[0] * 0, "PNG"))
    (line,) = said("recognize", memory, "--json", tmp_path / "noise.png").splitlines()
    assert json.loads(line)["label"] is None
    assert "unknown" in said("recognize", memory, tmp_path / "noise.png")


def test_command_line_recognizer_and_estimator_agree(memory: Path, photos: Path) -> None:
    files = sorted(photos.rglob("*.jpg"))
    lines = [json.loads(line) for line in said("recognize", memory, "--json", *files).splitlines()]
    with Recognizer(memory, cache=False) as recognizer:
        answers = [recognizer.recognize(file).as_dict() for file in files]
        predicted = recognizer.as_estimator().predict(recognizer.embed(files)).tolist()
    assert [line["ranking"][0]["label"] for line in lines] == predicted
    for line, answer in zip(lines, answers, strict=True):
        assert line["label"] == answer["label"]
        # All files at once, and one by one: products in float32 round otherwise.
        for said_of, answered in zip(line["ranking"], answer["ranking"], strict=True):
            assert said_of["label"] == answered["label"]
            assert said_of["confidence"] == pytest.approx(answered["confidence"], abs=1e-4)


def test_export_and_import(memory: Path, photos: Path, tmp_path: Path) -> None:
    said("export", memory, tmp_path / "out")
    assert "knows 4 things" in said("import", tmp_path / "copy.cbcl", tmp_path / "out")
    photo = photos / "coffee" / "0.jpg"
    assert said("recognize", tmp_path / "copy.cbcl", photo) == said("recognize", memory, photo)


def test_tune_says_what_it_chose(photos: Path, tmp_path: Path) -> None:
    told = said("tune", tmp_path / "new.cbcl", photos)
    assert told.startswith("tried on 12 photos of 4 things:\nradius inf: one centroid a thing")
    assert "\n1 voter: the nearest centroid decides.\n" in told
    assert "new.cbcl did not exist: it is a new memory now, which learns by the vote.\n" in told
    assert told.endswith("new.cbcl keeps both; the radius holds for what it learns from now on.\n")
    assert "head vote: 0 centroids, radius inf" in said("show", tmp_path / "new.cbcl")
    mixed = folders(tmp_path / "mixed", NAMES[:2])
    (mixed / NAMES[0] / "notes.txt").write_text("hello")
    result = run("tune", tmp_path / "new.cbcl", mixed)
    assert result.exit_code == 1
    assert result.output.startswith("tried on 6 photos of 2 things:\n")
    assert "new memory" not in result.output
    assert "\nskipped: " in result.output
    assert "notes.txt is not a picture" in result.output


def test_backbones_are_listed_tested_and_refused() -> None:
    assert "efficientnet-lite0\t1280\tyes" in said("backbones", "list")
    assert "efficientnet-lite0\t1280\t" in said("backbones", "test", "efficientnet-lite0")
    result = run("backbones", "test", "resnet18")
    assert result.exit_code == 1
    assert "cbcl backbones import resnet18" in result.output


def test_weights_that_cannot_be_had_are_told_in_one_sentence(tmp_path: Path) -> None:
    weights = tmp_path / "w.pth"
    weights.write_text("hello")
    for words, subject in (
        (["import", "resnet18", weights], "w.pth"),
        (["import", "nothing", weights], "nothing"),
        (["download", "nothing"], "nothing"),
    ):
        result = run("backbones", *words)
        assert result.exit_code == 1, result.output
        assert subject in result.output
        assert len(result.output.strip().splitlines()) == 1


def test_how_often_strangers_come_is_told_tried_and_set(memory: Path) -> None:
    told = said("strangers", memory).splitlines()
    assert told[0] == f"{memory} expects strangers sometimes."
    assert told[1] == "strangers\tknown refused\tstrange found\t"
    rows = [line.split("\t") for line in told[2:5]]
    assert [row[0] for row in rows] == ["often", "sometimes", "rarely"]
    assert all(row[1].endswith(" of 12") and row[2].endswith(" of 12") for row in rows)
    assert [row[3] for row in rows] == ["", "now", ""]
    assert told[5].startswith("Tried on the photos that it keeps")
    assert said("strangers", memory, "--quiet").splitlines() == told
    assert "strangers" not in said("show", memory)
    told = said("strangers", memory, "rarely").splitlines()
    assert told[0] == f"{memory} now expects strangers rarely; cbcl undo brings sometimes back."
    assert told[1].startswith("of the photos that it keeps: ")
    assert told[1].count("(before ") == 2
    again = said("strangers", memory, "rarely")
    assert again == f"{memory} expects strangers rarely already: nothing was changed.\n"
    assert "; head discriminant; expects strangers rarely.\n" in said("show", memory)
    assert said("undo", memory) == "undone: strangers rarely\n"
    history = said("show", memory, "--history").splitlines()
    assert history[1].endswith("\tundo\tstrangers rarely\t")
    assert history[2].endswith("\tstrangers\trarely\tundone")
    assert "strangers" not in said("show", memory)
    assert said("strangers", memory, "often", "--quiet") == ""


def test_what_decides_unknown_is_drawn(memory: Path) -> None:
    told = said("show", memory, "--unknown").splitlines()
    assert len(told) == 11
    *pictured, axis, ends, sentence = told
    assert [line.split(" ")[0] for line in (pictured[0], pictured[4])] == ["strangers", "known"]
    assert max(map(len, told[:-1])) == 70
    limit = axis.index("┴")
    assert all(line[limit : limit + 1] for line in pictured)  # the limit or a curve, in each
    for photos in (pictured[3], pictured[7]):
        assert photos.startswith("photos ")
        assert sum(int(digit) for digit in photos if digit.isdigit()) == 12
    strange, known = ("".join(pictured[first : first + 3]) for first in (0, 4))
    assert strange.count("█") > 3
    assert known.count("█") > 3
    assert pictured[2].index("█") < limit < pictured[6].index("█")
    shown = ends.split()
    assert shown[1] == "limit"
    assert float(shown[0]) < float(shown[2]) < float(shown[3])
    assert sentence.startswith(f'A photo whose score is below {shown[2]} is "unknown"')
    assert "of 12 photos of known things are unknown, and" in sentence
    said("strangers", memory, "often")
    assert "(strangers: often)" in said("show", memory, "--unknown")


def test_of_one_photo_there_is_a_picture_without_any(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "one.cbcl"
    said("learn", memory, "--label", "coffee", photos / "coffee" / "0.jpg")
    told = said("show", memory, "--unknown")
    assert "photos " not in told.splitlines()[3]
    assert "too few photos to try it on" in told
    assert "too few photos to try it on" in said("strangers", memory)
    assert "of 0" not in told + said("strangers", memory, "often")


def test_what_has_no_such_setting_says_so(photos: Path, tmp_path: Path) -> None:
    vote = tmp_path / "vote.cbcl"
    empty = tmp_path / "empty.cbcl"
    said("learn", vote, photos, "--head", "vote")
    for words in (["strangers", vote], ["strangers", vote, "often"], ["show", vote, "--unknown"]):
        result = run(*words)
        assert result.exit_code == 1
        assert "learns by the vote" in result.output
        assert "has no strangers setting: `cbcl upgrade` may help" in result.output
    for words in (["strangers", empty], ["strangers", empty, "often"]):
        result = run(*words)
        assert (result.exit_code, empty.exists()) == (1, False)
        assert "does not exist: learn something first" in result.output
    said("learn", empty, "--label", "coffee", photos / "coffee" / "0.jpg")
    said("forget", empty, "coffee")
    assert said("strangers", empty).splitlines()[1].startswith("There are too few photos")
    assert said("strangers", empty, "often").endswith("brings sometimes back.\n")
    assert "too little to tell what is unknown" in run("show", empty, "--unknown").output
    assert run("strangers", vote, "never").exit_code == 2
    assert run("show", vote, "--unknown", "--history").exit_code == 2


def test_visual_words_are_fitted_kept_and_used(photos: Path, tmp_path: Path) -> None:
    memory = tmp_path / "words.cbcl"
    said("learn", memory, photos, "--backbone", "visual-words")
    assert "visual-words" in said("show", memory)
    lines = [json.loads(line) for line in said("recognize", memory, "--json", photos).splitlines()]
    right = [line["ranking"][0]["label"] == Path(line["photo"]).parent.name for line in lines]
    assert sum(right) >= 10
    result = run("recognize", memory, "--backbone", "efficientnet-lite0", photos)
    assert result.exit_code == 1
    assert "visual-words" in result.output
    assert "efficientnet-lite0" in result.output


def bad(memory: Path, photos: Path, tmp_path: Path) -> dict[str, tuple[list[Any], str]]:
    """Wrong input, and a word of what is said about it."""
    text = tmp_path / "text.jpg"
    text.write_text("not a picture")
    cut = tmp_path / "cut.jpg"
    cut.write_bytes((photos / "coffee" / "0.jpg").read_bytes()[:3000])
    (tmp_path / "other.json").write_text("{}")
    (tmp_path / "other.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    (tmp_path / "empty").mkdir()
    newer = tmp_path / "newer.cbcl"
    newer.write_bytes(memory.read_bytes()[:60] + (99).to_bytes(4, "big") + memory.read_bytes()[64:])
    return {
        "no picture": (["recognize", memory, text], "text.jpg is not a picture"),
        "truncated": (
            ["learn", memory, "--label", "x", cut],
            "cut.jpg is incomplete: copy it again.",
        ),
        "empty folder": (["learn", memory, tmp_path / "empty"], "empty folder"),
        "no such photo": (["recognize", memory, tmp_path / "none.jpg"], "does not exist"),
        "no such memory": (
            ["recognize", tmp_path / "none.cbcl", text],
            "does not exist: learn something first",
        ),
        **{
            f"no such label to {words[0]}": (
                [words[0], memory, *words[1:]],
                "Error: 'Cofee' is not known: did you mean 'coffee'?\n",
            )
            for words in (
                ["forget", "Cofee"],
                ["rename", "Cofee", "x"],
                ["merge", "Cofee", "rocket"],
                ["merge", "rocket", "Cofee"],
            )
        },
        "label of two lines": (["learn", memory, "--label", "a\nb", photos], "cannot be a label"),
        "newer": (["show", newer], "newer cbcl"),
        "not a memory": (["show", text], "is not a memory of cbcl"),
        "no label": (
            ["learn", memory, photos / "coffee" / "0.jpg"],
            "0.jpg is not a folder: give folders with one folder per label in them, or photos and"
            " their --label.",
        ),
        "no such folder": (["learn", memory, tmp_path / "none"], "none does not exist: give"),
        "wrong backbone": (
            ["recognize", memory, "--backbone", "visual-words", photos],
            "not through visual-words",
        ),
        "vectors wanted": (
            ["recognize", memory, "--backbone", "identity", photos],
            "not through identity",
        ),
        "unknown backbone": (
            ["learn", memory, "--backbone", "lite", photos],
            "backbone 'lite' is unknown",
        ),
        "nothing to undo": (
            ["undo", tmp_path / "none.cbcl"],
            "does not exist: learn something first",
        ),
        "nothing to check": (["check", tmp_path / "none.cbcl"], "none.cbcl does not exist: give"),
        "nothing to show": (["show", tmp_path / "none.cbcl"], "none.cbcl does not exist"),
        "no history": (["show", "--history", tmp_path / "none.cbcl"], "none.cbcl does not exist"),
        "too small a limit": (
            ["learn", tmp_path / "small.cbcl", photos, "--max-centroids", "1"],
            "max_centroids=1 cannot hold",
        ),
        "option of the vote": (
            ["learn", memory, photos, "--max-centroids", "9"],
            "learns by the discriminant",
        ),
        "options of two heads": (
            ["learn", memory, photos, "--head", "discriminant", "--radius", "2"],
            "radius: only with head='vote'",
        ),
        "another head": (["learn", memory, photos, "--head", "vote"], "cannot go on by the vote"),
        "nothing to tune": (
            ["tune", memory, photos],
            "learns by the discriminant, which has no radius and no number of voters.",
        ),
        "no radius": (["learn", memory, photos, "--radius", "nan"], "is not a distance"),
        "long name": (["show", tmp_path / ("x" * 300)], "cannot be opened"),
        "no place to export": (
            ["export", memory, tmp_path / "no" / "x"],
            "no does not exist: make that folder first.",
        ),
        "private too late": (
            ["learn", memory, photos, "--private"],
            "not begun as a private memory",
        ),
        "called unknown": (["rename", memory, "coffee", "unknown"], "cannot be a label"),
        "not an export": (
            ["import", tmp_path / "new.cbcl", tmp_path / "other"],
            "other.json are not an exported memory: 'about' is missing.",
        ),
        "not weights": (
            ["backbones", "import", "resnet18", text],
            f"{text.name} is damaged or of another kind",
        ),
        "import over": (["import", memory, tmp_path / "x"], "there already"),
    }


def test_bad_input_is_one_sentence_exit_1_and_nothing_lost(
    memory: Path, photos: Path, tmp_path: Path
) -> None:
    before = memory.read_bytes()
    for what, (words, message) in bad(memory, photos, tmp_path).items():
        result = run(*words)
        assert result.exit_code == 1, what
        assert message in result.output, what
        assert len(result.output.strip().splitlines()) == 1, result.output
        assert memory.read_bytes() == before, what
    assert f"{memory} is ok." in said("check", memory)


def test_wrong_usage_exits_2() -> None:
    for words in (
        ["learn"],
        ["recognize", "a.cbcl"],
        ["fly"],
        ["learn", "a", "b", "--max-centroids", "0"],
        ["show", "--no"],
    ):
        assert run(*words).exit_code == 2
    assert run("recognize", "a", "b", "--json", "--csv").exit_code == 2
    assert run("recognize", "a", "b", "--why", "--csv").exit_code == 2
    assert run("learn", "a", "--label", "x", "").exit_code == 2
    assert run("learn", "a", "--label", "x", "--none", "b").exit_code == 2
    assert run("learn", "a", "--head", "foot", "b").exit_code == 2
    swapped = run("recognize", "new.jpg", "things.cbcl")
    assert swapped.exit_code == 2
    assert "things.cbcl is a memory: give it first, then the photos." in swapped.output
    for words in (["forget", "a", "tea", "cup"], ["merge", "a", "tea", "b", "cup"]):
        unquoted = run(*words)
        assert unquoted.exit_code == 2
        assert "'cup' is too much: write a label of several words as \"blue" in unquoted.output
    assert run("forget", "a").exit_code == 2
    assert run("forget", "a", "cup", "--none").exit_code == 2
    assert run("forget", "a", "--none", "--for-good").exit_code == 2


def test_a_folder_may_hold_its_own_memory(tmp_path: Path) -> None:
    folders(tmp_path, NAMES[:2])
    for _ in range(2):
        said("learn", tmp_path / "m.cbcl", tmp_path)
    assert said("show", tmp_path / "m.cbcl").count("\t3\n") == 2
    result = run("recognize", tmp_path / "m.cbcl", tmp_path / "m.cbcl")
    assert result.exit_code == 1
    assert "is a memory in use" in result.output


def test_broken_pictures_are_left_out_and_told_or_fatal(
    memory: Path, photos: Path, tmp_path: Path
) -> None:
    mixed = tmp_path / "mixed" / "mug"
    mixed.mkdir(parents=True)
    (mixed / "good.jpg").write_bytes((photos / "coffee" / "0.jpg").read_bytes())
    (mixed / "notes.txt").write_text("hello")
    strict = run("learn", memory, "--strict", mixed.parent)
    assert strict.exit_code == 1
    assert "mug" not in said("show", memory)
    result = run("learn", memory, mixed.parent)
    assert result.exit_code == 1
    assert "mug\t1\t1\t1" in result.output
    assert f"skipped: {mixed / 'notes.txt'} is not a picture" in result.output
    (mixed / "more.txt").write_text("hello again")
    again = run("learn", memory, mixed.parent).output
    assert again.endswith(f"it is text.\nskipped, too: {mixed / 'notes.txt'}\n")
    answered = run("recognize", memory, "--json", mixed)
    assert answered.exit_code == 1
    assert json.loads(answered.stdout.splitlines()[0])["photo"].endswith("good.jpg")


def test_quiet_says_nothing(memory: Path, photos: Path) -> None:
    assert said("learn", "-q", memory, photos) == ""
    assert said("undo", "-q", memory) == ""
    assert said("check", "-q", memory) == ""


def test_completion_and_version() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_CBCL_COMPLETE" in said("completion", shell)
    assert said("version").count(".") == 2
    assert said("--version") == said("version")


def on_terminal(*words: object) -> str:
    """Return what a terminal shows."""
    return interrupted_on_terminal(*words, sign=None)[1]


def interrupted_on_terminal(
    *words: object, sign: str | None, columns: int = 120
) -> tuple[int, str]:
    """Press Ctrl-C when the terminal shows a sign; return the exit code and what it showed."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "cbcl", *map(str, words)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns)}
    shown = b""
    pressed = False
    with subprocess.Popen(
        command, env=environment, stdin=follower, stdout=follower, stderr=follower
    ) as process:
        os.close(follower)
        while piece := read_piece(leader):
            shown += piece
            if sign is not None and not pressed and sign.encode() in shown:
                process.send_signal(signal.SIGINT)
                pressed = True
    os.close(leader)
    assert pressed == (sign is not None), shown.decode()
    return process.returncode, shown.decode()


def read_piece(terminal: int) -> bytes:
    """Read from a terminal; nothing, once the other end is closed."""
    try:
        return os.read(terminal, 10_000)
    except OSError:
        return b""


def test_a_terminal_gets_tables_colours_and_a_progress_bar(memory: Path, photos: Path) -> None:
    shown = on_terminal("recognize", memory, "--no-cache", photos)
    assert "\x1b[" in shown
    assert "recognizing" in shown
    assert "12/12" in shown
    assert "\t" not in shown


def test_a_table_on_a_narrow_terminal_cuts_no_name_of_a_file(memory: Path, photos: Path) -> None:
    name = "IMG_20260712_184455_panorama_HDR_edited.jpg"
    long = memory.with_name(name)
    long.write_bytes((photos / "coffee" / "0.jpg").read_bytes())
    for columns in (40, 80, 200):
        words = ("recognize", memory, "--why", long)
        shown = interrupted_on_terminal(*words, sign=None, columns=columns)[1]
        assert str(long) in shown, columns
        assert "…" not in shown


def test_an_interrupted_learning_leaves_a_whole_memory(
    memory: Path, photos: Path, tmp_path: Path
) -> None:
    many = tmp_path / "many" / "rocks"
    many.mkdir(parents=True)
    data = (photos / NAMES[0] / "0.jpg").read_bytes()
    for number in range(3000):
        (many / f"{number}.jpg").write_bytes(data)
    words = ("learn", "--no-cache", memory, many.parent)
    code, shown = interrupted_on_terminal(
        *words, sign="/3000"
    )  # photos: the bar shows how far it is
    assert code == 1
    assert "Error: stopped. The memory is as it was after the last finished step.\r\n" in shown
    assert f"{memory} is ok." in said("check", memory)
    assert "rocks" not in said("show", memory)
