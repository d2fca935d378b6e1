"""Write docs/cli.md from every command's --help: `python docs/make_cli.py` after changing one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from cbcl.cli.commands import main

HEAD = """# The command line

Made from `--help` by `python docs/make_cli.py`; a test checks that it is current.

Exit codes: 0, everything was done; 1, something is wrong with a photo, a memory or a backbone: one
sentence on standard error (other photos are learned or answered all the same, unless `--strict`);
2, wrong usage. On a terminal there are tables, colours and a progress bar; in a pipe, lines with
tabs. Ctrl-C never damages a memory.
"""


def sections(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[str]:
    context = command.make_context(
        name.split()[-1], ["--help"], parent, resilient_parsing=True, terminal_width=100
    )
    yield f"## {name}\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            if (sub := command.get_command(context, each)) is not None:
                yield from sections(sub, f"{name} {each}", context)


def reference() -> str:
    return "\n".join([HEAD, *sections(main, "cbcl")])


@click.command(help=__doc__)
def make() -> None:
    if "bench" not in main.list_commands(click.Context(main)):
        raise click.ClickException("`cbcl bench` would be left out: pip install ./study")
    Path(__file__).with_name("cli.md").write_text(reference())


if __name__ == "__main__":
    make()
