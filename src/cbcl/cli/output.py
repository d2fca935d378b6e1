"""Output of the command line: tables and colours on a terminal, plain text in a pipe."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cbcl.errors import CBCLError, PictureError

if TYPE_CHECKING:
    from cbcl.recognition.answer import Answer

GAP = 2  # spaces between the columns of a table

# Control letters, which terminals obey; marks that reverse text; halves of characters.
UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str, keep: str = "") -> str:
    r"""Escape control letters, except those to keep, as JSON does, so that no terminal obeys them.

    All output goes through here: labels and names of files may be anybody's.

    >>> printable("cup\x1b[31m")
    'cup\\u001b[31m'
    """
    return UNPRINTABLE.sub(
        lambda match: match[0] if match[0] in keep else f"\\u{ord(match[0]):04x}", text
    )


class Output:
    """Standard output, unless the command is to be quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(printable(text, keep="\n"))

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table on a terminal, lines with tabs in a pipe."""
        cells = [[printable(str(cell)) for cell in row] for row in rows]
        if self.quiet or not cells:
            return
        if not sys.stdout.isatty():
            click.echo("\n".join("\t".join(row) for row in [titles, *cells]))
            return
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        console = Console()
        widths = column_widths([titles, *cells], console.width)
        columns = [
            Column(title, width=width, overflow="fold")
            for title, width in zip(titles, widths, strict=True)
        ]
        table = Table(*columns, box=None, header_style="dim", pad_edge=False)
        for row in cells:
            table.add_row(*map(Text, row))  # as text: a label may look like markup
        console.width = max(console.width, _total(widths))
        console.print(table)

    def problems(self, problems: Sequence[CBCLError]) -> None:
        """Report what was skipped on standard error; if there is any, exit with code 1.

        A problem that several photos have is explained for the first only.
        """
        told: set[tuple[str, str]] = set()
        for problem in problems:
            reason = (problem.problem, problem.advice)
            again = reason in told and isinstance(problem, PictureError)
            text = f"skipped, too: {problem.subject}" if again else f"skipped: {problem}"
            click.echo(printable(text), err=True)
            told.add(reason)
        if problems:
            raise click.exceptions.Exit(1)

    @contextmanager
    def progress(
        self, doing: str, *, beside_output: bool = False
    ) -> Iterator[Callable[[int, int], None]]:
        """Show a bar with rate and time left, on a terminal without other output."""
        if self.quiet or not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
            yield lambda *_: None
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            ProgressColumn,
            Task,
            TimeRemainingColumn,
        )
        from rich.text import Text

        class Rate(ProgressColumn):
            def render(self, task: Task) -> Text:
                return Text(f"{task.speed:.0f}/s" if task.speed else "")

        text = "{task.description}"
        columns = (text, BarColumn(), MofNCompleteColumn(), Rate(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total or None)


def column_widths(rows: Sequence[Sequence[str]], room: int) -> list[int]:
    """Return the widths of columns; the widest are made narrower until the table fits `room`.

    No word is cut, such as the name of a file: where the words need more than `room`, the terminal
    breaks the lines.

    >>> rows = [("photo", "because"), ("inbox/1.jpg", "close to cup")]
    >>> column_widths(rows, 22), column_widths(rows, 12)
    ([11, 9], [11, 12])
    """
    from rich.cells import cell_len

    columns = [*zip(*rows, strict=True)]
    widths = [max(map(cell_len, cells)) for cells in columns]
    least = [max(cell_len(word) for cell in cells for word in cell.split(" ")) for cells in columns]
    if _total(least) > room:
        return widths
    while _total(widths) > room:
        slack = [column for column, width in enumerate(widths) if width > least[column]]
        widths[max(slack, key=widths.__getitem__)] -= 1
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> count(1, "photo"), count(3, "photo")
    ('1 photo', '3 photos')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def name_of(label: str) -> str:
    """Return a label for people: "" stands for photos of none of the known things.

    >>> name_of("cup"), name_of("")
    ('cup', 'none of these')
    """
    return label or "none of these"


def describe_alike(memory: Path, label: str, known: str) -> str:
    """Return a note on a label that differs from a known one only in case or space."""
    command = shlex.join(["cbcl", "merge", str(memory), label, known])
    return f"{label!r} and {known!r} are two things now; if they are one: `{command}`."


def print_table(answers: Iterable[Answer], *, why: bool) -> None:
    """Print a table: photo, answer, confidence, the next guesses; with `why`, the evidence.

    Guesses of 0 % are left out: they are noise to people. JSON and CSV have them.
    """
    rows = [[*_cells(answer), *(_evidence_cells(answer) if why else [])] for answer in answers]
    titles = ["photo", "answer", "confidence", "else", *(["because", "strangeness"] if why else [])]
    Output().table(titles, rows)


def _cells(answer: Answer) -> list[str]:
    others = answer.ranking[answer.label is not None :][:2]
    shares = [(guess.label, f"{guess.confidence:.0%}") for guess in others]
    other_guesses = ", ".join(f"{label} {share}" for label, share in shares if share != "0%")
    return [answer.picture, answer.label or "unknown", f"{answer.confidence:.0%}", other_guesses]


def _evidence_cells(answer: Answer) -> list[str]:
    parts = []
    for (label, pictures), reasons in groupby(answer.evidence, key=attrgetter("label", "pictures")):
        distances = ", ".join(f"{reason.distance:.3g}" for reason in reasons)
        of_many = f" ({count(pictures, 'photo')})" if pictures > 1 else ""
        parts.append(f"{distances} from {label}{of_many}")
    return ["; ".join(parts), f"{answer.strangeness:.2f}"]


def print_json_lines(answers: Iterable[Answer], *, why: bool) -> None:
    """Print one JSON object per photo: `Answer.as_dict`; with `why`, the evidence, too."""
    for answer in answers:
        fields = answer.as_dict()
        if why:
            fields["evidence"] = [
                {
                    "label": reason.label,
                    "distance": reason.distance,
                    "weight": reason.weight,
                    "photos": reason.pictures,
                }
                for reason in answer.evidence
            ]
        print_json(fields)


def print_json(fields: Mapping[str, object]) -> None:
    """Print an object on a line, its control letters as JSON's own escapes."""
    click.echo(printable(json.dumps(fields, ensure_ascii=False)))


def print_csv_lines(answers: Iterable[Answer]) -> None:
    """Print comma-separated values; the ranking is text: cup 0.97; mug 0.02."""
    write = csv_writer(["photo", "label", "confidence", "strangeness", "ranking"], keep="\n\t")
    for answer in answers:
        fields = answer.as_dict()
        guesses = fields.pop("ranking")
        ranking = "; ".join(f"{guess['label']} {guess['confidence']}" for guess in guesses)
        write([*fields.values(), ranking])


def csv_writer(titles: Sequence[str], keep: str = "") -> Callable[[Iterable[object]], None]:
    """Print the titles as CSV; return a function that prints a row at once."""
    writer = csv.writer(sys.stdout, lineterminator="\n")

    def write(row: Iterable[object]) -> None:
        writer.writerow([printable(cell, keep) if isinstance(cell, str) else cell for cell in row])
        sys.stdout.flush()

    write(titles)
    return write
