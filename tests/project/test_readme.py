"""The README says what the records say, and its session prints what it shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import pytest
from click.testing import CliRunner
from support.demo import DemoRun

from cbcl.cli.commands import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PLAIN = " ".join(README.split())
Row: TypeAlias = dict[str, str]


def study_table(title: str) -> list[Row]:
    """Read a table of docs/study.md, which another test holds against the records."""
    after = (ROOT / "docs" / "study.md").read_text().split(title, 1)[1]
    lines = after[after.index("\n|") :].strip().split("\n\n")[0].splitlines()
    cells = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def number(cell: str) -> float:
    return float(cell.split("±")[0].split("(")[0].strip(" *").replace("\N{MINUS SIGN}", "-"))


def ablation(hybrid: str, column: str = "average") -> float:
    rows = study_table("**Ablation on CIFAR-100")
    return next(number(row[column]) for row in rows if row["hybrid"] == hybrid)


def tuner_rows(*, few: bool) -> list[Row]:
    rows = study_table("**Average incremental accuracy (%) with D tuned")
    return [row for row in rows if (row["shots"] != "all") == few]


def few_shot_gains(learner: str) -> list[float]:
    """Return by how much a learner beats CBCL, in every table, with 5 and with 10 shots."""
    page = (ROOT / "docs" / "study.md").read_text()
    gains = []
    for title in re.findall(r"\*\*.* classes at a time, K = \d+\*\*(?=\n\n\| learner)", page):
        averages: dict[str, Row] = {}
        for row in study_table(title):
            if not row["average"]:  # a heading: all the data, 5 shots, 10 shots
                averages[row["learner"]] = part = {}
            else:
                part[row["learner"]] = row["average"]
        for shots in ("5 shots", "10 shots"):
            gains.append(number(averages[shots][learner]) - number(averages[shots]["cbcl"]))
    return gains


def records(name: str) -> list[Any]:
    lines = (ROOT / "results" / f"{name}.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def unknown(known: int) -> list[str]:
    """Return right, refused and found, in per cent, of five photos a class of Caltech-101."""
    for record in records("unknown"):
        how, network = record["protocol"], record["backbone"].split()[0]
        wanted = ("Caltech-101", "efficientnet-lite0", known, 5)
        if (record["about"], network, how["known"], how["shots"]) == wanted:
            result = record["results"][0]
            return [
                f"{result[name]:.0%}".replace("%", " %") for name in ("right", "refused", "found")
            ]
    raise LookupError(known)


def seeing(work: str) -> float:
    runs = [record["results"] for record in records("seeing")]
    ratios = [result["ratio"] for run in runs for result in run if result["work"] == work]
    return float(median(ratios))


def photos_per_second(way: str) -> float:
    return float(median(64 / record["results"][0]["seconds"][way] for record in records("seeing")))


def taught(things: int) -> float:
    work = f"from teaching a photo to the changed answer, {things} things known"
    results = records("serving")[-1]["results"]
    return float(next(row["milliseconds"]["50 %"] for row in results if row["work"] == work))


def few_shots() -> str:
    columns = ["1.5", "1.25", "1.1", "1", "0.75", "0"]
    rows = tuner_rows(few=True)
    assert all(row["best"] == "ncm" and row["tuned"] == row["∞ (NCM)"] for row in rows)
    lead = max(number(row["∞ (NCM)"]) - min(number(row[name]) for name in columns) for row in rows)
    return f"up to {lead:.0f} points over fixed ones"


def linear_layer() -> str:
    gains = few_shot_gains("probe")
    assert len(gains) == 10
    return (
        f"linear layer on all the data so far is {min(gains):.1f} to {max(gains):.1f} points better"
    )


def all_the_data() -> str:
    others = [row for row in tuner_rows(few=False) if row["data"] != "CIFAR-100"]
    assert all(abs(number(row["tuned"]) - number(row["∞ (NCM)"])) <= 0.5 for row in others)
    lead = ablation("CBCL") - ablation("NCM")
    return f"the vote is {lead:.1f} points better than nearest class mean"


def k_means() -> str:
    assert abs(ablation("Trad-Agg") - ablation("CBCL")) < 0.5  # as good
    return (
        f"is {ablation('K-means') - ablation('CBCL'):.1f} points better than Agg-Var on CIFAR-100"
    )


def covariance() -> str:
    rows = study_table("**CIFAR-100, resnet50-keras, 10 classes at a time")[1:9]  # of all the data
    averages = {row["learner"]: row["average"] for row in rows}
    lead = number(averages["slda"]) - number(averages["cbcl"])
    return f"(streaming LDA) is {lead:.1f} points better there"


def tuner() -> str:
    rows = [*tuner_rows(few=False), *tuner_rows(few=True)]
    near = [row for row in rows if "(!)" not in row["tuned less best"]]
    assert all(number(row["tuned less best"]) >= -0.5 for row in near)
    assert min(number(row["tuned less best"]) for row in rows) >= -0.51  # "slightly more"
    return f"[{len(near)} of {len(rows)} comparisons]"


def making_room() -> str:
    last = "after the last"
    return (
        f"costs {ablation('CBCL', last) - ablation('merge-evenly', last):.0f} points after the last"
    )


def strangers() -> str:
    right, refused, found = unknown(10)
    return (
        f"{right} of first guesses are right, {refused} of known photos are called unknown, and "
        f"{found} of photos of classes never learned. With fifty classes: {', '.join(unknown(50))}."
    )


def speed() -> str:
    from_files = f"{seeing('from JPEG files: inference alone / all of it'):.0%}".replace("%", " %")
    again = seeing("from JPEG files: first run / second run")
    eager = seeing("Lite0, batches of 1: PyTorch eager / cbcl")
    growth = seeing("teaching 5 photos: memory of 1,000 classes / of 10")
    return (
        f"{photos_per_second('cbcl'):.0f} photos a second "
        f"({photos_per_second('int8'):.0f} in 8 bits), {eager:.1f} times PyTorch's eager mode; "
        f"from JPEG files {from_files} of that; a photo seen before is {again:.0f} times as fast. "
        f"Teaching five photos with 1,000 classes known takes {growth:.2f} times as long "
        "as with 10."
    )


def serving() -> str:
    load = next(row for row in records("serving")[-1]["results"] if "statuses" in row)
    requests = sum(load["statuses"].values())
    assert set(load["statuses"]) == {"recognize 200", "learn 200"}  # no error
    assert 4 * load["statuses"]["learn 200"] == requests  # a quarter of them teaching
    assert load["examples acknowledged"] == load["examples in the file"]  # no lost example
    assert f"with 32 clients: {requests:,} requests" in PLAIN
    return (
        f"{load['requests a second']:.0f} requests a second. From teaching a photo to the changed "
        f"answer it takes {taught(10):.0f} ms, with 1,000 things known {taught(1000):.0f} ms."
    )


def cells() -> list[Row]:
    """Return the nine cells of the README's first table, which another test holds to records."""
    lines = README.split("<!-- study -->")[1].split("\n\n")[1].strip().splitlines()
    rows = [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines]
    table = [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]
    return [row for row in table if row["pictures of each class"] in ("all", "5", "10")]


def leads(other: str) -> list[float]:
    """Return by how much the default is more accurate, in the cells that have both."""
    return [
        number(row["CBCL, default"]) - number(row[other]) for row in cells() if row[other] != "—"
    ]


def batch() -> str:
    differences = [
        [
            float(part.replace("\N{MINUS SIGN}", "-"))
            for part in row["default less batch"].split("±")
        ]
        for row in cells()
    ]
    words = {4: "four", 1: "one"}
    better = [mean for mean, error in differences if mean > 2 * error]
    (worse,) = [mean for mean, error in differences if mean < -2 * error]
    level = len(differences) - len(better) - 1
    assert len(differences) == 9
    return (
        f"in {words[len(better)]} of nine cells (by up to {max(better):.1f} points), level in "
        f"{words[level]}, and {-worse:.1f} points worse in one, CIFAR-100 with 500 pictures of "
        "each class, where batch learning keeps 411 MB and the default 5.8. It beats nearest class "
        f"mean by {min(leads('NCM')):.1f} to {max(leads('NCM')):.1f} points, and streaming LDA by "
        f"{min(leads('SLDA')):.1f} to {max(leads('SLDA')):.1f} (to "
        f"{max(leads('SLDA of roots')):.1f} where LDA sees the same square roots)."
    )


def teaching() -> str:
    before, *_, after = records("person")
    rows = [row for row in after["results"] if row.get("against_single_snaps") is not None]
    lost = max(abs(row["against_single_snaps"]) for row in rows)
    was = [
        row["right"] for row in before["results"] if (row.get("against_single_snaps") or 0) < -0.1
    ]
    as_met = after["results"][-1]
    share = {name: f"{100 * value:.1f} %" for name, value in as_met["as_met"].items()}
    return (
        f"within {100 * lost:.1f} points. Before, such a memory answered "
        f"{100 * min(was):.0f} to {100 * max(was):.0f} % of them. Of ten household things, known "
        f"from three photos each, {share['right']} of other photos are right, {share['refused']} "
        f"refused and {share['wrong']} wrong, and {share['strangers_found']} of strangers are "
        f"unknown, {100 * as_met['worst_strangers_found']:.1f} % in the worst of five draws; the "
        f"confidence is off by {share['calibration_error']} on average"
    )


def solving() -> str:
    rows = {row["work"]: row["seconds"] for row in records("heads")[-1]["results"]}
    work = "one more view to the changed answer, {} known"
    seconds = [
        next(s["teach and ask"] for name, s in rows.items() if name.startswith(work.format(count)))
        for count in ("10", "100", "1,000")
    ]
    ten, hundred, thousand = (f"{1000 * value:.0f} ms" for value in seconds)
    return f"{ten} with 10 things known, {hundred} with 100, {thousand} with 1,000."


CLAIMS = [
    batch,
    teaching,
    solving,
    few_shots,
    linear_layer,
    all_the_data,
    k_means,
    covariance,
    tuner,
    making_room,
    strangers,
    speed,
    serving,
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_sentence_has_the_figures_of_the_records(claim: Callable[[], str]) -> None:
    assert claim() in PLAIN


def test_every_sentence_with_a_figure_is_compared() -> None:
    """Take away what is compared: no figure is left but those of names and of the test suite."""
    results = PLAIN.split("What this says, plainly")[1].split("More tables with their records")[0]
    for claim in CLAIMS:
        results = results.replace(claim(), "")
    names = r"33 frames|300 times|CIFAR-100|Caltech-101|CUB-200|1,000|32 clients"
    names += r"|20,000 requests|200 processes"
    assert re.findall(r"\d[\d.,]*", re.sub(names, "", results)) == []


def session() -> list[tuple[str, list[str]]]:
    """Return the commands of the README's session, each with the lines that it shows."""
    block = README.split("## A session with photos")[1].split("```console\n")[1].split("```")[0]
    commands = block.removeprefix("$ ").split("\n$ ")
    return [
        (lines[0], lines[1:]) for lines in (command.strip().splitlines() for command in commands)
    ]


def test_the_session_prints_what_it_shows(
    demo_run: DemoRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "photos").symlink_to(demo_run.place / "photos")
    monkeypatch.chdir(tmp_path)
    for command, shown in session():
        words = []
        for word in shlex.split(command)[1:]:
            words += sorted(map(str, Path().glob(word))) if "*" in word else [word]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        printed = [line.split("\t") for line in result.output.splitlines()]
        cells = [re.split(r"\s{2,}", line) for line in shown]
        assert [[words_of(cell) for cell in line] for line in printed] == [
            [words_of(cell) for cell in line] for line in cells
        ], command
        assert numbers_in(result.output) == pytest.approx(numbers_in("\n".join(shown)), rel=0.02)


DECIMALS = re.compile(r"\d+\.\d+")


def words_of(cell: str) -> str:
    return DECIMALS.sub("…", cell)


def numbers_in(text: str) -> list[float]:
    """Return distances, which differ a little between JPEG decoders, but no seconds."""
    return [float(number) for number in DECIMALS.findall(re.sub(r"in [\d.]+ s;", "", text))]
