"""Output: nothing that a label or a file's name holds gets to control a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import click
import pytest
from support.cli import run

from cbcl import MemoryFileError
from cbcl.cli.output import Output, print_csv_lines, print_json_lines, print_table
from cbcl.method.model import Guess
from cbcl.recognition.answer import Answer, Reason

# Colours, a window's title, CSI as one letter, text that runs backwards, half a letter, a bell.
HOSTILE = "cup\x1b[31m\x1b]0;title\x07\x9b2J\u202ekey\x7f\u2028\udce9"
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
ANSWER = Answer(
    label=HOSTILE,
    confidence=0.5,
    ranking=(Guess(HOSTILE, 0.5, 1.0), Guess(HOSTILE, 0.4, 1.1)),
    evidence=(Reason(HOSTILE, 1.0, 1.0, 1, (), 0),),
    strangeness=0.5,
    picture=HOSTILE,
)
SHOWN = r"cup\u001b[31m\u001b]0;title\u0007\u009b2J\u202ekey\u007f\u2028\udce9"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object], *, tty: bool) -> str:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "2000")
    file = Terminal() if tty else io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    monkeypatch.setattr(sys, "stderr", file)
    with suppress(click.exceptions.Exit):  # as after problems
        work()
    return re.sub("\x1b\\[[0-9]*m", "", file.getvalue()) if tty else file.getvalue()


def test_a_table_lists_no_guesses_of_0_percent_but_json_and_csv_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ranking = (Guess("cup", 0.97, 1.0), Guess("mug", 0.025, 1.3), Guess("chair", 0.0049, 1.5))
    sure = ANSWER._replace(label="cup", confidence=0.97, ranking=ranking, picture="new.jpg")
    answers = [sure, sure._replace(ranking=ranking[::2]), sure._replace(label=None)]

    def printed_by(how: Callable[..., None], **settings: bool) -> str:
        return printed(monkeypatch, partial(how, answers, **settings), tty=False)

    rows = [line.split("\t") for line in printed_by(print_table, why=False).splitlines()]
    assert [others for *_, others in rows[1:]] == ["mug 2%", "", "cup 97%, mug 2%"]
    assert printed_by(print_csv_lines).count("chair") == 3
    assert printed_by(print_json_lines, why=False).count("chair") == 3


WAYS: dict[str, Callable[[], object]] = {
    "say": lambda: Output().say(f"undone: learn {HOSTILE}"),
    "table": lambda: Output().table(["label", "photos"], [(HOSTILE, 3)]),
    "problems": lambda: Output().problems([MemoryFileError(HOSTILE[:-1], "is damaged")]),
    "answers": partial(print_table, [ANSWER], why=True),
    "JSON": partial(print_json_lines, [ANSWER], why=True),
    "CSV": partial(print_csv_lines, [ANSWER]),
}


def test_what_click_refuses_controls_no_terminal_either() -> None:
    for arguments in (["show", "a", "b\x1b[31m"], ["check", "no\x1b[31m.cbcl"]):
        result = run(*arguments)
        assert result.exit_code != 0
        assert not CONTROL.search(result.output)
        assert r"\u001b[31m" in result.output


@pytest.mark.parametrize("tty", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_hostile_label_is_shown_and_not_obeyed(
    monkeypatch: pytest.MonkeyPatch, way: Callable[[], object], tty: bool
) -> None:
    text = printed(monkeypatch, way, tty=tty)
    assert not CONTROL.search(text)
    assert SHOWN[: -len(r"\udce9")] in text


def test_json_means_the_same_and_csv_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(printed(monkeypatch, WAYS["JSON"], tty=False))["label"] == HOSTILE
    (row,) = csv.DictReader(io.StringIO(printed(monkeypatch, WAYS["CSV"], tty=False)))
    assert row["label"] == SHOWN


def test_cells_stay_in_their_row_and_ordinary_text_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    labels = ["two\nlines\tand a tab", "café", "猫", "👩‍🔬", "می‌خواهم"]
    table = printed(
        monkeypatch, lambda: Output().table(["label"], [[label] for label in labels]), tty=False
    )
    assert table.splitlines() == ["label", r"two\u000alines\u0009and a tab", *labels[1:]]


def test_an_error_controls_no_terminal_either() -> None:
    result = run("show", "no\x1b]0;title\x07.cbcl")
    assert result.exit_code == 1
    assert not CONTROL.search(result.output)
    assert r"no\u001b]0;title\u0007.cbcl does not exist" in result.output
