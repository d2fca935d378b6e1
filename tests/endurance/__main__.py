"""Attack cbcl: kill it, damage its files, fill its disk, send it what nobody should.

    cd tests && python -m endurance                      everything; takes an hour
    cd tests && python -m endurance --short              what CI runs: 3 minutes at most
    cd tests && python -m endurance --only soak --seed 7

It prints the seed, a line for each trial, and each finding with what repeats it; it exits 1 if
there was one. A finding becomes a test beside the code that it is about.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cbcl_study.records import surroundings
from endurance import (
    commands,
    costly_pictures,
    files,
    flips,
    full_disk,
    kills,
    logs,
    network,
    pictures,
    schemas,
    soak,
    sockets,
    teaching,
    torn,
)
from endurance.trial import Attack, Outcome, Trial

TRIALS: tuple[Trial, ...] = (
    *kills.TRIALS,
    *commands.TRIALS,
    *teaching.TRIALS,
    *torn.TRIALS,
    *full_disk.TRIALS,
    *flips.TRIALS,
    *logs.TRIALS,
    *schemas.TRIALS,
    *soak.TRIALS,
    *pictures.TRIALS,
    *costly_pictures.TRIALS,
    *files.TRIALS,
    *network.TRIALS,
    *sockets.TRIALS,
)


def attempt(trial: Trial, count: int, seed: int) -> tuple[Outcome, float]:
    """Run a trial in a folder of its own; return what came of it, and how long it took."""
    begun = time.monotonic()

    def progress(done: int) -> None:
        if sys.stderr.isatty():
            elapsed = time.monotonic() - begun
            sys.stderr.write(
                f"\r{trial.name}: {done:,} of {count:,} {trial.unit}, {elapsed:.0f} s "
            )

    with tempfile.TemporaryDirectory(prefix="cbcl-endurance-") as folder:
        outcome = trial.run(Attack(count, seed, Path(folder), progress))
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    return outcome, time.monotonic() - begun


def keep(path: Path, row: dict[str, Any]) -> None:
    """Write the outcome of a trial into a record, in place of an earlier one."""
    rows = {}
    if path.exists():
        rows = {each["trial"]: each for each in json.loads(path.read_text())["trials"]}
    rows[row["trial"]] = row
    kept = [rows[trial.name] for trial in TRIALS if trial.name in rows]
    path.write_text(json.dumps({"trials": kept}, indent=1) + "\n")


def main() -> int:
    names = [trial.name for trial in TRIALS]
    parser = argparse.ArgumentParser(
        prog="python -m endurance",
        description=(__doc__ or "").splitlines()[0],
        epilog="example: python -m endurance --only soak --count 1000 --seed 7",
    )
    parser.add_argument("--short", action="store_true", help="at most 3 minutes, as in CI")
    parser.add_argument("--only", action="append", metavar="NAME", help=", ".join(names))
    parser.add_argument("--count", type=int, metavar="N", help="how many to try in each trial")
    parser.add_argument("--seed", type=int, default=0, help="of all random numbers; default: 0")
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="keep the latest outcome of each trial there"
    )
    options = parser.parse_args()
    for name in options.only or []:
        if name not in names:
            parser.error(f"there is no trial {name!r}; there are: {', '.join(names)}")
    sys.stdout.write(f"seed {options.seed}\n")
    rows: list[dict[str, Any]] = []
    for trial in TRIALS:
        if options.only and trial.name not in options.only:
            continue
        count = options.count or (trial.short if options.short else trial.long)
        outcome, seconds = attempt(trial, count, options.seed)
        row = {"trial": trial.name, "unit": trial.unit, "seconds": round(seconds, 1)}
        rows.append(row | asdict(outcome))
        sys.stdout.write(
            f"{trial.name}: {outcome.tried:,} {trial.unit}, {len(outcome.found)} found, "
            f"{outcome.lost} lost, {seconds:.0f} s\n"
        )
        for line in [*outcome.remarks, *outcome.found]:
            sys.stdout.write(f"  {line}\n")
        sys.stdout.flush()
        if options.record:
            keep(options.record, rows[-1] | {"seed": options.seed} | surroundings())
    return int(any(row["found"] or row["lost"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
