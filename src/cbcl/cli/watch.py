"""`cbcl watch`: answers about new photos of a folder, or frames of a camera, as they come."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cbcl.cli.options import BACKBONE, MEMORY, QUIET, PathArgument, flag, open_memory
from cbcl.cli.output import Output, csv_writer, print_json, printable
from cbcl.errors import MemoryFileError

if TYPE_CHECKING:
    from cbcl.memory.rows import MemoryInfo
    from cbcl.watch.frames import ProblemLog, WatchedFrame
    from cbcl.watch.inbox import Inbox
    from cbcl.watch.sinks import BackgroundSink
    from cbcl.watch.watcher import Sighting, Watcher

COLUMNS = ("time", "source", "label", "confidence")
MEMORY_SUFFIXES = ("", "-wal", "-shm", "-journal")  # of an open memory's files
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
@flag("--all", "existing", help="Answer the photos that are there already, too.")
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
    help="With a camera: frames in a row that must agree for an answer to count.  [default: 3]",
)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    metavar="P",
    help="Least confidence of a sure label; frames of a camera with less do not count.",
)
@click.option(
    "--inbox",
    type=PathArgument(),
    metavar="FOLDER",
    help="Keep the pictures that are unknown or uncertain here, to be named later.",
)
@click.option(
    "--inbox-size",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    metavar="N",
    help="Largest number of pictures in the inbox; the oldest make room.",
)
@click.option(
    "--webhook",
    metavar="URL",
    envvar="CBCL_WEBHOOK",
    help="Post each line as JSON to this address (or $CBCL_WEBHOOK).",
)
@click.option(
    "--command",
    metavar="COMMAND",
    help="Run this for each line, without a shell, with label and source as last arguments.",
)
@click.option(
    "--mqtt",
    metavar="URL",
    envvar="CBCL_MQTT",
    help="Publish to a broker, mqtt://user:password@host/topic (or $CBCL_MQTT); each thing becomes"
    " a sensor of Home Assistant.",
)
@flag(
    "--sub-label",
    help="With a camera of Frigate: set the label as sub_label of all that it tracks there.",
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
    inbox: Path | None,
    inbox_size: int,
    webhook: str | None,
    command: str | None,
    mqtt: str | None,
    sub_label: bool,
    backbone: str | None,
    screen: Output,
) -> None:
    """Print a line for each new photo in a folder, or each changed answer of a camera.

    CAMERA is the http address of a picture (a camera's snapshot, Frigate's latest.jpg), or, where
    OpenCV is installed, the number of a camera or an rtsp address. An empty label means: unknown.
    Problems are reported on standard error, and the watch goes on until Ctrl-C. What another
    process teaches the memory meanwhile counts at once. More: docs/watching.md.

    \b
    cbcl watch things.cbcl incoming/
    cbcl watch things.cbcl incoming/ --all --format json > answers.jsonl
    cbcl watch things.cbcl incoming/ --inbox to-name/
    cbcl watch things.cbcl http://frigate:5000/api/door/latest.jpg --frames 5 --sub-label
    cbcl watch things.cbcl 0 --mqtt mqtt://homeassistant.local/shelf
    """
    from cbcl.watch.frames import ProblemLog
    from cbcl.watch.mqtt import MqttAddress, MqttSink
    from cbcl.watch.watcher import Agreement, Watcher

    is_camera = source.isdecimal() or re.match(r"\w+://", source) is not None
    if is_camera and existing:
        raise click.UsageError("--all goes with a folder.")
    if not is_camera:
        _check_folder_options(source, frames, sub_label, inbox)
    problems = ProblemLog(_say_on_stderr)
    with ExitStack() as stack:
        recognizer = stack.enter_context(open_memory(memory, backbone))
        about = recognizer.snapshot().about
        if about is None:
            raise MemoryFileError(recognizer.path, "does not exist", "learn something first")
        if is_camera:
            pictures = _camera_frames(source, problems, every)
        else:
            pictures = _folder_frames(source, problems, every, existing, memory)
        broker = None
        if mqtt:
            broker = MqttSink(MqttAddress.of(mqtt, f"cbcl/{memory.stem}"), problems)
            stack.callback(broker.close)
        sinks = _open_sinks(webhook, command, source if sub_label else None, problems)
        for sink in sinks:
            stack.callback(sink.close)
        watcher = Watcher(
            recognizer=recognizer,
            problems=problems,
            tell=[  # the printed line comes last: all others have got it by then
                *(sink.send for sink in sinks),
                *([broker.send] if broker else []),
                _line_writer(layout),
            ],
            announce=broker.announce if broker else None,
            keep=_open_inbox(inbox, inbox_size, about, problems).put if inbox else None,
            agreement=Agreement(frames or DEFAULT_FRAMES) if is_camera else None,
            min_confidence=min_confidence,
        )
        _run(watcher, pictures, screen)


def _check_folder_options(
    source: str, frames: int | None, sub_label: bool, inbox: Path | None
) -> None:
    if frames is not None or sub_label:
        raise click.UsageError("--frames and --sub-label go with a camera.")
    if inbox is not None and inbox.resolve().is_relative_to(Path(source).resolve()):
        raise click.UsageError("the inbox must not be in the folder that is watched.")


def _run(watcher: Watcher, pictures: Iterator[WatchedFrame], screen: Output) -> None:
    """Watch until SIGINT or SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if not screen.quiet:
            _say_on_stderr("watching; Ctrl-C stops.")
        watcher.watch(pictures)
    except KeyboardInterrupt:
        if not screen.quiet:
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
    from cbcl.watch.cameras import VideoCamera, snapshots
    from cbcl.watch.http_requests import HttpAddress

    if source.startswith(("http://", "https://")):
        return snapshots(HttpAddress(source), problems, every=every)
    return VideoCamera(source, problems, every=every).frames()


def _open_sinks(
    webhook: str | None, command: str | None, frigate: str | None, problems: ProblemLog
) -> list[BackgroundSink]:
    from cbcl.watch.sinks import BackgroundSink, Command, FrigateSubLabel, Sink, Webhook

    sinks: list[tuple[Callable[[str], Sink], str | None]] = [
        (Webhook, webhook or None),
        (Command, command),
        (FrigateSubLabel, frigate),
    ]
    return [BackgroundSink(make(to), problems) for make, to in sinks if to is not None]


def _open_inbox(folder: Path, size: int, about: MemoryInfo, problems: ProblemLog) -> Inbox:
    from cbcl.recognition.cosines import measured_of
    from cbcl.watch.inbox import Inbox

    return Inbox(folder, problems, limit=size, copy_cosine=measured_of(about).copy)


def _line_writer(layout: str) -> Callable[[Sighting], None]:
    """Return a function that prints a sighting at once; CSV begins with a header."""
    if layout == "json":
        return lambda sighting: print_json(sighting.as_dict())
    write = csv_writer(COLUMNS)
    return lambda sighting: write(map(sighting.as_dict().get, COLUMNS))


def _say_on_stderr(text: str) -> None:
    click.echo(printable(text), err=True)
