"""`cbcl watch`: answers about new photos of a folder, or frames of a camera, as they come."""

from __future__ import annotations

import csv
import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cbcl.cli.options import BACKBONE, MEMORY, QUIET
from cbcl.cli.output import printable
from cbcl.errors import MemoryFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cbcl.watch.frames import WatchedFrame
    from cbcl.watch.problems import ProblemLog
    from cbcl.watch.watcher import Sighting

COLUMNS = ("time", "source", "label", "confidence")
MEMORY_SUFFIXES = ("", "-wal", "-shm", "-journal")  # of the files of an open memory
DEFAULT_FRAMES = 3


@click.command()
@MEMORY
@click.argument("source", metavar="FOLDER|CAMERA")
@click.option(
    "--format",
    "layout",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="Print comma-separated values with a header, or one JSON object a line.",
)
@click.option("--all", "existing", is_flag=True, help="Answer the photos that are there, too.")
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two looks at the folder, or two frames of the camera.",
)
@click.option(
    "--frames",
    type=click.IntRange(1),
    metavar="N",
    help="Of a camera: an answer counts when so many frames in a row give it; else 3.",
)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="P",
    help="Below it a label is uncertain: such a frame of a camera does not count.",
)
@BACKBONE
@QUIET
def watch(
    memory: Path,
    source: str,
    layout: str,
    existing: bool,
    every: float,
    frames: int | None,
    min_confidence: float,
    backbone: str | None,
    quiet: bool,
) -> None:
    """Print a line for each new photo in a folder, or each changed answer of a camera.

    CAMERA is the http address of a picture (a camera's snapshot, Frigate's latest.jpg), or, where
    OpenCV is installed, the number of a camera or an rtsp address. An empty label means: unknown.
    What cannot be read is told on standard error, and the watch goes on until Ctrl-C. What another
    process teaches the memory meanwhile counts at once. More: docs/watching.md.

    \b
    cbcl watch things.cbcl inbox/
    cbcl watch things.cbcl inbox/ --all --format json > answers.jsonl
    cbcl watch things.cbcl http://frigate:5000/api/door/latest.jpg --frames 5
    """
    from cbcl.recognition.recognizer import Recognizer
    from cbcl.watch.agreement import Agreement
    from cbcl.watch.problems import ProblemLog
    from cbcl.watch.watcher import Watcher

    is_camera = source.isdecimal() or re.match(r"\w+://", source) is not None
    if is_camera and existing:
        raise click.UsageError("--all goes with a folder.")
    if not is_camera and frames is not None:
        raise click.UsageError("--frames goes with a camera.")
    problems = ProblemLog(_say_on_stderr)
    with Recognizer(memory, backbone) as recognizer:
        if recognizer.about() is None:
            raise MemoryFileError(recognizer.path, "does not exist", "learn something first")
        if is_camera:
            pictures = _camera_frames(source, problems, every)
        else:
            pictures = _folder_frames(source, problems, every, existing, memory)
        watcher = Watcher(
            recognizer,
            problems,
            tell=[_line_writer(layout)],
            agreement=Agreement(frames or DEFAULT_FRAMES) if is_camera else None,
            min_confidence=min_confidence,
        )
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if not quiet:
                _say_on_stderr("watching; Ctrl-C stops.")
            watcher.watch(pictures)
        except KeyboardInterrupt:
            if not quiet:
                _say_on_stderr("stopped.")
        finally:
            signal.signal(signal.SIGTERM, before)


def _folder_frames(
    source: str, problems: ProblemLog, every: float, existing: bool, memory: Path
) -> Iterator[WatchedFrame]:
    from cbcl.watch.folder import PhotoFolder

    if not source:
        raise click.UsageError("a path is empty.")
    own_files = [memory.with_name(memory.name + suffix) for suffix in MEMORY_SUFFIXES]
    folder = PhotoFolder(
        Path(source), problems, every=every, existing=existing, leave_out=own_files
    )
    return folder.frames()


def _camera_frames(source: str, problems: ProblemLog, every: float) -> Iterator[WatchedFrame]:
    from cbcl.watch.cameras import SnapshotCamera, VideoCamera
    from cbcl.watch.http_requests import HttpAddress

    if source.startswith(("http://", "https://")):
        return SnapshotCamera(HttpAddress(source), problems, every=every).frames()
    return VideoCamera(source, problems, every=every).frames()


def _line_writer(layout: str) -> Callable[[Sighting], None]:
    """Return a function that prints a sighting at once; CSV begins with a header."""
    if layout == "json":
        return lambda sighting: click.echo(
            printable(json.dumps(sighting.as_dict(), ensure_ascii=False))  # JSON's own escapes
        )
    writer = csv.writer(sys.stdout, lineterminator="\n")

    def write(cells: list[Any]) -> None:
        writer.writerow(printable(cell) if isinstance(cell, str) else cell for cell in cells)
        sys.stdout.flush()

    def write_sighting(sighting: Sighting) -> None:
        fields = sighting.as_dict()
        write(["" if fields[name] is None else fields[name] for name in COLUMNS])

    write([*COLUMNS])
    return write_sighting


def _say_on_stderr(text: str) -> None:
    click.echo(printable(text), err=True)
