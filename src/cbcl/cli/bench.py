"""The commands of `cbcl bench`: data sets, vectors, runs, the whole paper, the report."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from cbcl.cli.options import QUIET
from cbcl.cli.output import Output
from cbcl.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cbcl.study.records import Run, RunRecord
    from cbcl.study.runs import Failure

DATA = click.option(
    "--data",
    "folder",
    type=click.Path(path_type=Path),
    envvar="CBCL_DATA",
    metavar="DIR",
    help="Where the pictures are (or $CBCL_DATA), if their vectors are not kept yet.",
)
BACKBONE = click.option(
    "--backbone",
    metavar="NAME",
    help="What sees the pictures; else efficientnet-lite0 (of digits: identity).",
)
RESULTS = click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Where records are.",
)
ORDERS = click.option(
    "--orders",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Random orders of the classes: seeds 0, 1, …",
)
WORKERS = click.option("--workers", type=click.IntRange(1), help="Runs at a time; else one a core.")


class Bench(click.Group):
    """The commands; what is stopped can go on."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.ClickException(
                "stopped. What was finished is kept; the same command goes on."
            ) from None


@click.group(cls=Bench)
def bench() -> None:
    """Rerun the paper's experiments, or your own, on real data, and report what comes out.

    \b
    cbcl bench run digits --increment 2 --shots 5 --learner cbcl,ncm
    cbcl bench vectors cifar100 --data ~/data --backbone resnet50-keras
    cbcl bench paper && cbcl bench report
    """


@bench.command("list")
def list_() -> None:
    """The data sets with the vectors that are kept, and the learners.

    \b
    cbcl bench list
    """
    from cbcl.study.data.datasets import NAMES
    from cbcl.study.data.vectors import kept
    from cbcl.study.learners import LEARNERS

    screen = Output()
    here = kept()
    rows = [
        (name, ", ".join(here.get(name, ())) or "no vectors yet")
        for name in dict.fromkeys([*NAMES, *here])
    ]
    screen.table(["data", "vectors kept, through"], rows)
    screen.say("")
    screen.table(["learner", "what it is"], [(name, kind.words) for name, kind in LEARNERS.items()])


@bench.command()
@click.argument("data")
@click.argument("folder", type=click.Path(path_type=Path))
@QUIET
def download(data: str, folder: Path, quiet: bool) -> None:
    """Fetch a data set from its makers, check it, and unpack it into FOLDER.

    \b
    cbcl bench download cifar100 ~/data
    """
    from cbcl.study.data.downloads import download as fetched

    screen = Output(quiet=quiet)
    with screen.progress("fetching") as progress:
        place = fetched(data, folder, progress)
    screen.say(f"{data} is in {place}.")


@bench.command()
@click.argument("data")
@DATA
@BACKBONE
@click.option("--anew", is_flag=True, help="Compute them again, also if they are kept.")
@QUIET
def vectors(data: str, folder: Path | None, backbone: str, anew: bool, quiet: bool) -> None:
    """Compute the vectors of a data set through a backbone, and keep them; stopped, it goes on where it was.

    DATA is cifar100, cifar10, caltech101, cub200, digits, or a folder with one folder of pictures a class.

    \b
    cbcl bench vectors caltech101 --data ~/data --backbone efficientnet-lite0
    """
    from cbcl.study.data.vectors import features

    screen = Output(quiet=quiet)
    with screen.progress("looking") as progress:
        about = features(
            _named(data), _seen(data, backbone), folder=folder, anew=anew, progress=progress
        ).about
    screen.say(
        f"{about['data']} through {about['backbone']}: {about['pictures']} pictures of {about['classes']} classes, "
        f"{about['dimension']} numbers each ({about['vectors'][:8]})."
    )


@bench.command()
@click.argument("data")
@DATA
@BACKBONE
@click.option(
    "--learner",
    "learners",
    default="cbcl,ncm",
    show_default=True,
    help="Names from `cbcl bench list`.",
)
@click.option(
    "--increment", type=click.IntRange(1), default=10, show_default=True, help="Classes at a time."
)
@click.option(
    "--base", type=click.IntRange(1), help="Classes of the first increment, where it differs."
)
@click.option(
    "--shots", type=click.IntRange(1), help="Pictures of each class to learn from; else all."
)
@click.option(
    "--classes",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="At most so many take part.",
)
@click.option("--max-centroids", type=click.IntRange(1), metavar="K", help="A limit on centroids.")
@ORDERS
@RESULTS
@WORKERS
@QUIET
def run(
    data: str,
    folder: Path | None,
    backbone: str,
    learners: str,
    orders: int,
    results: Path,
    workers: int | None,
    quiet: bool,
    **protocol: Any,
) -> None:
    """Run learners on streams of a data set, a few classes at a time, and show how well they do.

    What has a record in the results is not run again; a run that was stopped goes on where it was.

    \b
    cbcl bench run digits --increment 2 --shots 5 --learner cbcl,ncm,slda
    cbcl bench run caltech101 --data ~/data --shots 5 --learner cbcl,ncm,probe
    """
    from cbcl.study.data.vectors import features
    from cbcl.study.experiments import runs

    screen = Output(quiet=quiet)
    names = [name.strip() for name in learners.split(",") if name.strip()]
    if not names:
        raise click.UsageError("name a learner: `cbcl bench list` tells them.")
    data, seen = _named(data), _seen(data, backbone)
    wanted = [
        one for seed in range(orders) for one in runs(data, seen, names, seed=seed, **protocol)
    ]
    with screen.progress("looking") as progress:
        features(data, seen, folder=folder, progress=progress)
    records, failures = _executed(screen, wanted, results, workers)
    _show(screen, records)
    screen.problems([_told(failure) for failure in failures])


@bench.command()
@ORDERS
@RESULTS
@WORKERS
@QUIET
def paper(orders: int, results: Path, workers: int | None, quiet: bool) -> None:
    """Run every experiment of the paper that the vectors kept here allow, and say which vectors are missing.

    \b
    cbcl bench paper
    """
    from cbcl.study.data.vectors import kept
    from cbcl.study.experiments import paper as planned

    screen = Output(quiet=quiet)
    here = {(data, backbone) for data, backbones in kept().items() for backbone in backbones}
    wanted = planned(orders)
    begun = perf_counter()
    possible = [one for one in wanted if (one.data, one.backbone) in here]
    records, failures = _executed(screen, possible, results, workers)
    screen.say(
        f"{len(records)} of {len(wanted)} runs are recorded in {results} ({perf_counter() - begun:.0f} s)."
    )
    missing = sorted({(one.data, one.backbone) for one in wanted} - here)
    screen.problems(
        [
            *(_told(failure) for failure in failures),
            *(
                DataError(
                    f"{data} through {name}: `cbcl bench vectors {data} --data DIR --backbone {name}` makes them."
                )
                for data, name in missing
            ),
        ]
    )


@bench.command()
@RESULTS
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    help="The page to write; else report.html beside the records.",
)
@click.option(
    "--markdown", type=click.Path(path_type=Path), help="Also write the tables as Markdown."
)
@QUIET
def report(results: Path, html: Path | None, markdown: Path | None, quiet: bool) -> None:
    """Put the paper's numbers and those of the records side by side, with figures, in one page.

    \b
    cbcl bench report --markdown study.md
    """
    from cbcl.files import write_whole
    from cbcl.study.records import read
    from cbcl.study.report import report as made

    records = read(results)
    if not records:
        raise DataError(
            f"there are no records in {results}: `cbcl bench run` and `cbcl bench paper` make some."
        )
    screen = Output(quiet=quiet)
    page = html or results / "report.html"
    write_whole(page, made.html(records).encode())
    if markdown is not None:
        write_whole(markdown, made.markdown(records).encode())
    screen.say(f"wrote {page}{f' and {markdown}' if markdown else ''}, from {len(records)} runs.")


def _executed(
    screen: Output, wanted: Sequence[Run], results: Path, workers: int | None
) -> tuple[list[RunRecord], list[Failure]]:
    from cbcl.study.runs import execute

    with screen.progress("running") as progress:
        return execute(wanted, results, workers=workers, progress=progress)


def _named(data: str) -> str:
    """A data set by name, or a folder by its whole path, so that it is the same however it is written."""
    from cbcl.study.data.datasets import NAMES

    if not data.strip():
        raise click.UsageError("name a data set, or a folder of folders of pictures.")
    return data if data in NAMES or not Path(data).is_dir() else str(Path(data).resolve())


def _seen(data: str, backbone: str | None) -> str:
    from cbcl.study.data.datasets import DIGITS
    from cbcl.vision.backbones import DEFAULT

    return backbone or ("identity" if data == DIGITS else DEFAULT)


def _told(failure: Failure) -> DataError:
    run = failure.run
    return DataError(f"{run.learner} on {Path(run.data).name}, seed {run.seed}: {failure.reason}")


def _show(screen: Output, records: Sequence[RunRecord]) -> None:
    from cbcl.study.report.scores import average, class_means, last, summary

    rows = []
    for name in dict.fromkeys(record["run"]["learner"] for record in records):
        some = [record for record in records if record["run"]["learner"] == name]
        scores = [
            summary([100.0 * score(record) for record in some])
            for score in (average, last, lambda record: float(class_means(record)[-1]))
        ]
        size = summary([record["bytes"] / 1e6 for record in some]).mean
        seconds = summary([record["seconds"]["learning"] for record in some]).mean
        means = (
            f"{one.mean:.2f} ± {one.std:.2f}" if one.n > 1 else f"{one.mean:.2f}" for one in scores
        )
        rows.append((name, *means, f"{size:.3g}", f"{seconds:.3g}", len(some)))
    screen.table(
        ["learner", "average", "last", "last, mean of classes", "MB", "s learning", "orders"], rows
    )
