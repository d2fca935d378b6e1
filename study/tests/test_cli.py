"""`cbcl bench`, run as a user runs it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from support.packages import install
from support.photos import folders
from support.processes import until

from cbcl.cli.commands import main
from cbcl_study import experiments
from cbcl_study.data.vectors import kept
from cbcl_study.learners import LEARNERS
from cbcl_study.records import read
from cbcl_study.scores import average, last, summary

BENCH = (Path(__file__).parents[2] / "docs" / "bench.md").read_text()


def bench(command: str, *words: object) -> Result:
    """Run a command, whose first words stand in one text."""
    return CliRunner().invoke(main, ["bench", *command.split(), *map(str, words)])


def said(command: str, *words: object) -> str:
    result = bench(command, *words)
    assert result.exit_code == 0, result.output
    return result.output


def refused(command: str, *words: object) -> str:
    """What is said about something that cannot be done: one line."""
    result = bench(command, *words)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("Error: ")
    assert len(result.output.splitlines()) == 1, result.output
    return result.output


def run_digits(
    results: Path, *words: object, learner: str = "cbcl,ncm", orders: int = 2
) -> list[Any]:
    command = f"run digits --increment 2 --shots 5 --seeds 0-{orders - 1} --workers 1"
    return [command, "--learner", learner, "--results", results, *words]


def test_the_pages_say_how_to_install_it_before_they_use_it() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for page in (BENCH, readme):
        first = re.search("^[$ ]*cbcl bench ", page, re.MULTILINE)
        assert first is not None
        assert "pip install ./study\n" in page[: first.start()]


def test_runs_that_are_documented_use_the_vectors_that_are_stored_before() -> None:
    for text in (BENCH, said("vectors --help") + said("run --help")):
        backbone = re.search("bench vectors caltech101 .*--backbone (.*)", text)
        assert backbone is not None
        runs = re.findall("bench run caltech101 .*", text)
        assert runs
        assert all(f" --backbone {backbone[1]} " in run for run in runs)


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CBCL_DATA", raising=False)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home where no vectors are kept."""
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "empty"))
    return tmp_path / "empty"


def test_the_list_has_all_data_sets_and_learners(empty: Path) -> None:
    listed = said("list")
    for name, kind in LEARNERS.items():
        assert f"\n{name}\t{kind.words}\n" in listed
    for name in ("cifar100", "cifar10", "caltech101", "cub200", "digits"):
        assert f"\n{name}\tno vectors yet\n" in listed
    said("run digits --learner ncm --seeds 0 --workers 1 --results", empty / "results")
    assert "\ndigits\tidentity\n" in said("list")


def test_learners_are_run_recorded_and_shown_and_nothing_is_run_twice(tmp_path: Path) -> None:
    shown = said(*run_digits(tmp_path))
    titles, *rows = (line.split("\t") for line in shown.splitlines())
    assert ";".join(titles) == "learner;average;last;last, mean of classes;MB;s learning;orders"
    records = read(tmp_path)
    assert len(records) == 4
    assert [row[0] for row in rows] == ["cbcl", "ncm"]
    for name, mean, final, *_, orders in rows:
        some = [record for record in records if record["run"]["learner"] == name]
        for cell, score in ((mean, average), (final, last)):
            found = summary([100.0 * score(record) for record in some])
            assert cell == f"{found.mean:.2f} ± {found.std:.2f}"
        assert orders == "2"
    for record in records:
        run = record["run"]
        asked = {"data": "digits", "backbone": "identity", "increment": 2, "shots": 5}
        assert asked.items() <= run.items()
        assert run["seed"] in (0, 1)
        assert 0.85 < average(record) < 0.95
    before = (tmp_path / "study-digits.jsonl").read_bytes()
    assert said(*run_digits(tmp_path)) == shown
    assert (tmp_path / "study-digits.jsonl").read_bytes() == before
    said(*run_digits(tmp_path, orders=3))
    assert len(read(tmp_path)) == 6


def test_every_option_reaches_the_run(tmp_path: Path) -> None:
    protocol = "--increment 1 --base 2 --shots 7 --classes 6 --max-centroids 9 --seeds 0"
    command = f"run digits {protocol} --workers 1"
    said(command, "--learner", " cbcl, ncm,", "--results", tmp_path)
    first, second = read(tmp_path)
    given = {"increment": 1, "base": 2, "shots": 7, "classes": 6, "seed": 0}
    assert {name: first["run"][name] for name in given} == given
    assert first["increments"] == [2, 1, 1, 1, 1]
    assert first["run"]["max_centroids"] == 9
    assert second["run"]["max_centroids"] is None  # which means nothing to ncm
    assert max(first["centroids"]) <= 9


@pytest.mark.parametrize(
    ("words", "seeds"),
    [("7", [7]), ("20-22", [20, 21, 22]), ("5,0, 3", [5, 0, 3]), ("0-1,9,1-2", [0, 1, 9, 2])],
)
def test_seeds_are_ranges_and_lists_and_none_is_run_twice(
    words: str, seeds: list[int], tmp_path: Path
) -> None:
    said(*run_digits(tmp_path, "--seeds", words, learner="ncm"))
    assert [record["run"]["seed"] for record in read(tmp_path)] == seeds


def test_the_usual_order_does_not_depend_on_the_seed(tmp_path: Path) -> None:
    said(*run_digits(tmp_path, "--usual-order", learner="ncm", orders=2))
    first, second = read(tmp_path)
    assert first["run"]["usual_order"] is second["run"]["usual_order"] is True
    assert first["classes"] == second["classes"]


def test_the_base_is_learned_whole_and_the_rest_from_the_shots(tmp_path: Path) -> None:
    said(*run_digits(tmp_path, "--base", 4, "--whole-base", learner="knn", orders=1))
    (record,) = read(tmp_path)
    assert record["run"]["whole_base"] is True
    first, *rest = record["centroids"]  # every vector is one
    assert first > 400
    assert np.diff([first, *rest]).tolist() == [10, 10, 10]


def test_a_learner_named_twice_is_run_and_counted_once(tmp_path: Path) -> None:
    shown = said(*run_digits(tmp_path, learner="ncm, ncm,,ncm"))
    assert [line.split("\t")[0] for line in shown.splitlines()] == ["learner", "ncm"]
    assert shown.splitlines()[1].endswith("\t2")
    assert (tmp_path / "study-digits.jsonl").read_bytes().count(b"\n") == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_is_told_and_the_rest_is_run(workers: int, tmp_path: Path) -> None:
    result = bench(*run_digits(tmp_path, "--max-centroids", 1, "--workers", workers))
    assert result.exit_code == 1
    assert [line.split("\t")[0] for line in result.stdout.splitlines()] == ["learner", "ncm"]
    first, second = sorted(result.stderr.splitlines())
    for seed, line in enumerate((first, second)):
        assert f": cbcl on digits, seed {seed}, failed: max_centroids=1 cannot hold 2" in line
    assert len(read(tmp_path)) == 2


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cbcl_study.data.vectors.features", ["vectors", "digits"]),
        ("cbcl_study.data.vectors.features", ["run", "digits"]),
        ("cbcl_study.runs.execute", ["run", "digits"]),
        ("cbcl_study.runs.execute", ["paper"]),
        ("cbcl_study.data.downloads.download", ["download", "digits", "somewhere"]),
        ("cbcl_study.records.read", ["report"]),
        ("cbcl_study.data.vectors.kept", ["list"]),
    ],
)
def test_ctrl_c_is_told_the_same_anywhere(
    place: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(place, stopped)
    assert (
        refused(*words) == "Error: stopped. What was finished is kept; the same command goes on.\n"
    )


def test_one_order_has_no_spread(tmp_path: Path) -> None:
    assert "±" not in said(*run_digits(tmp_path, orders=1))


def test_quiet_says_nothing(tmp_path: Path) -> None:
    assert said(*run_digits(tmp_path, "-q", learner="ncm", orders=1)) == ""
    assert len(read(tmp_path)) == 1
    assert said("report", "-q", "--results", tmp_path) == ""


def test_an_unknown_learner_is_told_with_those_like_it(tmp_path: Path) -> None:
    told = refused(*run_digits(tmp_path / "results", learner="cbcl,nmc"))
    known = "`cbcl bench list` lists them."
    assert f"there is no learner 'nmc': did you mean 'ncm'? {known}\n" in told
    told = refused(*run_digits(tmp_path / "results", learner="xyz"))
    assert f"there is no learner 'xyz': give a name, or module:Class of your own. {known}\n" in told
    assert not (tmp_path / "results").exists()


def write_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write the learner of docs/bench.md under another name, and return what runs it."""
    code = re.search("```python\n(import numpy.*?)```", BENCH, re.DOTALL)
    assert code is not None
    module = f"mine_{folder.name}"  # modules are imported once
    (folder / f"{module}.py").write_text(code[1])
    monkeypatch.chdir(folder)
    return f"{module}:NearestMean"


def test_ones_own_learner_runs_beside_others_as_documented(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_own(tmp_path, monkeypatch)
    told = said(*run_digits(tmp_path, "--workers", 2, learner=f"{name},ncm", orders=3))
    own, ncm = (line.split("\t") for line in told.splitlines() if " ± " in line)
    (printed,) = re.findall("^mine:NearestMean  (.*)\nncm  +(.*)$", BENCH, re.MULTILINE)
    assert [re.split(" {2,}", line)[:4] for line in printed] == [own[1:5], ncm[1:5]]


def test_ones_own_learner_runs_again_only_when_its_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = write_own(tmp_path, monkeypatch)
    asked = run_digits(tmp_path, learner=name, orders=1)
    said(*asked)
    said(*asked)
    path = tmp_path / "study-digits.jsonl"
    (line,) = path.read_text().splitlines()
    digest = json.loads(line)["inputs"]["learner"]
    path.write_text(line.replace(digest, "0" * 64) + "\n")
    said(*asked)
    assert len(path.read_text().splitlines()) == 2
    (record,) = read(tmp_path)
    assert record["inputs"]["learner"] == digest


EACH = "predict must return one label per vector, each a string as in y"
FAULTY = {  # what is told, and what predict or, after a semicolon, state does
    "Stateless": ("has no method state", "partial_fit = predict = lambda self, X, y=None: X"),
    "Greedy": ("cannot be called with seed=0 alone: missing", None),
    "Wrong": ("predict must return labels that it learned: got 'yours'", "['yours'] * len(X)"),
    "Short": (f"{EACH}: got 1 for 72 vectors.", "self.labels[:1]"),
    "Column": (f"{EACH}: got an array of shape (72, 1).", "self.labels[:1].repeat(72)[:, None]"),
    "Silent": (f"{EACH}: got None.", "None"),
    "Numeric": (f"{EACH}: got 9.0.", "[9.0] * len(X)"),
    "Ragged": (f"{EACH}: got [1].", "[[1], [1, 2]]"),
    "Listed": ("state() must return a dict of arrays: got a list.", "None; []"),
    "Void": ("state() must return a dict of arrays: got None.", "None; None"),
    "Object": ("numbers or strings: got an array of object as 'a'.", "None; {'a': object()}"),
    "Uneven": ("ValueError in returned.py, line ", "None; {'a': [[1], [1, 2]]}"),
    "Broken": ("ZeroDivisionError in faulty_broken.py, line 5", "1 / 0"),
    "Ending": ("SystemExit in faulty_ending.py, line 5: 3.", "__import__('sys').exit(3)"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_what_is_wrong_with_ones_own_learner_is_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, code = FAULTY[name]
    answer, _, state = (code or "").partition("; ")
    methods = f"""
        def __init__(self, seed{"" if code else ", depth"}): self.labels = []
        def partial_fit(self, X, y): self.labels = y
        def predict(self, X): return {answer}
        def state(self, X=None): return {state or {}}
    """
    body = f"    {code}\n" if name == "Stateless" else methods
    module = f"faulty_{name.lower()}"
    (tmp_path / f"{module}.py").write_text(f"class {name}:\n{body}")
    monkeypatch.chdir(tmp_path)
    told = bench(*run_digits(tmp_path, learner=f"{module}:{name}", orders=1))
    assert told.exit_code == 1
    (line,) = [line for line in told.output.splitlines() if name in line]
    assert expected in line


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nowhere.at.all:Mine", "cannot be loaded from nowhere.at.all:Mine: No module named"),
        ("json:Mine", "cannot be loaded from json:Mine: module 'json' has no attribute 'Mine'"),
        ("json:dumps", "learner 'json:dumps' is no class"),
        ("ends_at_once:Mine", "cannot be loaded from ends_at_once:Mine: 3"),
    ],
)
def test_a_learner_that_is_not_there_is_one_line(
    name: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_at_once.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert expected in refused(*run_digits(tmp_path, learner=name))


def test_a_learner_that_needs_torch_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "cbcl_study.rivals.fearnet", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    told = bench(*run_digits(tmp_path, learner="fearnet", orders=1)).output
    assert "the learner FearNet needs PyTorch: pip install torch (" in told


@pytest.mark.usefixtures("empty")
def test_learners_of_other_packages_have_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = re.search("```python\n(import numpy.*?)```", BENCH, re.DOTALL)
    assert code is not None
    points = {"nearest-mean": "packaged:NearestMean", "gone": "packaged:Gone"}
    install(monkeypatch, tmp_path, "packaged", code[1], cbcl_learners=points)
    listed = bench("list")
    assert "\nnearest-mean\tNearest class mean: my first learner.\n" in listed.output
    assert "learner 'gone' cannot be loaded from packaged:Gone" in listed.output
    assert "nearest-mean" in said(*run_digits(tmp_path, learner="nearest-mean", orders=1))


def test_what_is_not_there_is_told_with_the_command_that_makes_it(
    empty: Path, tmp_path: Path
) -> None:
    told = refused("run", "mnist", "--results", tmp_path / "results")
    assert "'mnist' is neither a data set (cifar100, " in told
    assert "digits) nor a folder here with one folder per class." in told
    told = refused("run", "cub200", "--results", tmp_path / "results")
    assert "cub200 through efficientnet-lite0@2views are not here" in told
    command = "cbcl bench vectors cub200 --data DIR --backbone efficientnet-lite0@2views"
    assert f"`{command}` makes them" in told
    told = refused("vectors", "cifar100", "--backbone", "vgg16")
    assert "`cbcl bench vectors cifar100 --data DIR --backbone vgg16` makes them" in told
    told = refused("vectors", "cifar100", "--data", tmp_path / "nowhere")
    assert "nowhere is no directory, so cifar100 cannot be in it" in told
    assert "digits cannot be downloaded" in refused("download", "digits", tmp_path / "data")
    assert not (tmp_path / "results").exists()
    assert not (tmp_path / "data").exists()
    assert not empty.exists()


def test_pictures_that_only_bear_a_data_sets_name_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    folders(tmp_path / "caltech101", count=5)
    asked = "caltech101 --backbone pixels --data"
    made = bench("vectors", *asked.split(), tmp_path)
    told = "Warning: caltech101 has 101 classes; here are 20 pictures of 4 classes.\n"
    assert (made.exit_code, made.stderr) == (0, told)
    run = bench(
        "run", *asked.split(), tmp_path, "--learner=ncm", "--seeds=0", "--results", tmp_path
    )
    assert (run.exit_code, run.stderr) == (0, told)


def test_data_that_would_not_be_used_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders(tmp_path / "things", count=5)
    for data in (tmp_path / "things", "digits"):
        for command in ("vectors", "run"):
            told = bench(command, data, "--data", tmp_path)
            assert told.exit_code == 2
            assert f"--data is for data sets such as cifar100: {data} needs none." in told.output
    monkeypatch.setenv("CBCL_DATA", str(tmp_path))  # for all commands: it is meant for others
    said(*run_digits(tmp_path, learner="ncm", orders=1))


def test_records_that_are_broken_are_told_with_file_and_line(tmp_path: Path) -> None:
    said(*run_digits(tmp_path, learner="ncm", orders=1))
    path = tmp_path / "study-digits.jsonl"
    path.write_bytes(b"<<<<<<< HEAD\n" + path.read_bytes())
    for words in (run_digits(tmp_path), ["report", "--results", tmp_path]):
        assert f"{path} is broken in line 1" in refused(*words)


def test_wrong_usage_exits_2(tmp_path: Path) -> None:
    nobody = [["run", "digits", "--learner", names] for names in ("", " ", " , ,")]
    nothing = [[command, name] for command in ("run", "vectors") for name in ("", "  ")]
    others = [
        ["run"],
        ["run", "digits", "--shots", "0"],
        *(["run", "digits", "--seeds", seeds] for seeds in ("", "x", "-1", "1-", "3-1", "0,,1")),
        ["run", "digits", "--whole-base"],
        ["fly"],
    ]
    for words in [*nobody, *nothing, *others]:
        results = ["--results", tmp_path / "results"] if words[0] == "run" else []
        assert bench(*words, *results).exit_code == 2
    assert not (tmp_path / "results").exists()


def test_the_report_is_a_page_and_markdown_made_of_the_records(tmp_path: Path) -> None:
    results = tmp_path / "results"
    said(*run_digits(results))
    page, tables = results / "report.html", tmp_path / "new" / "study.md"
    assert said("report", "--results", results) == f"wrote {page}, from 4 runs.\n"
    assert page.read_text().startswith("<!")
    page.unlink()
    told = said("report --results", results, "--html", tmp_path / "page.html", "--markdown", tables)
    assert told == f"wrote {tmp_path / 'page.html'} and {tables}, from 4 runs.\n"
    assert not page.exists()
    assert "|" in tables.read_text()
    for text in (tables.read_text(), (tmp_path / "page.html").read_text()):
        assert "digits" in text
        assert "identity" in text


def test_without_records_there_is_nothing_to_report(tmp_path: Path) -> None:
    told = refused("report", "--results", tmp_path / "none")
    assert (
        f"{tmp_path / 'none'} has no records: `cbcl bench run` and `cbcl bench paper` make some"
        in told
    )
    assert [*tmp_path.iterdir()] == []


def test_the_paper_needs_vectors_and_says_which(empty: Path, tmp_path: Path) -> None:
    result = bench("paper", "--orders", 1, "--results", tmp_path / "results")
    assert result.exit_code == 1
    wanted = experiments.paper(1)
    missing = {(run.data, run.backbone) for run in wanted}
    assert len(missing) == 9
    assert result.stdout.startswith(
        f"0 of {len(wanted)} runs are recorded in {tmp_path / 'results'} ("
    )
    lines = [line.partition(": ")[2] for line in result.stderr.splitlines()]
    assert sorted(lines) == sorted(
        f"the vectors of {data} through {name} are not here: "
        f"`cbcl bench vectors {data} --data DIR --backbone {name}` makes them."
        for data, name in missing
    )
    assert not (tmp_path / "results").exists()
    assert not empty.exists()


def test_what_ctrl_c_stops_goes_on_with_the_same_command(tmp_path: Path) -> None:
    asked = "run digits --increment 2 --learner flb --results"
    more = ["--seeds", "0-29", "--workers", "2"]
    command = [sys.executable, "-m", "cbcl", "bench", *asked.split(), str(tmp_path), *more]
    path = tmp_path / "study-digits.jsonl"
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        until(lambda: path.exists() and path.read_bytes().count(b"\n") >= 3, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: its workers get it as well
        shown, told = process.communicate(timeout=30)  # until nobody who could say anything is left
    assert process.returncode == 1
    assert shown == ""
    assert told == "Error: stopped. What was finished is kept; the same command goes on.\n"
    stopped = path.read_bytes()
    done = len(read(tmp_path))
    assert 3 <= done < 30
    assert stopped.count(b"\n") == done
    said(asked, tmp_path, "--seeds", f"0-{done + 1}")
    assert path.read_bytes().startswith(stopped)
    assert {record["run"]["seed"] for record in read(tmp_path)} >= {*range(done + 2)}


def test_a_folder_of_pictures_is_seen_learned_and_recognized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folders(Path("things"), count=10)
    told = said("vectors", "things")
    assert told.startswith(
        "folder things through efficientnet-lite0@2views: "
        "40 pictures of 4 classes, 1280 numbers each ("
    )
    assert kept()["folder things"] == ["efficientnet-lite0@2views"]
    assert "\nfolder things\tefficientnet-lite0@2views\n" in said("list")
    asked = "--increment 2 --shots 3 --seeds 0,1 --results out"
    shown = said(f"run things --workers 1 {asked}")
    named = [line.split("\t")[0] for line in shown.splitlines()]
    assert named == ["learner", "discriminant", "cbcl", "ncm"]
    records: list[Any] = read(Path("out"))
    assert len(records) == 6
    for record in records:
        assert sorted(record["classes"]) == ["astronaut", "chelsea", "coffee", "rocket"]
        assert record["tested"] == [2] * 4
        assert [view["size"] for view in record["inputs"]["preprocessing"]["views"]] == [288, 224]
        assert last(record) >= 0.875
        assert record["run"]["data"] == "folder things"
    path = Path("out", "study-folder-things.jsonl")
    before = path.read_bytes()
    assert json.loads(before.splitlines()[0]) in records
    assert str(tmp_path).encode() not in before  # where it was is nobody's business
    for name in ("./things", "things/", tmp_path / "things", "../" + tmp_path.name + "/things//"):
        assert said(f"run {name} {asked}") == shown
        assert path.read_bytes() == before
    assert len(kept()) == len([name for name in kept() if name != "folder things"]) + 1
