"""Time of `cbcl bench paper` from stored vectors on two cores, and whether its records are alike.

    python study/benchmarks/paper_time.py out --pairs 5 --compared results

The orders are divided among pairs of cores, each of which does nothing else meanwhile; the seconds
of all pairs together are those of one pair with all orders, or more, since pairs share memory.
Prints them, and how many records have the results of those compared with, and writes both to
out/paper_time.json. With `--stand-in efficientnet-lite0`, there are only the runs on CIFAR-100, all
through that backbone, whose vectors take minutes: to compare two checkouts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from cbcl.errors import DataError
from cbcl.machine import description
from cbcl_study.data.vectors import features
from cbcl_study.experiments import paper
from cbcl_study.records import Run, RunRecord, read
from cbcl_study.runs import execute
from cbcl_study.scores import average

NO_RESULTS = {"run", "inputs", "seconds", "commit", "version", "machine", "versions", "device"}
SHOWN = 12  # records that differ


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="new folder for the records")
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=1, help="of cores")
    parser.add_argument("--compared", type=Path, default=Path("results"), help="folder of records")
    parser.add_argument("--stand-in", help="backbone in place of those of CIFAR-100")
    parser.add_argument("--seeds", type=int, nargs="*", help=argparse.SUPPRESS)  # of one pair
    arguments = parser.parse_args()
    if arguments.seeds:
        runs = wanted_runs(arguments.seeds, arguments.stand_in)
        print(json.dumps(time_orders(arguments.seeds, runs, arguments.out)))
        return
    arguments.out.mkdir(parents=True)
    seeds = [[*range(arguments.orders)][pair :: arguments.pairs] for pair in range(arguments.pairs)]
    measured = time_pairs(seeds, arguments.stand_in, arguments.out)
    seconds = sum(pair["seconds"] for pair in measured)
    processor = sum(pair["processor_seconds"] for pair in measured)
    runs = sum(pair["runs"] for pair in measured)
    print(f"{description()}\n{runs} runs: {seconds:.0f} s on two cores, {processor:.0f} s of cores")
    records = [record for pair in seeds for record in read(folder_of(pair, arguments.out))]
    found = {
        "machine": description(),
        "runs": runs,
        "seconds": round(seconds, 1),
        "processor_seconds": round(processor, 1),
        "pairs": measured,
        "compared": compare(records, read(arguments.compared)),
    }
    (arguments.out / "paper_time.json").write_text(json.dumps(found, indent=1))


def time_pairs(
    seeds: Sequence[Sequence[int]], stand_in: str | None, out: Path
) -> list[dict[str, Any]]:
    """Time the orders of each pair of cores, all pairs at once."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 * len(seeds):
        raise SystemExit(f"{len(seeds)} pairs need {2 * len(seeds)} cores: there are {len(cores)}.")
    processes = []
    for number, own in enumerate(seeds):
        os.sched_setaffinity(0, cores[2 * number : 2 * number + 2])  # which it inherits
        command = [sys.executable, __file__, str(folder_of(own, out)), "--seeds", *map(str, own)]
        if stand_in is not None:
            command += ["--stand-in", stand_in]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    os.sched_setaffinity(0, cores)
    measured = []
    for process in processes:
        printed, _ = process.communicate()
        if process.returncode:
            raise SystemExit(f"a pair of cores stopped with {process.returncode}.")
        measured.append(json.loads(printed))
        print(printed.strip(), flush=True)
    return measured


def folder_of(seeds: Sequence[int], out: Path) -> Path:
    return out / "-".join(["seeds", *map(str, seeds)])


def wanted_runs(seeds: Sequence[int], stand_in: str | None) -> list[Run]:
    """Return the runs of these orders; of CIFAR-100 alone, where a backbone stands in."""
    runs = [run for run in paper(max(seeds) + 1) if run.seed in seeds]
    if stand_in is None:
        return runs
    of_cifar = [run for run in runs if run.data == "cifar100"]
    return [*dict.fromkeys(run._replace(backbone=stand_in) for run in of_cifar)]


def time_orders(seeds: Sequence[int], wanted: Sequence[Run], folder: Path) -> dict[str, Any]:
    """Perform the runs of these orders whose vectors are stored, in two processes."""
    begun = perf_counter()
    possible: dict[tuple[str, str], bool] = {}
    for run in wanted:
        pair = run.data, run.backbone
        if pair not in possible:
            possible[pair] = have_vectors(*pair)
    runs = [run for run in wanted if possible[run.data, run.backbone]]
    records, failures = execute(runs, folder, workers=2, progress=lambda _, __: None)
    seconds, used = perf_counter() - begun, os.times()
    return {
        "seeds": [*seeds],
        "runs": len(records),
        "of": len(wanted),
        "failures": [str(failure) for failure in failures],
        "seconds": round(seconds, 1),
        "processor_seconds": round(sum(used[:4]), 1),  # of this process and those it started
    }


def have_vectors(data: str, backbone: str) -> bool:
    try:
        features(data, backbone)
    except DataError:
        return False
    return True


def compare(records: Sequence[RunRecord], stored: Sequence[RunRecord]) -> dict[str, Any]:
    """Print and return how many records have the same results as the stored ones of their runs."""
    before = {as_run(record): record for record in reversed(stored)}  # the first of each run
    equal: Counter[str] = Counter()
    several: Counter[str] = Counter()
    differing: list[dict[str, Any]] = []
    for record in records:
        run = as_run(record)
        if (old := before.get(run)) is None:
            continue
        name = f"{run.data} {run.backbone}"
        several[name] += 1
        fields = [
            field for field in {*record, *old} - NO_RESULTS if record.get(field) != old.get(field)
        ]
        if fields:
            change = average(record) - average(old)
            differing.append({"run": run._asdict(), "fields": sorted(fields), "average": change})
        equal[name] += not fields
    for name, count in several.items():
        print(f"{name}: {equal[name]} of {count} records have the results that are stored")
    differing.sort(key=lambda one: -abs(one["average"]))
    for one in differing[:SHOWN]:
        print(f"{one['average']:+.4f} {' '.join(map(str, one['run'].values()))}: {one['fields']}")
    return {"equal": equal, "of": several, "differing": differing}


def as_run(record: RunRecord) -> Run:
    return Run(**{name: record["run"][name] for name in Run._fields})


if __name__ == "__main__":
    main()
