"""What the command line shows: tables and colours on a terminal, plain text in a pipe."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import click

from cbcl.errors import CBCLError

if TYPE_CHECKING:
    from cbcl.recognition.answer import Answer

Write: TypeAlias = Callable[[Sequence["Answer"]], None]


class Output:
    """Where things are shown, unless they are to be quiet."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet

    def say(self, text: str) -> None:
        if not self.quiet:
            click.echo(text)

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """On a terminal a table; in a pipe, lines with tabs."""
        cells = [[str(cell) for cell in row] for row in rows]
        if self.quiet or not cells:
            return
        if not sys.stdout.isatty():
            click.echo("\n".join("\t".join(row) for row in [titles, *cells]))
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*titles, box=None, header_style="dim", pad_edge=False)
        for row in cells:
            table.add_row(
                *(Text(cell) for cell in row)
            )  # as text, since a label may look like markup
        Console().print(table)

    def problems(self, problems: Sequence[CBCLError]) -> None:
        """Pictures that were left out, each with its name; the command has not done all it was asked to."""
        for problem in problems:
            click.echo(f"left out: {problem}", err=True)
        if problems:
            raise click.exceptions.Exit(1)

    @contextmanager
    def progress(
        self, doing: str, *, beside_output: bool = False
    ) -> Iterator[Callable[[int, int], None]]:
        """A bar with rate and time left, on a terminal, unless lines of output go there meanwhile."""
        if self.quiet or not sys.stderr.isatty() or (beside_output and sys.stdout.isatty()):
            yield _nothing
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

        columns = (
            "{task.description}",
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total or None)


def _nothing(done: int, total: int) -> None:
    """Show no progress."""


@contextmanager
def as_table(*, why: bool) -> Iterator[Write]:
    """Photo, answer, confidence, what else; and why."""
    rows: list[Sequence[str]] = []

    def write(answers: Sequence[Answer]) -> None:
        for answer in answers:
            also = ", ".join(
                f"{guess.label} {guess.confidence:.0%}"
                for guess in answer.ranking[answer.label is not None :][:2]
            )
            rows.append(
                (
                    answer.picture,
                    answer.label or "unknown",
                    f"{answer.confidence:.0%}",
                    also,
                    *_reasons(answer, why),
                )
            )

    yield write
    titles = ["photo", "answer", "confidence", "else", *(["because", "strangeness"] if why else [])]
    Output().table(titles, rows)


def _reasons(answer: Answer, why: bool) -> list[str]:
    if not why:
        return []
    voters = (
        f"{reason.distance:.3g} from {reason.label} ({reason.pictures} photo{'s' if reason.pictures > 1 else ''})"
        for reason in answer.evidence
    )
    return ["; ".join(voters), f"{answer.strangeness:.2f}"]


@contextmanager
def as_json_lines(*, why: bool) -> Iterator[Write]:
    """One object a photo: photo, label (null: unknown), confidence, strangeness, ranking; and evidence."""

    def write(answers: Sequence[Answer]) -> None:
        for answer in answers:
            told = answer.as_dict()
            if why:
                told["evidence"] = [
                    {
                        "label": one.label,
                        "distance": one.distance,
                        "weight": one.weight,
                        "photos": one.pictures,
                    }
                    for one in answer.evidence
                ]
            click.echo(json.dumps(told, ensure_ascii=False))

    yield write


@contextmanager
def as_csv_lines() -> Iterator[Write]:
    """The same as columns; the ranking is text: cup 0.97; mug 0.02."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["photo", "label", "confidence", "strangeness", "ranking"])

    def write(answers: Sequence[Answer]) -> None:
        for answer in answers:
            told = answer.as_dict()
            ranking = "; ".join(
                f"{guess['label']} {guess['confidence']}" for guess in told.pop("ranking")
            )
            writer.writerow([*("" if value is None else value for value in told.values()), ranking])
        sys.stdout.flush()

    yield write
