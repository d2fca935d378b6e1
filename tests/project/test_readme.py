"""README is short, its session prints what it shows, and its table is that of the study."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.demo import DemoRun

from cbcl.cli.commands import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
COLUMNS = [0, 1, 3, 4, 6, 7, 9]  # of the study's table: all pictures and five of each; megabytes


def rows(page: str, first: str) -> list[list[str]]:
    """Return the cells of the rows of the table that begins with this cell, by learner."""
    table = page.split(f"| {first} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_it_is_read_in_two_minutes() -> None:
    assert len(README.splitlines()) <= 140


def test_its_table_is_that_of_the_study() -> None:
    study = (ROOT / "docs" / "study.md").read_text().split("**Average incremental accuracy")[1]
    every = {name: cells for name, *cells in rows(study, "learner")}
    for name, *shown in rows(README, "learner"):
        cells = every[name.split(": `")[0].removesuffix(": a linear layer, all data at once")]
        assert shown == [cells[column] for column in COLUMNS], name


def test_its_figures_of_the_unknown_are_those_of_the_results() -> None:
    results = (ROOT / "docs" / "results.md").read_text()
    data = {tuple(cells[:2]): cells[2:] for cells in rows(results, "data")}
    (told,) = re.findall(
        r"from three photos each, (\d+) % .* (\d+) % of strangers .*"
        r" of ten things (\d+) % and (\d+) %.*among birds (\d+) % of",
        " ".join(README.split()),
    )
    figures = []
    for draw in [("Caltech-101", "2 x 3"), ("Caltech-101", "10 x 3")]:
        refused, found = data[draw][:2]
        figures += [refused, found.split()[0]]
    figures.append(data["CUB-200, classes 101-200", "2 x 3"][1].split()[0])
    assert [*map(float, told)] == pytest.approx([*map(float, figures)], abs=0.51)


def session() -> list[tuple[str, list[str]]]:
    """Return the commands of the README's session, each with the lines that it shows."""
    block = README.split("$ cd ")[1].split("```")[0]
    commands = [lines.strip().splitlines() for lines in block.split("\n$ ")]
    return [(lines[0], lines[1:]) for lines in commands if lines[0].startswith("cbcl ")]


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
        assert [[words_of(cell) for cell in line if cell] for line in printed] == [
            [words_of(cell) for cell in line] for line in cells
        ], command
        assert numbers_in(result.output) == pytest.approx(numbers_in("\n".join(shown)), rel=0.02)


DECIMALS = re.compile(r"\d+\.\d+")


def words_of(cell: str) -> str:
    return DECIMALS.sub("…", cell)


def numbers_in(text: str) -> list[float]:
    """Return distances, which differ a little between JPEG decoders, but no seconds."""
    return [float(number) for number in DECIMALS.findall(re.sub(r"in [\d.]+ s;", "", text))]
