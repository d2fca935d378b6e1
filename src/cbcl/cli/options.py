"""Arguments and options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cbcl.cli.output import Output
from cbcl.vision.finding import is_url

if TYPE_CHECKING:
    from cbcl.recognition.recognizer import Recognizer

F = TypeVar("F", bound=Callable[..., Any])
ENGINES = ("loky", "dask", "ray")
MEMORY_SUFFIX = ".cbcl"  # usual, not required


class PathArgument(click.Path):
    """A path that is not empty: an unset shell variable must not mean the working folder."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Path:
        if not str(value):
            self.fail("a path is empty.", param, ctx)
        return Path(value)


class PhotoArgument(PathArgument):
    """A path, or an address such as s3://bucket/photos, which stays a string."""

    def convert(  # type: ignore[override]
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | str:
        return value if is_url(value) else super().convert(value, param, ctx)


class HeadName(click.Choice[str]):
    """A head that is installed here, by its name; the default one is offered first."""

    name = "head"

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override] # read when it is asked for
        from cbcl.heads.base import DEFAULT_HEAD, head_names

        return sorted(head_names(), key=lambda name: name != DEFAULT_HEAD)


def _memory_first(
    ctx: click.Context, _: click.Parameter, photos: tuple[Path | str, ...]
) -> tuple[Path | str, ...]:
    """Refuse a memory among the photos if the first argument is not a memory."""
    if ctx.params["memory"].suffix != MEMORY_SUFFIX:
        for path in photos:
            if Path(path).suffix == MEMORY_SUFFIX:
                raise click.UsageError(f"{path} is a memory: give it first, then the photos.")
    return photos


def flag(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option that takes no value."""
    return click.option(*names, is_flag=True, **settings)


def open_memory(memory: Path, backbone: str | None = None, **settings: Any) -> Recognizer:
    """Return a `Recognizer`, imported only now: commands without one start sooner."""
    from cbcl.recognition.recognizer import Recognizer

    return Recognizer(memory, backbone, **settings)


def import_extra(extra: str, module: str, subject: str) -> Any:
    """Import a module that needs an extra; an error says that `subject` needs it, and how."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f'{subject} needs the extra "{extra}": pip install "cbcl[{extra}]"'
        ) from error


def _output(_: click.Context, __: click.Parameter, quiet: bool) -> Output:
    return Output(quiet=quiet)


MEMORY = click.argument("memory", type=PathArgument())
PHOTOS = click.argument(
    "photos", nargs=-1, required=True, type=PhotoArgument(), callback=_memory_first
)
QUIET = flag("--quiet", "-q", "screen", callback=_output, help="Print only results and errors.")
STRICT = flag(
    "--strict",
    "broken",
    callback=lambda _, __, strict: "raise" if strict else "report",
    help="Stop at the first photo that cannot be read, and change nothing.",
)
BACKBONE = click.option(
    "--backbone",
    metavar="NAME",
    help="Backbone: a name from `cbcl backbones list`, or an .onnx file.",
)
NO_CACHE = flag(
    "--no-cache",
    "cache",
    callback=lambda _, __, given: not given,
    help="Do not read or write the vector cache.",
)
PRIVATE = flag(
    "--private",
    help="Create the memory without thumbnails, and do not cache the vectors of its photos.",
)
ENGINE = click.option(
    "--backend",
    "engine",
    type=click.Choice(ENGINES),
    help="Engine of the workers: loky (processes of this machine), dask or ray (extras).",
)
ADDRESS = click.option(
    "--address",
    help="Address of a running cluster of dask or ray; if not given, one is started on this"
    " machine.",
)
MAX_CENTROIDS = click.option(
    "--max-centroids",
    type=click.IntRange(1),
    metavar="K",
    help="With the vote: keep at most this many centroids from now on.",
)
