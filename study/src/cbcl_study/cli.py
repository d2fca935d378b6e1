"""The commands of `cbcl bench`: data sets, vectors, runs, the whole paper, the report."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from cbcl.cli.options import ADDRESS, ENGINE, QUIET
from cbcl.cli.output import Output
from cbcl.cli.workers import start_workers
from cbcl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cbcl_study.records import Run, RunRecord
    from cbcl_study.runs import Failure

PATH, COUNT = click.Path(path_type=Path), click.IntRange(1)
DATA = click.option(
    "--data",
    "folder",
    type=PATH,
    envvar="CBCL_DATA",
    metavar="DIR",
    help="Folder of the pictures (or $CBCL_DATA), if their vectors are not stored yet.",
)
BACKBONE = click.option(
    "--backbone",
    metavar="NAME",
    help="Backbone: a name from `cbcl backbones list`, or an .onnx file; "
    "else efficientnet-lite0@2views (for digits: identity).",
)
RESULTS = click.option(
    "--results", type=PATH, default=Path("results"), show_default=True, help="Folder of records."
)
ORDERS = click.option(
    "--orders",
    type=COUNT,
    default=10,
    show_default=True,
    help="Random orders of the classes: seeds 0, 1, …",
)


def parse_seeds(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    """Return the seeds of a list of numbers and ranges: 0-9, or 0,3,7."""
    seeds: list[int] = []
    for part in value.split(","):
        bounds = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if bounds is None:
            raise click.BadParameter(f"{value!r} is no list of seeds, such as 0-9 or 0,3,7.")
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last < first:
            raise click.BadParameter(f"{part.strip()} ends before it begins.")
        seeds += range(first, last + 1)
    return seeds


SEEDS = click.option(
    "--seeds",
    callback=parse_seeds,
    default="0-9",
    show_default=True,
    metavar="LIST",
    help="Random orders of the classes, one a seed: 0-9, or 0,3,7.",
)
WORKERS = click.option("--workers", type=COUNT, help="Runs at a time; else one a core.")


class Bench(click.Group):
    """The commands; Ctrl-C loses no finished work."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.ClickException(
                "stopped. What was finished is kept; the same command goes on."
            ) from None


@click.group(cls=Bench)
def bench() -> None:
    """Rerun the paper's experiments, or your own, on real data, and report the results.

    \b
    cbcl bench run digits --increment 2 --shots 5 --learner cbcl,ncm
    cbcl bench vectors cifar100 --data ~/data --backbone resnet50-keras
    cbcl bench paper && cbcl bench report
    """


@bench.command("list")
def list_() -> None:
    """List data sets, stored vectors and learners.

    \b
    cbcl bench list
    """
    from cbcl_study.data.datasets import NAMES
    from cbcl_study.data.vectors import kept
    from cbcl_study.learners import LEARNERS, learner_kind, plugin_names

    screen, stored = Output(), kept()
    names = dict.fromkeys([*NAMES, *stored])
    rows = [(name, ", ".join(stored.get(name, ())) or "no vectors yet") for name in names]
    screen.table(["data", "vectors stored, through"], rows)
    screen.say("")
    learners, problems = [(name, kind.words) for name, kind in LEARNERS.items()], []
    for name in plugin_names():
        try:
            learners.append((name, learner_kind(name).words))
        except DataError as error:
            problems.append(error)
    screen.table(["learner", "what it is"], learners)
    screen.problems(problems)


@bench.command()
@click.argument("data")
@click.argument("folder", type=PATH)
@QUIET
def download(data: str, folder: Path, screen: Output) -> None:
    """Download a data set from its makers, check it, and unpack it into FOLDER.

    \b
    cbcl bench download cifar100 ~/data
    """
    from cbcl_study.data import downloads

    with screen.progress("downloading") as progress:
        place = downloads.download(data, folder, progress)
    screen.say(f"{data} is in {place}.")


@bench.command()
@click.argument("data")
@DATA
@BACKBONE
@click.option("--anew", is_flag=True, help="Compute them again, even if they are stored.")
@click.option("--jobs", "-j", type=COUNT, metavar="N", help="Embed in N worker processes.")
@ENGINE
@ADDRESS
@QUIET
def vectors(
    data: str,
    folder: Path | None,
    backbone: str,
    anew: bool,
    jobs: int | None,
    engine: str | None,
    address: str | None,
    screen: Output,
) -> None:
    """Compute and store the vectors of a data set through a backbone; a stopped run is resumed.

    DATA is cifar100, cifar10, caltech101, cub200, cub200-official, digits, or a folder with one
    folder of pictures a class.

    \b
    cbcl bench vectors caltech101 --data ~/data --backbone efficientnet-lite0
    CBCL_DEVICE=cuda cbcl bench vectors cifar100 --data ~/data --backbone resnet50-keras --jobs 8
    """
    from cbcl_study.data.vectors import features

    data, backbone = _data_name(data), _backbone_name(data, backbone)
    with (
        screen.progress("embedding") as progress,
        start_workers(jobs, engine, address) as n_jobs,
    ):
        about = features(
            data, backbone, folder=folder, anew=anew, progress=progress, n_jobs=n_jobs
        ).about
    _warn_of_part(about)
    screen.say(
        f"{about['data']} through {about['backbone']}: "
        f"{about['pictures']} pictures of {about['classes']} classes, "
        f"{about['dimension']} numbers each ({about['vectors'][:8]})."
    )


@bench.command()
@click.argument("data")
@DATA
@BACKBONE
@click.option(
    "--learner",
    "learners",
    default="discriminant,cbcl,ncm",
    show_default=True,
    help="Names from `cbcl bench list`, or module:Class of your own.",
)
@click.option("--increment", type=COUNT, default=10, show_default=True, help="Classes at a time.")
@click.option("--base", type=COUNT, help="Classes of the first increment, where it differs.")
@click.option("--shots", type=COUNT, help="Pictures of each class to learn from; else all.")
@click.option(
    "--classes", type=COUNT, default=100, show_default=True, help="Largest number of classes."
)
@click.option("--whole-base", is_flag=True, help="Learn the first increment from all its pictures.")
@click.option(
    "--usual-order", is_flag=True, help="Learn the classes in the one order of many papers."
)
@click.option("--max-centroids", type=COUNT, metavar="K", help="Limit on centroids.")
@SEEDS
@RESULTS
@WORKERS
@ENGINE
@ADDRESS
@QUIET
def run(
    data: str,
    folder: Path | None,
    backbone: str,
    learners: str,
    seeds: list[int],
    results: Path,
    workers: int | None,
    engine: str | None,
    address: str | None,
    screen: Output,
    **protocol: Any,
) -> None:
    """Run learners on streams of a data set, a few classes at a time, and show their accuracy.

    Runs that have a record in the results are not run again; a stopped command is resumed.

    \b
    cbcl bench run digits --increment 2 --shots 5 --learner cbcl,ncm,slda
    cbcl bench run caltech101 --backbone efficientnet-lite0 --shots 5 --learner cbcl,ncm,probe
    cbcl bench run photos --increment 1    # a folder with one folder per class
    cbcl bench run digits --increment 2 --learner mine:NearestMean,ncm    # of mine.py
    """
    from cbcl_study.data.vectors import features
    from cbcl_study.experiments import runs

    names = [name.strip() for name in learners.split(",") if name.strip()]
    if not names:
        raise click.UsageError("name a learner: `cbcl bench list` lists them.")
    if protocol["whole_base"] and not protocol["shots"]:
        raise click.UsageError("--whole-base needs --shots: else all pictures are learned from.")
    data, backbone = _data_name(data), _backbone_name(data, backbone)
    wanted: list[Run] = []
    for seed in seeds:
        wanted += runs(data, backbone, names, seed=seed, **protocol)
    with screen.progress("embedding") as progress:
        for seen_through in dict.fromkeys(one.backbone for one in wanted):
            about = features(data, seen_through, folder=folder, progress=progress).about
    _warn_of_part(about)
    records, failures = _execute(screen, wanted, results, workers, engine, address)
    _show_scores(screen, records)
    screen.problems([_as_error(failure) for failure in failures])


@bench.command()
@ORDERS
@click.option(
    "--beyond",
    is_flag=True,
    help="Also run what the paper has no number for, and rivals that are trained: "
    "hours, and networks need a GPU.",
)
@RESULTS
@WORKERS
@ENGINE
@ADDRESS
@QUIET
def paper(
    orders: int,
    beyond: bool,
    results: Path,
    workers: int | None,
    engine: str | None,
    address: str | None,
    screen: Output,
) -> None:
    """Run the paper's experiments whose vectors are stored, and list the missing vectors.

    \b
    cbcl bench paper
    cbcl bench paper --beyond --orders 3
    """
    from cbcl_study import experiments
    from cbcl_study.data.vectors import features

    wanted = experiments.paper(orders, beyond=beyond)
    begun = perf_counter()
    missing: dict[tuple[str, str], DataError] = {}
    for pair in sorted({(one.data, one.backbone) for one in wanted}):
        try:
            features(*pair)
        except DataError as error:
            missing[pair] = error
    possible = [one for one in wanted if (one.data, one.backbone) not in missing]
    records, failures = _execute(screen, possible, results, workers, engine, address)
    seconds = perf_counter() - begun
    screen.say(f"{len(records)} of {len(wanted)} runs are recorded in {results} ({seconds:.0f} s).")
    screen.problems([*map(_as_error, failures), *missing.values()])


@bench.command()
@RESULTS
@click.option("--html", type=PATH, help="Page to write; else report.html beside the records.")
@click.option("--markdown", type=PATH, help="Also write the tables as Markdown to this file.")
@QUIET
def report(results: Path, html: Path | None, markdown: Path | None, screen: Output) -> None:
    """Write what the records say to one page, with figures: your own data first.

    Runs of the paper's experiments stand beside the paper's numbers.

    \b
    cbcl bench report --markdown study.md
    """
    from cbcl.files import write_atomically
    from cbcl_study.records import read
    from cbcl_study.report import report as texts

    records = read(results)
    if not records:
        advice = "`cbcl bench run` and `cbcl bench paper` make some"
        raise DataError(results, "has no records", advice)
    page = html or results / "report.html"
    write_atomically(page, texts.html(records).encode())
    if markdown is not None:
        write_atomically(markdown, texts.markdown(records).encode())
    screen.say(f"wrote {page}{f' and {markdown}' if markdown else ''}, from {len(records)} runs.")


def _execute(
    screen: Output,
    wanted: Sequence[Run],
    results: Path,
    workers: int | None,
    engine: str | None,
    address: str | None,
) -> tuple[list[RunRecord], list[Failure]]:
    from cbcl_study.runs import execute

    with (
        screen.progress("running") as progress,
        start_workers(workers if engine else None, engine, address) as n_jobs,
    ):
        return execute(wanted, results, workers=workers, n_jobs=n_jobs, progress=progress)


def _data_name(data: str) -> str:
    """Return a data set's name, or a folder's whole path, the same however it is written."""
    from cbcl_study.data.datasets import DIGITS, NAMES

    if not data.strip():
        raise click.UsageError("name a data set, or a folder of folders of pictures.")
    own = data not in NAMES and Path(data).is_dir()
    given = click.get_current_context().get_parameter_source("folder")
    if given is ParameterSource.COMMANDLINE and (own or data == DIGITS):
        raise click.UsageError(f"--data is for data sets such as cifar100: {data} needs none.")
    return str(Path(data).resolve()) if own else data


def _warn_of_part(about: Mapping[str, Any]) -> None:
    """Say on standard error that pictures which bear a data set's name are not all of it."""
    from cbcl_study.paper import STATISTICS

    known = STATISTICS.get(about["data"])
    if known and about["classes"] != known.of:
        found = f"{about['pictures']} pictures of {about['classes']} classes"
        click.echo(f"Warning: {about['data']} has {known.of} classes; here are {found}.", err=True)


def _backbone_name(data: str, backbone: str | None) -> str:
    from cbcl.vision.backbones import DEFAULT
    from cbcl_study.data.datasets import DIGITS

    return backbone or ("identity" if data == DIGITS else DEFAULT)


def _as_error(failure: Failure) -> DataError:
    run = failure.run
    subject = f"{run.learner} on {Path(run.data).name}, seed {run.seed},"
    return DataError(subject, "failed", failure.reason.rstrip("."))


def _show_scores(screen: Output, records: Sequence[RunRecord]) -> None:
    from cbcl_study.report import own
    from cbcl_study.report.aggregate import select

    names = dict.fromkeys(record["run"]["learner"] for record in records)
    rows = [(name, *own.scores(select(records, learner=name))) for name in names]
    screen.table(["learner", *own.SCORES], rows)
