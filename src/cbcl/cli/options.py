"""What several commands take."""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem


class PathArgument(click.ParamType):  # type: ignore[type-arg] # which older versions do not take
    """A path that was given: an empty one, such as of a variable that is not set, is not the working folder."""

    name = "path"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value):
            self.fail("a path is empty.", param, ctx)
        return Path(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return click.Path().shell_complete(ctx, param, incomplete)


MEMORY = click.argument("memory", type=PathArgument())
FOLDERS = click.argument("folders", nargs=-1, required=True, type=PathArgument())
PHOTOS = click.argument("photos", nargs=-1, required=True, type=PathArgument())
QUIET = click.option(
    "--quiet", "-q", is_flag=True, help="Say nothing but what was asked for, and errors."
)
STRICT = click.option(
    "--strict", is_flag=True, help="Stop at the first picture that cannot be read, and do nothing."
)
BACKBONE = click.option(
    "--backbone",
    metavar="NAME",
    help="What sees: a name from `cbcl backbones list`, or a file .onnx.",
)
NO_CACHE = click.option(
    "--no-cache", is_flag=True, help="Neither use nor keep vectors of pictures seen before."
)
