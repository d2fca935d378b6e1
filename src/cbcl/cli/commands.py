"""The command line: every command reads its arguments, makes one call, and shows what came of it."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from cbcl import __version__
from cbcl.cli.backbones import backbones
from cbcl.cli.bench import bench
from cbcl.cli.options import (
    BACKBONE,
    FOLDERS,
    MEMORY,
    NO_CACHE,
    PHOTOS,
    QUIET,
    STRICT,
    PathArgument,
)
from cbcl.cli.output import Output, as_csv_lines, as_json_lines, as_table
from cbcl.errors import CBCLError, MemoryFileError

if TYPE_CHECKING:
    from cbcl.recognition.embedder import OnBroken
    from cbcl.recognition.recognizer import Recognizer

AT_ONCE = 64  # photos between two lines of output


class CommandGroup(click.Group):
    """All commands; what goes wrong becomes one line, here and nowhere else."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # such as that of `| head`, which click knows
            raise
        except (CBCLError, ValueError, OSError) as error:
            raise click.ClickException(str(error)) from error
        except KeyboardInterrupt:
            raise click.ClickException(
                "stopped. The memory is as it was after the last step that was done."
            ) from None


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(version)s")
def main() -> None:
    """Teach a machine new things from a few photos each, one after another, without forgetting.

    \b
    cbcl learn things.cbcl photos/          # photos/cup/*.jpg are cups, photos/key/*.jpg are keys
    cbcl recognize things.cbcl new.jpg      # cup, 97 %
    cbcl learn things.cbcl --label key new.jpg   # no, that was a key
    """
    warnings.filterwarnings(
        "ignore", module="PIL"
    )  # of odd metadata and large pictures, which are dealt with


@main.command()
@MEMORY
@PHOTOS
@click.option("--label", help="What all the photos show, whatever folders they are in.")
@BACKBONE
@click.option(
    "--private",
    is_flag=True,
    help="A new memory keeps no thumbnails, and nothing of its photos elsewhere.",
)
@click.option(
    "--max-centroids",
    type=click.IntRange(1),
    metavar="K",
    help="Keep no more centroids than this, from now on.",
)
@click.option(
    "--radius",
    type=click.FloatRange(0),
    metavar="D",
    help="Join photos closer than this; else it is chosen.",
)
@STRICT
@NO_CACHE
@QUIET
def learn(
    memory: Path,
    photos: tuple[Path, ...],
    label: str | None,
    backbone: str | None,
    private: bool,
    max_centroids: int | None,
    radius: float | None,
    strict: bool,
    no_cache: bool,
    quiet: bool,
) -> None:
    """Learn what the photos in folders show.

    PHOTOS are folders with one folder a thing in them, or folders named after what they show; with --label, any photos.
    MEMORY is a file, which is made if it is not there.

    \b
    cbcl learn things.cbcl photos/
    cbcl learn things.cbcl --label "my cup" cup1.jpg cup2.jpg cup3.jpg
    """
    from cbcl.recognition.recognizer import Recognizer

    screen = Output(quiet=quiet)
    begun = perf_counter()
    things = {label: [*photos]} if label is not None else _by_label(photos, memory)
    options: dict[str, Any] = {
        "private": private,
        "max_centroids": max_centroids,
        "cache": not no_cache,
    }
    with (
        Recognizer(
            memory, backbone, radius="auto" if radius is None else radius, **options
        ) as recognizer,
        screen.progress("looking") as progress,
    ):
        learned = recognizer.learn_many(things, broken=_broken(strict), progress=progress)
        known = recognizer.labels()
    screen.table(
        ["learned", "photos", "in all"],
        [(name, n, known.get(name, 0)) for name, n in learned.pictures.items()],
    )
    seconds = perf_counter() - begun
    photos_learned = _many(sum(learned.pictures.values()), "photo")
    screen.say(f"{photos_learned} in {seconds:.1f} s; {memory} knows {_many(len(known), 'thing')}.")
    screen.problems(learned.problems)


@main.command()
@MEMORY
@PHOTOS
@click.option("--json", "as_json", is_flag=True, help="One JSON object a photo and line.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values, with a header.")
@click.option("--why", is_flag=True, help="Show the evidence, too (not with --csv).")
@BACKBONE
@STRICT
@NO_CACHE
@QUIET
def recognize(
    memory: Path,
    photos: tuple[Path, ...],
    as_json: bool,
    as_csv: bool,
    why: bool,
    backbone: str | None,
    strict: bool,
    no_cache: bool,
    quiet: bool,
) -> None:
    """Say what photos show.

    PHOTOS are files, folders or patterns. "unknown" means: too far from all that was learned. The confidence says how
    sure the answer is, be it a label or "unknown".

    \b
    cbcl recognize things.cbcl new.jpg
    cbcl recognize things.cbcl --json inbox/ > answers.jsonl
    """
    from cbcl.recognition.recognizer import Recognizer

    if as_csv and (as_json or why):
        raise click.UsageError("give --csv alone, without --json and --why.")
    screen = Output(quiet=quiet)
    shown = as_json_lines(why=why) if as_json else as_csv_lines() if as_csv else as_table(why=why)
    with (
        Recognizer(memory, backbone, cache=not no_cache) as recognizer,
        shown as write,
        screen.progress("looking", beside_output=as_json or as_csv) as progress,
    ):
        files = recognizer.pictures(photos)
        problems = []
        for start in range(0, len(files), AT_ONCE):
            some = recognizer.recognize_many(files[start : start + AT_ONCE], broken=_broken(strict))
            problems += [answer for answer in some if isinstance(answer, CBCLError)]
            write([answer for answer in some if not isinstance(answer, CBCLError)])
            progress(min(start + AT_ONCE, len(files)), len(files))
    screen.problems(problems)


@main.command()
@MEMORY
@click.option("--history", is_flag=True, help="What was done, the latest first.")
def show(memory: Path, history: bool) -> None:
    """Show what a memory knows.

    \b
    cbcl show things.cbcl
    """
    from cbcl.memory.store import Memory

    screen = Output()
    with closing(Memory(memory)) as opened:
        if history:
            steps = [
                (step.time[:19], step.action, step.summary, "undone" if step.undone else "")
                for step in opened.history()
            ]
            screen.table(["time (UTC)", "step", "of", ""], steps)
            return
        view = opened.view()
        classes = opened.load(view)
    rows = [
        (label, known.concepts.size, len(known.concepts.counts)) for label, known in classes.items()
    ]
    screen.table(["label", "photos", "centroids"], rows)
    about, settings = view.about, view.settings
    limit = f", at most {settings.max_centroids}" if settings.max_centroids else ""
    screen.say(
        f"{_many(len(rows), 'thing')}, {_many(sum(row[2] for row in rows), 'centroid')}{limit}; "
        f"seen through {about.backbone} ({about.dimension} numbers); radius {settings.radius:g}, "
        f"{settings.n_voters} voting{'; private' if about.private else ''}."
    )


@main.command()
@MEMORY
@click.argument("label")
@click.option(
    "--for-good",
    is_flag=True,
    help="Leave nothing of it in the file, not even its name; nothing before can be undone then.",
)
@QUIET
def forget(memory: Path, label: str, for_good: bool, quiet: bool) -> None:
    """Forget a label; all others are as if it had never been learned.

    Only room that they made for it, where there is a limit on centroids, is not given back.

    \b
    cbcl forget things.cbcl cup
    """
    with _open(memory) as recognizer:
        recognizer.forget(label, for_good=for_good)
    Output(quiet=quiet).say(
        f"forgot {label}{' for good' if for_good else ' (cbcl undo brings it back)'}."
    )


@main.command()
@MEMORY
@click.argument("label")
@click.argument("new")
@QUIET
def rename(memory: Path, label: str, new: str, quiet: bool) -> None:
    """Call a label something else.

    \b
    cbcl rename things.cbcl cup "blue cup"
    """
    with _open(memory) as recognizer:
        recognizer.rename(label, new)
    Output(quiet=quiet).say(f"{label} is {new} from now on.")


@main.command()
@MEMORY
@click.argument("label")
@click.argument("into")
@QUIET
def merge(memory: Path, label: str, into: str, quiet: bool) -> None:
    """Make LABEL part of INTO: they turned out to be the same.

    \b
    cbcl merge things.cbcl mug cup
    """
    with _open(memory) as recognizer:
        recognizer.merge(label, into)
    Output(quiet=quiet).say(f"{label} is part of {into} from now on.")


@main.command()
@MEMORY
@QUIET
def undo(memory: Path, quiet: bool) -> None:
    """Take back the last step; again, and the one before it is taken back, up to twenty.

    \b
    cbcl undo things.cbcl
    """
    with _open(memory) as recognizer:
        step = recognizer.undo()
    Output(quiet=quiet).say(f"took back: {step.action} {step.summary}")


@main.command()
@MEMORY
@QUIET
def check(memory: Path, quiet: bool) -> None:
    """Read every byte of a memory, and say what is wrong and what to do about it.

    \b
    cbcl check things.cbcl
    """
    from cbcl.memory.check import check as findings_in

    screen = Output(quiet=quiet)
    findings = findings_in(memory)
    screen.table(["problem", "what to do"], findings)
    if findings:
        raise click.ClickException(f"{memory}: {_many(len(findings), 'problem')}.")
    screen.say(f"{memory} is sound.")


@main.command()
@MEMORY
@click.argument("file", type=PathArgument(), required=False)
@click.option(
    "--onnx",
    type=PathArgument(),
    metavar="FILE",
    help="Write one ONNX graph instead, backbone included.",
)
@BACKBONE
@QUIET
def export(
    memory: Path, file: Path | None, onnx: Path | None, backbone: str | None, quiet: bool
) -> None:
    """Write what is known for others to read: arrays in FILE.safetensors, words in FILE.json.

    Thumbnails and history stay behind. With --onnx, the file has all that it takes to say what a picture shows, without
    cbcl (docs/onnx.md); a backbone from a file of your own is to be given again.

    \b
    cbcl export things.cbcl things.safetensors
    cbcl export things.cbcl --onnx things.onnx
    """
    if (file is None) == (onnx is None) or (backbone and onnx is None):
        raise click.UsageError(
            "give either FILE or --onnx FILE, and --backbone with the latter alone."
        )
    screen = Output(quiet=quiet)
    if onnx is not None:
        from cbcl.recognition.recognizer import Recognizer

        with Recognizer(memory, backbone) as recognizer:
            recognizer.export_onnx(onnx)
        screen.say(f"wrote {onnx}.")
    if file is not None:
        _export_arrays(memory, file, screen)


def _export_arrays(memory: Path, file: Path, screen: Output) -> None:
    from cbcl.memory.exchange import export as written
    from cbcl.memory.store import Memory

    with closing(Memory(memory)) as opened:
        files, left_out = written(opened, _safetensors(file))
    screen.say(f"wrote {' and '.join(map(str, files))}.")
    screen.problems([MemoryFileError(f"{label}, which is damaged.") for label in left_out])


@main.command("import")
@MEMORY
@click.argument("file", type=PathArgument())
@QUIET
def import_(memory: Path, file: Path, quiet: bool) -> None:
    """Make a new memory of FILE.safetensors and FILE.json, as `cbcl export` wrote them.

    \b
    cbcl import copy.cbcl things.safetensors
    """
    from cbcl.memory.exchange import import_ as read
    from cbcl.memory.store import Memory

    with closing(Memory(memory)) as opened:
        read(_safetensors(file), opened)
        known = opened.view().classes
    Output(quiet=quiet).say(f"{memory} knows {_many(len(known), 'thing')}.")


@main.command()
@MEMORY
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Where to listen; beyond this machine, with a token.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port; else 8737, or the next that is free."
)
@click.option("--no-browser", is_flag=True, help="Do not open the page in a browser.")
@BACKBONE
@click.option(
    "--private",
    is_flag=True,
    help="A new memory keeps no thumbnails, and nothing of its photos elsewhere.",
)
@click.option(
    "--max-centroids",
    type=click.IntRange(1),
    metavar="K",
    help="Keep no more centroids than this, from now on.",
)
@click.option(
    "--certificate",
    type=PathArgument(),
    metavar="FILE",
    help="Serve over https: the certificate, as PEM.",
)
@click.option(
    "--key",
    type=PathArgument(),
    metavar="FILE",
    help="The certificate's key, unless it is in the same file.",
)
@click.option("--log", is_flag=True, help="Write one JSON object a request to standard error.")
def teach(
    memory: Path,
    host: str,
    port: int | None,
    no_browser: bool,
    backbone: str | None,
    private: bool,
    max_centroids: int | None,
    certificate: Path | None,
    key: Path | None,
    log: bool,
) -> None:
    """Open a page on which to teach, ask and correct, with a camera or photos; and an API for robots.

    MEMORY is a file, which is made by the first thing learned. Only this machine can reach the page, unless --host says
    otherwise: then a token is needed, which is part of the address that is shown. docs/serving.md tells more.

    \b
    cbcl teach things.cbcl
    cbcl teach things.cbcl --host 0.0.0.0     # for a phone, too
    """
    try:
        from cbcl.web.server import serve
    except ModuleNotFoundError as error:
        raise click.ClickException(f'{error.name} is missing: pip install "cbcl[web]"') from error
    from cbcl.recognition.recognizer import Recognizer

    screen = Output()
    with Recognizer(memory, backbone, private=private, max_centroids=max_centroids) as recognizer:
        serve(
            recognizer,
            say=screen.say,
            host=host,
            port=port,
            browser=not no_browser,
            backbone=backbone,
            private=private,
            certificate=certificate,
            key=key,
            log=log,
        )
        screen.say(f"stopped; {memory} knows {_many(len(recognizer.labels()), 'thing')}.")


@main.command()
@MEMORY
@FOLDERS
@BACKBONE
@STRICT
@NO_CACHE
@QUIET
def tune(
    memory: Path,
    folders: tuple[Path, ...],
    backbone: str | None,
    strict: bool,
    no_cache: bool,
    quiet: bool,
) -> None:
    """Choose the radius and the number of voters by cross-validation on photos, without learning them.

    FOLDERS are as for `cbcl learn`. What is known already stays as it is: the radius is for what is learned from now
    on. `cbcl learn` does the same by itself when it is given several things at once.

    \b
    cbcl tune things.cbcl photos/
    """
    from cbcl.recognition.recognizer import Recognizer

    screen = Output(quiet=quiet)
    with (
        Recognizer(memory, backbone, cache=not no_cache) as recognizer,
        screen.progress("looking") as progress,
    ):
        chosen = recognizer.tune(
            _by_label(folders, memory), broken=_broken(strict), progress=progress
        )
    screen.say(f"radius {chosen.radius:g}, {chosen.n_voters} voting.")


main.add_command(backbones)
main.add_command(bench)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a shell complete cbcl's commands and options.

    \b
    cbcl completion bash >> ~/.bashrc
    """
    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(main, {}, "cbcl", "_CBCL_COMPLETE").source())


@main.command()
def version() -> None:
    """Print the version.

    \b
    cbcl version
    """
    click.echo(__version__)


def _open(memory: Path) -> Recognizer:
    from cbcl.recognition.recognizer import Recognizer

    return Recognizer(memory)


def _safetensors(file: Path) -> Path:
    return file if file.suffix == ".safetensors" else file.with_name(f"{file.name}.safetensors")


def _by_label(folders: tuple[Path, ...], memory: Path) -> dict[str, list[Path]]:
    from cbcl.memory.store import Memory
    from cbcl.vision.finding import find_labelled

    things: dict[str, list[Path]] = {}
    for label, path in find_labelled(folders, Memory(memory).own_files()):
        things.setdefault(label, []).append(path)
    return things


def _broken(strict: bool) -> OnBroken:
    return "raise" if strict else "report"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
