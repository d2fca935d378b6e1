"""`cbcl backbones`: list, import, download, test and measure the networks that see photos."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from cbcl.cli.options import QUIET, PathArgument
from cbcl.cli.output import Output, count


@click.group()
def backbones() -> None:
    """List, import, download, test and measure the networks that turn photos into vectors."""


@backbones.command("list")
def list_() -> None:
    """List the backbones known by name, and which are installed.

    \b
    cbcl backbones list
    """
    from cbcl.errors import WeightsError
    from cbcl.vision.backbones import list_backbones
    from cbcl.vision.backbones.catalogue import load_installed

    screen = Output()
    screen.table(["name", "features", "installed", "weights"], list_backbones())
    screen.problems([one for one in load_installed().values() if isinstance(one, WeightsError)])


@backbones.command("import")
@click.argument("name")
@click.argument("file", type=PathArgument())
@QUIET
def import_backbone(name: str, file: Path, screen: Output) -> None:
    """Build a network from a weights file, to be used by name from now on.

    \b
    cbcl backbones import resnet18 resnet18-f37072fd.pth
    """
    from cbcl.vision.backbones.catalogue import import_network

    network = import_network(name, file)
    screen.say(f"{name} is installed ({network.fingerprint[:8]}).")


@backbones.command()
@click.argument("name")
@QUIET
def download(name: str, screen: Output) -> None:
    """Download the published weights of a network, check their SHA-256, and import them.

    \b
    cbcl backbones download resnet18
    """
    from cbcl.vision.backbones.catalogue import download as fetched

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


@backbones.command()
@click.argument("name")
@click.argument("folders", nargs=2, type=PathArgument(), metavar="FOLDER FOLDER")
@click.option(
    "--output",
    "-o",
    type=PathArgument(),
    metavar="FILE",
    help="Write the numbers into this table (JSON), as the row of the backbone.",
)
@QUIET
def measure(name: str, folders: tuple[Path, Path], output: Path | None, screen: Output) -> None:
    """Measure how similar photos look through a backbone. New memories use it to decide "unknown".

    Each FOLDER has a folder of photos for each of at least 20 things; the things in the two are of
    different kinds. The numbers of an .onnx file are written into its description, the .json file
    beside it, and kept by memories begun afterwards. Those of a backbone known by name are printed
    as JSON.

    \b
    cbcl backbones measure net.onnx birds/ groceries/
    """
    from cbcl.errors import WeightsError
    from cbcl.method.discriminant.measured import NUMBERS
    from cbcl.recognition.cosines import measure as measured_on
    from cbcl.recognition.cosines import read_rows, write_row
    from cbcl.vision.backbones import load_backbone
    from cbcl.vision.backbones.base import Fittable, short_name, subject_of

    backbone = load_backbone(name)
    if isinstance(backbone, Fittable):
        raise WeightsError(name, "is made from the first pictures that are learned", "give another")
    if output is not None:
        read_rows(output)  # fails before the work, not after it
    with screen.progress("measuring") as progress:
        found = measured_on(backbone, folders, progress)
    data = [folder.resolve().name for folder in folders]
    row = {
        "fingerprint": backbone.fingerprint,
        "data": data,
        "photos": found.photos,
        "classes": found.classes,
        "command": shlex.join(["cbcl", "backbones", "measure", short_name(name), *data]),
        "numbers": found.numbers,
    }
    key = short_name(name)
    subject = subject_of(name)
    if output is None and isinstance(subject, Path):
        key = "measured"
        output = subject.with_suffix(".json")
    if output is None:
        click.echo(json.dumps({key: row}, indent=1))
    else:
        write_row(output, key, row)
        things = f"{count(found.photos, 'photo')} of {count(found.classes, 'thing')}"
        numbers = ", ".join(f"{name} {found.numbers[name]}" for name in NUMBERS)
        screen.say(f"measured on {things}: {numbers}.\nwritten into {output}.")
    screen.problems(found.problems)
