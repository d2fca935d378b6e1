"""Commands on "unknown": how often strangers are expected, and a picture of what decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cbcl.cli.options import MEMORY, QUIET, open_memory
from cbcl.cli.output import Output, count
from cbcl.errors import MemoryFileError

if TYPE_CHECKING:
    from cbcl.method.discriminant.forecast import Forecast, UnknownReport
    from cbcl.recognition.recognizer import Recognizer
STRANGERS = ("often", "sometimes", "rarely")
DEFAULT_STRANGERS = "sometimes"
WIDTH = 60  # columns of the picture
HEIGHT = 3  # lines of each curve
BLOCKS = " ▁▂▃▄▅▆▇█"
TOO_FEW = "There are too few photos to try it on: learn two of a thing, or a second thing."
NAMES_WIDTH = 9  # columns of the names beside the picture


@click.command()
@MEMORY
@click.argument(
    "how_often", required=False, metavar="[often|sometimes|rarely]", type=click.Choice(STRANGERS)
)
@QUIET
def strangers(memory: Path, how_often: Any, screen: Output) -> None:
    """Set how often photos of unknown things are expected. This moves the limit for "unknown".

    With "often", more is unknown: strange things are seldom given a name, and more photos of known
    things are refused. With "rarely" it is the other way round. A new memory has "sometimes".
    Nothing has to be learned again, and `cbcl undo` restores the previous setting. Without a
    setting, this prints what each would do with the photos that the memory keeps. More:
    docs/unknown.md.

    \b
    cbcl strangers things.cbcl
    cbcl strangers things.cbcl often
    """
    with open_memory(memory) as recognizer:
        before = _read_setting(recognizer)
        if how_often is not None:
            recognizer.expect_strangers(how_often)
        report = recognizer.snapshot().unknown()
    if how_often is None:
        screen = Output()  # what was asked for
        screen.say(f"{memory} expects strangers {before}.")
        _show_forecasts(screen, report)
    elif how_often == before:
        screen.say(f"{memory} expects strangers {before} already: nothing was changed.")
    else:
        screen.say(f"{memory} now expects strangers {how_often}; cbcl undo brings {before} back.")
        if report is not None and _is_tried(report):
            told = _describe(report.forecasts[how_often], report.forecasts[before])
            screen.say(f"of the photos that it keeps: {told}.")


def show_unknown(recognizer: Recognizer) -> None:
    """Print both distributions as a picture, and what they come to."""
    screen, setting = Output(), _read_setting(recognizer)
    report = recognizer.snapshot().unknown()
    if report is None:
        raise MemoryFileError(
            recognizer.path,
            "has too little to tell what is unknown: it names everything",
            "learn two or more photos of each thing",
        )
    screen.say("\n".join(draw(report)))
    below = f'A photo whose score is below {report.limit:.2f} is "unknown" (strangers: {setting})'
    if _is_tried(report):
        told = _describe(report.forecasts[setting])
        screen.say(f"{below}: {told}. A digit is a number of photos.")
    else:
        screen.say(f"{below}. {TOO_FEW}")


def draw(report: UnknownReport) -> list[str]:
    """Return lines: each distribution as a curve, its photos below it, and the limit.

    The photos are those that are kept, each as if it, or its thing, had not been learned.
    """
    curves = (report.strange, report.known)
    ends = [mean + side * deviation for mean, deviation in curves for side in (-3.0, 3.0)]
    places = [*ends, report.limit, *report.strange_scores, *report.known_scores]
    low = min(places)
    high = max(places)

    def column(score: float) -> int:
        return round((score - low) / (high - low) * (WIDTH - 1))

    limit = column(report.limit)
    lines = []
    for name, curve, scores in (
        ("strangers", report.strange, report.strange_scores),
        ("known", report.known, report.known_scores),
    ):
        pictured = _draw_curve(curve, low, high)
        marks = _draw_marks(scores, column)
        names = [name, *[""] * (HEIGHT - 1), "photos" if scores else ""]
        lines += [_line(*pair, limit) for pair in zip(names, [*pictured, marks], strict=True)]
    axis = "─" * limit + "┴" + "─" * (WIDTH - 1 - limit)
    words = f"limit {report.limit:.2f}"
    first = f"{low:.2f}"
    last = f"{high:.2f}"
    room = WIDTH - len(first) - len(last) - 2
    start = min(max(limit - len(words) // 2 - len(first) - 1, 0), room - len(words))
    padding = " " * start
    below = f"{first} {padding}{words}".ljust(WIDTH - len(last)) + last
    return [*lines, *(f"{'':{NAMES_WIDTH}} {line}" for line in (axis, below))]


def _draw_curve(curve: tuple[float, float], low: float, high: float) -> list[str]:
    mean, deviation = curve
    levels = []
    for number in range(WIDTH):
        away = (low + (high - low) * number / (WIDTH - 1) - mean) / deviation
        levels.append(round(math.exp(-0.5 * away**2) * HEIGHT * (len(BLOCKS) - 1)))
    full = len(BLOCKS) - 1
    rows = [place * full for place in reversed(range(HEIGHT))]
    return ["".join(BLOCKS[min(max(one - floor, 0), full)] for one in levels) for floor in rows]


def _draw_marks(scores: Sequence[float], column: Callable[[float], int]) -> str:
    """Return the number of photos in each column as a digit; from ten on, a plus."""
    counts = [0] * WIDTH
    for score in scores:
        counts[column(score)] += 1
    return "".join(" " if not n else str(n) if n < 10 else "+" for n in counts)


def _line(name: str, picture: str, limit: int) -> str:
    """Return a line of the picture, with the limit drawn where the line is empty."""
    mark = "│" if picture[limit] == " " else picture[limit]
    return f"{name:{NAMES_WIDTH}} {picture[:limit]}{mark}{picture[limit + 1 :]}".rstrip()


def _read_setting(recognizer: Recognizer) -> str:
    from cbcl.heads.base import check_able, find_head

    settings = recognizer.snapshot().settings
    check_able("strangers", find_head(settings.head), recognizer.path)
    return settings.strangers


def _show_forecasts(screen: Output, report: UnknownReport | None) -> None:
    if report is None or not _is_tried(report):
        screen.say(TOO_FEW)
        return
    rows = []
    for setting, told in report.forecasts.items():
        refused = f"{told.refused} of {told.known}"
        found = f"{told.found} of {told.strange}"
        rows.append((setting, refused, found, "now" if setting == report.strangers else ""))
    screen.table(["strangers", "known refused", "strange found", ""], rows)
    screen.say(
        "Tried on the photos that it keeps: each as if it had not been learned, then as if its"
        " thing were not known."
    )


def _is_tried(report: UnknownReport) -> bool:
    """Tell whether the forecasts rest on any photos."""
    return bool(report.known_scores or report.strange_scores)


def _describe(told: Forecast, before: Forecast | None = None) -> str:
    """Return both counts of a forecast in words, with the previous ones if given."""
    was = ("", "")
    if before is not None:
        was = (f" (before {before.refused})", f" (before {before.found})")
    known = f"{told.refused} of {count(told.known, 'photo')} of known things are unknown{was[0]}"
    return f"{known}, and {told.found} of {told.strange} if their things were not known{was[1]}"
