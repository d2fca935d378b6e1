"""Origins of the runs: data, weights, software and machines; and the runs that are missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from cbcl_study.records import RunRecord
from cbcl_study.report.aggregate import DASH, DATA, Records, RunGroup, name_of, runs_of
from cbcl_study.report.rendering import RowGroup, Section, Table

FINGERPRINT_DIGITS = 8


def section(records: Records) -> Section:
    text = (
        "Fingerprints are the first digits of a SHA-256: of the pictures with their labels, of the "
        "network's numbers, and of the vectors; the preprocessing is in each record. Hours are the "
        "sum over all runs."
    )
    spent = _hours(records)
    machines = "; ".join(sorted({record["machine"] for record in records}))
    text += f" All: {len(records)} runs, {spent:.1f} hours. Machines: {machines or DASH}."
    details = [surroundings(records)]
    return Section("Data, software and machines", [text], [inputs(records)], details=details)


def not_run(records: Records, groups: Iterable[RunGroup]) -> list[Section]:
    """Return what sections of the report would show and no record has, in one place."""
    learners: dict[tuple[str, str], list[str]] = {}  # by data and backbone, and by protocol
    for group in dict.fromkeys(groups):
        if not runs_of(records, group):
            place = f"{DATA.get(group.data, group.data)}, {group.backbone}"
            learners.setdefault((place, group.how), []).append(name_of(group.learner))
    if not learners:
        return []
    protocols: dict[tuple[str, str], list[str]] = {}  # those that lack the same learners
    for (place, how), names in learners.items():
        protocols.setdefault((place, "; ".join(names)), []).append(how)
    rows = [[place, "; ".join(hows), names] for (place, names), hows in protocols.items()]
    columns = ("data, backbone", "protocol", "learners")
    table = Table("Not run", columns, [RowGroup(None, rows)], heads=2, words=("learners",))
    text = "Where a table above has a dash or lacks a row, this was not run."
    return [Section("Not run", [text], [table])]


def inputs(records: Records) -> Table:
    """Return data and backbones, with short fingerprints."""
    runs: dict[tuple[str, ...], list[RunRecord]] = defaultdict(list)
    for record in records:
        given, run = record["inputs"], record["run"]
        digests = (given.get(name) for name in ("pictures", "weights", "vectors"))
        short = (str(digest)[:FINGERPRINT_DIGITS] if digest else DASH for digest in digests)
        runs[run["data"], run["backbone"], *short].append(record)
    rows = [[DATA.get(key[0], key[0]), *key[1:], *_amount(runs[key])] for key in sorted(runs)]
    columns = ["data", "backbone", "pictures", "weights", "vectors", "runs", "hours"]
    groups = [RowGroup(None, rows)]
    return Table(
        "Data and backbones", columns, groups, _notes(records), heads=2, words=columns[2:5]
    )


def _notes(records: Records) -> list[str]:
    """Return a sentence for each note on how vectors were made, with the learners that saw them."""
    learners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for record in records:
        given = record["inputs"]
        if note := (given.get("preprocessing") or {}).get("note"):
            vectors = given["vectors"][:FINGERPRINT_DIGITS]
            learners[vectors, note].add(name_of(record["run"]["learner"]))
    return [
        f"Vectors {vectors}: {note}; seen by {', '.join(sorted(names))}."
        for (vectors, note), names in sorted(learners.items())
    ]


def surroundings(records: Records) -> Table:
    """Return machines and versions, with the commits that ran there."""
    runs: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in records:
        device = record.get("device") or {}  # of learners that torch trains
        torch = {"torch": device["torch"]} if device else {}
        versions = sorted({**record["versions"], **torch}.items())
        libraries = ", ".join(f"{name} {number}" for name, number in versions)
        machine = ", ".join([record["machine"], *([device["name"]] if device else [])])
        runs[machine, libraries].append(record)
    rows = []
    for key in sorted(runs):
        commits = sorted({record["commit"] or DASH for record in runs[key]})
        rows.append([*key, ", ".join(commits), *_amount(runs[key])])
    columns = ("machine", "libraries", "commits", "runs", "hours")
    return Table("Software and machines", columns, [RowGroup(None, rows)], words=columns[1:3])


def _amount(records: Records) -> list[str]:
    """Return the number of runs, and the hours of all of them."""
    return [str(len(records)), f"{_hours(records):.2f}"]


def _hours(records: Records) -> float:
    """Return all that runs took: as recorded, or the sum of its parts."""
    seconds = (record["seconds"] for record in records)
    return sum(one["all"] if "all" in one else sum(one.values()) for one in seconds) / 3600.0
