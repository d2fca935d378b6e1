"""The command line: a command reads its arguments, calls a `Recognizer`, and prints the result."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import get_completion_class

from cbcl import __version__
from cbcl.cli.backbones import backbones
from cbcl.cli.memory import COMMANDS
from cbcl.cli.options import (
    ADDRESS,
    BACKBONE,
    ENGINE,
    MAX_CENTROIDS,
    MEMORY,
    NO_CACHE,
    PHOTOS,
    PRIVATE,
    QUIET,
    STRICT,
    HeadName,
    PathArgument,
    PhotoArgument,
    flag,
    import_extra,
    open_memory,
)
from cbcl.cli.output import (
    Output,
    count,
    describe_alike,
    name_of,
    print_csv_lines,
    print_json_lines,
    print_table,
    printable,
)
from cbcl.cli.watch import watch
from cbcl.cli.workers import start_workers
from cbcl.errors import CBCLError
from cbcl.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from cbcl.recognition.answer import Answer
    from cbcl.recognition.embedder import OnBroken
    from cbcl.recognition.learning import LearningResult

PLUGINS = "cbcl.commands"  # entry points of other packages
NO_STUDY = (
    "the study is a package of its own: `pip install ./study` in a checkout of cbcl adds "
    "`cbcl bench`."
)
BATCH_SIZE = 64  # photos between two writes of `cbcl recognize`


class BrokenCommand(click.Command):
    """A command of another package that cannot be loaded: the help says so, and a call fails."""

    def __init__(self, name: str, error: CBCLError) -> None:
        super().__init__(name, short_help=f"skipped: {error}")
        self.error = error

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:  # noqa: ARG002
        raise self.error


class CommandGroup(click.Group):
    """All commands: an error becomes one line on standard error here, and nowhere else."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # a closed pipe, such as `| head`: click handles it
            raise
        except (CBCLError, ValueError, OSError) as error:
            raise click.ClickException(printable(str(error), keep="\n")) from error
        except click.ClickException as error:
            error.message = printable(error.message, keep="\n")  # type: ignore[misc] # it may be
            raise
        except KeyboardInterrupt:
            raise click.ClickException(
                "stopped. The memory is as it was after the last finished step."
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands of cbcl, and those of other packages that are installed."""
        return sorted({*super().list_commands(ctx), *plugin_names(PLUGINS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (command := super().get_command(ctx, cmd_name)) is not None:
            return command
        try:
            command = load_plugin(PLUGINS, cmd_name, "command", click.Command)
        except CBCLError as error:
            return BrokenCommand(cmd_name, error)
        if command is None and cmd_name == "bench":
            raise click.UsageError(NO_STUDY)
        return command


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
    warnings.filterwarnings("ignore", module="PIL")  # of odd metadata and large pictures


@main.command()
@MEMORY
@PHOTOS
@click.option("--label", help="The label of all the photos, whatever folders they are in.")
@flag("--none", help="The photos show none of the known things: what looks like them is unknown.")
@BACKBONE
@PRIVATE
@click.option(
    "--head",
    type=HeadName(),
    help="How a new memory tells things apart: discriminant (the default: right more often) weighs"
    " all that sets them apart, vote takes the nearest means of photos (as in the paper).",
)
@MAX_CENTROIDS
@click.option(
    "--radius",
    type=click.FloatRange(0),
    metavar="D",
    help="With the vote: merge photos closer than this into one centroid; chosen if not given.",
)
@STRICT
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1),
    metavar="N",
    help="Embed photos in N worker processes, and learn each thing as a step of its own: after"
    " Ctrl-C, the same command continues.",
)
@ENGINE
@ADDRESS
@NO_CACHE
@QUIET
def learn(
    memory: Path,
    photos: tuple[Path | str, ...],
    label: str | None,
    none: bool,
    broken: OnBroken,
    jobs: int | None,
    engine: str | None,
    address: str | None,
    screen: Output,
    **opening: Any,  # arguments of `Recognizer`
) -> None:
    """Learn labels from photos in folders.

    PHOTOS are folders with one folder per label in them, or folders named after their label; with
    --label or --none, any photos. Addresses that fsspec opens work, too: s3://bucket/photos. MEMORY
    is a file, created if it does not exist.

    A photo that is nearly the same as a known one of its label adds nothing: the same folder can be
    learned again. A photo that was learned with another label moves to the new one.

    \b
    cbcl learn things.cbcl photos/
    cbcl learn things.cbcl --label "my cup" cup1.jpg cup2.jpg cup3.jpg
    cbcl learn things.cbcl --none empty-table.jpg hands/
    cbcl learn things.cbcl photos/ --backend dask --address tcp://10.0.0.1:8786
    """
    if none and label is not None:
        raise click.UsageError("give either --label or --none.")
    start = perf_counter()
    with (
        open_memory(memory, **opening) as recognizer,
        screen.progress("learning") as progress,
        start_workers(jobs, engine, address) as n_jobs,
    ):
        by_label = label is None and not none
        things = recognizer.embedder.find_labelled(photos) if by_label else {label: [*photos]}
        before = recognizer.history()[:1]
        if n_jobs is None:
            result = recognizer.learn_many(things, broken=broken, progress=progress)
        else:
            try:
                result = recognizer.learn_each(
                    things, broken=broken, progress=progress, n_jobs=n_jobs
                )
            except (KeyboardInterrupt, CBCLError) as error:
                again = ""
                with suppress(CBCLError):  # where the memory itself cannot be read any more
                    if isinstance(error, KeyboardInterrupt) or recognizer.history()[:1] != before:
                        known = count(len(recognizer.labels()), "thing")
                        again = f"{memory} knows {known}: the same command goes on from there."
                if isinstance(error, CBCLError) and not again:
                    raise
                raise click.ClickException(f"{str(error) or 'stopped.'} {again}") from None
    if result.n_before:
        earlier = count(result.n_before, "thing")
        screen.say(f"went on after {earlier} that had been learned when this was stopped.")
    _show_learned(screen, memory, result)
    photos_read = count(sum(result.pictures.values()), "photo")
    seconds = perf_counter() - start
    known = count(result.n_labels, "thing")
    screen.say(f"{photos_read} in {seconds:.1f} s; {memory} knows {known}.")
    screen.problems(result.problems)


def _show_learned(screen: Output, memory: Path, result: LearningResult) -> None:
    """Print how many photos of each label were new, and why others were not."""
    rows = [
        (name_of(label), number, number - result.copies.get(label, 0), result.totals[label])
        for label, number in result.pictures.items()
    ]
    screen.table(["learned", "photos", "new", "total"], rows)
    if copies := sum(result.copies.values()):
        were = "was" if copies == 1 else "were"
        screen.say(f"{count(copies, 'photo')} {were} nearly the same as known ones: nothing new.")
    for label, number in result.moved.items():
        nothing_left = ", which has none left" if label in result.gone else ""
        screen.say(f"{count(number, 'photo')} moved here from {name_of(label)}{nothing_left}.")
    for label, known in result.spelled_alike.items():
        screen.say(describe_alike(memory, label, known))


@main.command()
@MEMORY
@PHOTOS
@flag("--json", "as_json", help="Print one JSON object per photo, each on a line.")
@flag("--csv", "as_csv", help="Print comma-separated values with a header.")
@flag("--why", help="Print the evidence, too (not with --csv).")
@BACKBONE
@STRICT
@NO_CACHE
@QUIET
def recognize(
    memory: Path,
    photos: tuple[Path | str, ...],
    as_json: bool,
    as_csv: bool,
    why: bool,
    broken: OnBroken,
    screen: Output,
    **opening: Any,
) -> None:
    """Print the label of each photo.

    PHOTOS are files, folders or patterns. The answer is "unknown" where that is more probable than
    each known thing. The confidence is the probability of the answer, a label or "unknown".

    With --why, the column "because" has the distances to the most similar photos of the likeliest
    label, and to one of the next label, which speaks against the answer.

    \b
    cbcl recognize things.cbcl new.jpg
    cbcl recognize things.cbcl --why new.jpg
    cbcl recognize things.cbcl --json inbox/ > answers.jsonl
    """
    if as_csv and (as_json or why):
        raise click.UsageError("give --csv alone, without --json and --why.")
    problems: list[CBCLError] = []

    def answers() -> Iterator[Answer]:
        from cbcl.recognition.embedder import FoundPictures

        with screen.progress("recognizing", beside_output=as_json or as_csv) as progress:
            files = recognizer.embedder.sources(photos)
            for start in range(0, len(files), BATCH_SIZE):
                batch = FoundPictures(files[start : start + BATCH_SIZE])
                for result in recognizer.recognize_many(batch, broken=broken):
                    if isinstance(result, CBCLError):
                        problems.append(result)
                    else:
                        yield result
                progress(min(start + BATCH_SIZE, len(files)), len(files))

    with open_memory(memory, **opening) as recognizer:
        if as_csv:
            print_csv_lines(answers())
        elif as_json:
            print_json_lines(answers(), why=why)
        else:
            print_table(answers(), why=why)
    screen.problems(problems)


@main.command()
@click.argument("memory", type=PathArgument(), required=False)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; 0.0.0.0 lets other machines in, over https and with a token.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port; 8737 or the next free one if not given."
)
@flag("--no-browser", help="Do not open the page in a browser.")
@BACKBONE
@PRIVATE
@MAX_CENTROIDS
@click.option(
    "--certificate",
    type=PathArgument(),
    metavar="FILE",
    help="Certificate (PEM) for https, instead of one that cbcl makes and keeps.",
)
@click.option(
    "--key",
    type=PathArgument(),
    metavar="FILE",
    help="Key of the certificate, unless it is in the same file.",
)
@flag("--http", help="Serve other machines over plain http: phones then have no live camera.")
@flag("--new-token", help="Make new access tokens: all devices must scan the code again.")
@click.option(
    "--inbox",
    type=PathArgument(),
    metavar="FOLDER",
    help="Show the photos that `cbcl watch --inbox` keeps there, to be named.",
)
@flag("--log", help="Log every request to standard error as a JSON object.")
def teach(
    memory: Path | None,
    no_browser: bool,
    backbone: str | None,
    private: bool,
    max_centroids: int | None,
    **serving: Any,  # arguments of `serve`: host, port and all others
) -> None:
    """Serve a page to teach and ask with a camera or photos, and an API for robots.

    MEMORY is a file, created with the first thing learned, or a folder, by default this one: then
    the page lists its memories, opens them, and makes new ones. Only this machine can reach the
    page. With --host, others can, too: over https, and with an access token, which is part of the
    printed address and stays the same until --new-token. More: docs/serving.md.

    \b
    cbcl teach things.cbcl
    cbcl teach                                # all memories of this folder
    cbcl teach things.cbcl --host 0.0.0.0     # for a phone, too
    """
    server = import_extra("web", "cbcl.web.server", "the teaching page")
    from cbcl.recognition.memory_files import first_memory

    screen = Output()
    given = memory or Path()
    several = given.is_dir()
    path = first_memory(given) if several else given
    with open_memory(path, backbone, private=private, max_centroids=max_centroids) as recognizer:
        server.serve(recognizer, say=screen.say, browser=not no_browser, several=several, **serving)
        if several:
            screen.say("stopped.")
        else:
            screen.say(f"stopped; {given} knows {count(len(recognizer.labels()), 'thing')}.")


@main.command()
@MEMORY
@click.argument("folders", nargs=-1, required=True, type=PhotoArgument())
@BACKBONE
@STRICT
@NO_CACHE
@QUIET
def tune(
    memory: Path,
    folders: tuple[Path | str, ...],
    broken: OnBroken,
    screen: Output,
    **opening: Any,
) -> None:
    """Choose the vote's radius and number of voters by cross-validation on photos.

    Only memories that learn by the vote have them (`cbcl learn --head vote`). FOLDERS are like
    those of `cbcl learn`, but are not learned. What is known stays as it is: the radius holds for
    what is learned from now on. Where there is no memory, this makes one that learns by the vote.
    `cbcl learn` tunes by itself if it learns several labels at once.

    \b
    cbcl tune things.cbcl photos/
    """
    with open_memory(memory, **opening) as recognizer, screen.progress("tuning") as progress:
        is_new = recognizer.embedder.about() is None
        things = recognizer.embedder.find_labelled(folders)
        tuning = recognizer.tune(things, broken=broken, progress=progress)
    photos = count(sum(tuning.pictures.values()), "photo")
    screen.say(f"tried on {photos} of {count(len(tuning.pictures), 'thing')}:")
    screen.say(f"radius {tuning.radius:g}: {_describe_radius(tuning.radius)}.")
    screen.say(f"{count(tuning.n_voters, 'voter')}: {_describe_voters(tuning.n_voters)}.")
    if is_new:
        screen.say(f"{memory} did not exist: it is a new memory now, which learns by the vote.")
    screen.say(f"{memory} keeps both; the radius holds for what it learns from now on.")
    screen.problems(tuning.problems)


def _describe_radius(radius: float) -> str:
    if radius == math.inf:
        return "one centroid a thing, the mean of all its photos"
    if radius == 0.0:
        return "every photo is a centroid of its own"
    return "photos of a thing that are closer than this share a centroid, their mean"


def _describe_voters(n_voters: int) -> str:
    if n_voters == 1:
        return "the nearest centroid decides"
    return f"the {n_voters} nearest centroids decide together, the nearer the more"


for command in (*COMMANDS, watch, backbones):
    main.add_command(command)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a shell completion script.

    \b
    cbcl completion bash >> ~/.bashrc
    """
    script = get_completion_class(shell)
    if script is not None:
        click.echo(script(main, {}, "cbcl", "_CBCL_COMPLETE").source())


@main.command()
def version() -> None:
    """Print the version.

    \b
    cbcl version
    """
    click.echo(__version__)
