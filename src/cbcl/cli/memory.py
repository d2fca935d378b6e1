"""Commands on a memory alone, without photos: show, edit, check, export and import it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cbcl.cli.options import BACKBONE, MEMORY, QUIET, PathArgument, flag, open_memory
from cbcl.cli.output import Output, count, describe_alike, name_of
from cbcl.cli.unknown import DEFAULT_STRANGERS, show_unknown, strangers
from cbcl.errors import MemoryFileError

if TYPE_CHECKING:
    from cbcl.heads.base import Settings
    from cbcl.recognition.recognizer import Recognizer
    from cbcl.recognition.snapshot import Snapshot


class LabelCommand(click.Command):
    """Command on labels; its error about too many words says how to quote a label."""

    allow_extra_args = True

    def invoke(self, ctx: click.Context) -> Any:
        if ctx.args:
            problem = f"{ctx.args[0]!r} is too much"
            raise click.UsageError(f'{problem}: write a label of several words as "blue cup".', ctx)
        return super().invoke(ctx)


@click.command()
@MEMORY
@flag("--history", help="Print the steps instead, the latest first.")
@flag(
    "--unknown",
    help='Draw instead what decides "unknown": the scores of known things and of strangers.',
)
def show(memory: Path, history: bool, unknown: bool) -> None:
    """Print the labels, backbone and settings of a memory.

    \b
    cbcl show things.cbcl
    cbcl show things.cbcl --history
    cbcl show things.cbcl --unknown
    """
    if history and unknown:
        raise click.UsageError("give either --history or --unknown.")
    with open_memory(memory) as recognizer:
        snapshot = recognizer.snapshot()
        settings = snapshot.settings  # an error where there is no memory
        if history:
            _show_history(recognizer)
        elif unknown:
            show_unknown(recognizer)
        else:
            _show_labels(snapshot, settings)


def _show_history(recognizer: Recognizer) -> None:
    rows = [
        (step.time[:19], step.action, step.summary, "undone" if step.undone else "")
        for step in recognizer.history()
    ]
    Output().table(["time (UTC)", "step", "of", ""], rows)


def _show_labels(snapshot: Snapshot, settings: Settings) -> None:
    screen = Output()
    about = snapshot.about
    assert about is not None
    by_centroids = "centroids" in snapshot.abilities
    rows = [(label, known.size, len(known.counts)) for label, known in snapshot.concepts().items()]
    if by_centroids:
        screen.table(["label", "photos", "centroids"], rows)
    else:
        screen.table(["label", "photos"], [row[:2] for row in rows])
    parts = [
        _count_all(rows, snapshot.n_negatives()),
        f"backbone {about.backbone} ({about.dimension} features)",
        f"head {settings.head}{_describe_centroids(settings, rows) if by_centroids else ''}",
    ]
    if settings.strangers != DEFAULT_STRANGERS:
        parts.append(f"expects strangers {settings.strangers}")
    if about.private:
        parts.append("private")
    screen.say(f"{'; '.join(parts)}.")
    if rows and "upgrade" in snapshot.abilities:
        screen.say("`cbcl upgrade` makes it right more often, if it keeps all its photos' vectors.")


def _count_all(rows: Sequence[tuple[str, int, int]], n_negatives: int) -> str:
    counts = [count(len(rows), "thing"), count(sum(row[1] for row in rows), "photo")]
    if n_negatives:
        counts.append(f"{count(n_negatives, 'photo')} of none of these")
    return ", ".join(counts)


def _describe_centroids(settings: Settings, rows: Sequence[tuple[str, int, int]]) -> str:
    limit = f" (at most {settings.max_centroids})" if settings.max_centroids else ""
    voters = count(settings.n_voters, "voter")
    centroids = count(sum(row[2] for row in rows), "centroid")
    return f": {centroids}{limit}, radius {settings.radius:g}, {voters}"


@click.command(cls=LabelCommand)
@MEMORY
@click.argument("label", required=False)
@flag("--none", help="Forget the photos of none of the known things instead (`cbcl learn --none`).")
@flag(
    "--for-good",
    help="Erase it from the file, name and all; this step and those before cannot be undone.",
)
@QUIET
def forget(memory: Path, label: str | None, none: bool, for_good: bool, screen: Output) -> None:
    """Forget a label; all others are as if it had never been learned.

    With a limit on centroids, those that other labels gave up to make room are not restored.

    \b
    cbcl forget things.cbcl cup
    cbcl forget things.cbcl --none
    """
    if (label is None) != none or (none and for_good):
        raise click.UsageError("give either a label or --none; --for-good goes with a label.")
    with open_memory(memory) as recognizer:
        recognizer.forget(label, for_good=for_good)
    screen.say(
        f"forgot {name_of(label or '')}"
        f"{' for good' if for_good else ' (cbcl undo brings it back)'}."
    )


@click.command()
@MEMORY
@QUIET
def upgrade(memory: Path, screen: Output) -> None:
    """Change a memory from the vote to the discriminant, which is right more often.

    This needs the vectors of all photos. A memory keeps those of the first hundred photos of each
    label; if some are missing, it stays as it is. `cbcl undo` brings the vote back.

    \b
    cbcl upgrade things.cbcl
    """
    with open_memory(memory) as recognizer:
        before = sum(recognizer.labels().values())
        known = count(len(recognizer.upgrade()), "thing")
        copies = before - sum(recognizer.labels().values())
    screen.say(
        f"{memory} now tells {known} apart by the discriminant (cbcl undo brings the vote back)."
    )
    if copies:
        screen.say(f"{count(copies, 'photo')} of {before} nearly the same as others: left out.")


@click.command(cls=LabelCommand)
@MEMORY
@click.argument("label")
@click.argument("new")
@QUIET
def rename(memory: Path, label: str, new: str, screen: Output) -> None:
    """Rename a label.

    \b
    cbcl rename things.cbcl cup "blue cup"
    """
    with open_memory(memory) as recognizer:
        known = recognizer.rename(label, new)
    screen.say(f"{label} is now {new}.")
    if known is not None:
        screen.say(describe_alike(memory, new, known))


@click.command(cls=LabelCommand)
@MEMORY
@click.argument("label")
@click.argument("into")
@QUIET
def merge(memory: Path, label: str, into: str, screen: Output) -> None:
    """Merge LABEL into INTO: they turned out to be the same.

    \b
    cbcl merge things.cbcl mug cup
    """
    with open_memory(memory) as recognizer:
        recognizer.merge(label, into)
    screen.say(f"{label} is now part of {into}.")


@click.command()
@MEMORY
@QUIET
def undo(memory: Path, screen: Output) -> None:
    """Undo the last step; run it again to undo the step before, up to twenty.

    \b
    cbcl undo things.cbcl
    """
    with open_memory(memory) as recognizer:
        step = recognizer.undo()
    screen.say(f"undone: {step.action} {step.summary}")


@click.command()
@MEMORY
@flag("--repair", help="Rebuild the indexes, if nothing else is damaged.")
@QUIET
def check(memory: Path, repair: bool, screen: Output) -> None:
    """Read every byte of a memory; print what is damaged and what to do about it.

    \b
    cbcl check things.cbcl
    cbcl check things.cbcl --repair
    """
    if not os.path.lexists(memory):
        raise MemoryFileError(memory, "does not exist", "give the file of a memory")
    with open_memory(memory) as recognizer:
        if repair and recognizer.repair():
            screen.say(f"rebuilt the indexes of {memory}.")
        findings = recognizer.check()
    screen.table(["problem", "what to do"], findings)
    if findings:
        raise click.ClickException(f"{memory}: {count(len(findings), 'problem')}.")
    screen.say(f"{memory} is ok.")


@click.command()
@MEMORY
@click.argument("file", type=PathArgument(), required=False)
@click.option(
    "--onnx",
    type=PathArgument(),
    metavar="FILE",
    help="Write one ONNX graph instead, backbone included.",
)
@flag(
    "--any-size",
    help="With --onnx: the graph takes whole photos, and crops and resizes them itself.",
)
@click.option(
    "--app",
    type=PathArgument(),
    metavar="FOLDER",
    help="Write an app instead, which recognizes in any browser, without a server.",
)
@click.option(
    "--runtime",
    metavar="FOLDER|FILE.tgz|npm",
    help="With --app: folder or archive of ONNX Runtime for browsers (npm package onnxruntime-web);"
    " npm: fetch it, check it, and keep it for the next time.",
)
@flag(
    "--thumbnails",
    help="With --app: show the most similar examples; their thumbnails become part of the app.",
)
@BACKBONE
@QUIET
def export(
    memory: Path,
    file: Path | None,
    onnx: Path | None,
    any_size: bool,
    app: Path | None,
    runtime: str | None,
    thumbnails: bool,
    backbone: str | None,
    screen: Output,
) -> None:
    """Write a memory for other programs, as FILE.safetensors and FILE.json.

    Thumbnails and history are not exported. With --onnx, the file answers by itself, without cbcl
    (docs/onnx.md). With --app, a folder of files for any web server recognizes with the camera or
    from photos, in the browser and offline (docs/app.md). A backbone that is a file of your own
    must be given with --backbone.

    \b
    cbcl export things.cbcl things.safetensors
    cbcl export things.cbcl --onnx things.onnx
    cbcl export things.cbcl --onnx things.onnx --any-size
    cbcl export things.cbcl --app things-app --runtime npm
    """
    if sum(given is not None for given in (file, onnx, app)) != 1:
        raise click.UsageError("give one of FILE, --onnx FILE and --app FOLDER.")
    if (any_size and onnx is None) or ((runtime or thumbnails) and app is None):
        raise click.UsageError(
            "--any-size goes with --onnx; --runtime and --thumbnails with --app."
        )
    if backbone and file is not None:
        raise click.UsageError("--backbone goes with --onnx or --app.")
    for path in (file, onnx):
        if path is not None and not path.parent.is_dir():
            raise MemoryFileError(path.parent, "does not exist", "make that folder first")
    with open_memory(memory, backbone) as recognizer:
        if app is not None:
            _export_app(recognizer, app, runtime, thumbnails, screen)
        if onnx is not None:
            recognizer.snapshot().export_onnx(onnx, any_size=any_size)
            screen.say(f"wrote {onnx}.")
        if file is not None:
            files, left_out = recognizer.export(file)
            screen.say(f"wrote {' and '.join(map(str, files))}.")
            screen.problems([MemoryFileError(label, "is damaged") for label in left_out])


def _export_app(
    recognizer: Recognizer, folder: Path, runtime: str | None, thumbnails: bool, screen: Output
) -> None:
    from cbcl.export.app import export_app
    from cbcl.export.runtime import load_runtime

    loaded = load_runtime(runtime)
    model = recognizer.snapshot().portable(thumbnails=thumbnails)
    app = export_app(folder, recognizer.path.stem, model, loaded)
    megabytes = app.n_bytes / 1e6
    screen.say(f"wrote {folder}: {megabytes:.1f} MB, {count(len(app.labels), 'thing')}.")
    screen.say(f"try it: python -m http.server --directory {folder}, then http://localhost:8000/")


@click.command("import")
@MEMORY
@click.argument("file", type=PathArgument())
@QUIET
def import_(memory: Path, file: Path, screen: Output) -> None:
    """Create a memory from FILE.safetensors and FILE.json, as `cbcl export` wrote them.

    \b
    cbcl import copy.cbcl things.safetensors
    """
    with open_memory(memory) as recognizer:
        known = count(len(recognizer.import_(file)), "thing")
    screen.say(f"{memory} knows {known}.")


COMMANDS = (show, forget, rename, merge, undo, strangers, upgrade, check, export, import_)
