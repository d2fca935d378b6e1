"""The main table: each claim of the paper that is run here, our number, the difference, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import (
    DASH,
    DATA,
    MEASURES,
    Records,
    RowGroup,
    RunGroup,
    Table,
    format_claim,
    format_number,
    format_spread,
    group_of,
)
from cbcl.study.report.explanations import Explanation, explain, measure_run
from cbcl.study.report.paper import CLAIMS, Claim, only
from cbcl.study.report.scores import Summary, summary

COLUMNS = ("what", "measure", "our backbone", "paper", "ours", "orders", "difference", "why")
ORDERS_COLUMN = COLUMNS.index("orders")
LEGEND = "Why: candidates, of which none was measured by itself."


class Comparison(NamedTuple):
    """A claim of the paper and our number with one backbone."""

    claim: Claim
    backbone: str
    ours: Summary
    rather: Summary | None  # of what the claim may be instead
    why: Explanation


def comparisons(records: Records, claims: Iterable[Claim] = CLAIMS) -> list[Comparison]:
    """Return each claim that is run here with each backbone that stands in for the paper's."""
    return [
        _compare(records, claim, backbone)
        for claim in claims
        if claim.protocol.learner is not None
        for backbone in claim.protocol.ours
    ]


def _compare(records: Records, claim: Claim, backbone: str) -> Comparison:
    runs = aggregate.runs_of(records, group_of(claim, backbone))
    ours, rather = summary([measure_run(claim, run) for run in runs]), None
    if claim.rather and runs:
        rather = summary([measure_run(claim, run, claim.rather) for run in runs])
    why = explain(claim, backbone, ours.mean - claim.value, ours.std)
    return Comparison(claim, backbone, ours, rather, why)


def main_claims() -> list[Claim]:
    """Return the few claims that say most."""
    few_shots = [
        claim
        for claim in CLAIMS
        if claim.where.startswith("Table 2")
        and (claim.method, claim.protocol.increment) == ("CBCL", 10)
    ]
    return [
        only("CBCL", "average", "cifar100", where="Table 5"),
        *few_shots,
        *(only("CBCL", "average", data) for data in ("caltech101", "cub200")),
        only("CBCL", "omega_all", "cifar100"),
        only("NCM", "average", "cifar100"),
        only("CBCL", "average", "cifar100", where="sections 4.6"),
    ]


def full_table(records: Records) -> Table:
    """Return all claims, grouped by their place in the paper and by data."""
    compared = comparisons(records)
    letters = _letters(compared)
    groups: dict[str, list[list[str]]] = {}
    for comparison in compared:
        claim = comparison.claim
        data, where = DATA[claim.protocol.data], claim.where[0].upper() + claim.where[1:]
        title = where if data in where else f"{where}, {data}"
        groups.setdefault(title, []).append(_row(comparison, letters))
    rows = [RowGroup(title, rows) for title, rows in groups.items()]
    notes = _notes(records, compared, letters)
    return Table("The paper's numbers and ours", COLUMNS, rows, notes, 3, ("why",))


def short_table(records: Records) -> Table:
    """Return the main claims alone, each with its data and place; the orders are in a note."""
    compared = comparisons(records, main_claims())
    letters = _letters(compared)
    rows = []
    for comparison in compared:
        claim, (what, *rest) = comparison.claim, _row(comparison, letters)
        del rest[ORDERS_COLUMN - 1]
        rows.append([f"{DATA[claim.protocol.data]}: {what} ({claim.where})", *rest])
    columns = [name for name in COLUMNS if name != "orders"]
    orders = aggregate.order_notes(records, _groups(compared))
    notes = (*orders, *_notes(records, compared, letters))
    caption = "The most telling of the paper's numbers and ours"
    return Table(caption, columns, [RowGroup(None, rows)], notes, 3, ("why",))


def _letters(compared: Iterable[Comparison]) -> dict[str, str]:
    """Return a letter for each candidate, in order of appearance; two letters past z."""
    candidates = dict.fromkeys(
        text for comparison in compared for text in comparison.why.candidates
    )
    return {
        candidate: chr(ord("a") + place % 26) * (1 + place // 26)
        for place, candidate in enumerate(candidates)
    }


def _notes(
    records: Records, compared: Iterable[Comparison], letters: Mapping[str, str]
) -> tuple[str, ...]:
    legend = [f"{letter}: {candidate}." for candidate, letter in letters.items()]
    missing = aggregate.missing_notes(records, _groups(compared))
    return (*([LEGEND] if legend else []), *legend, *missing)


def _groups(compared: Iterable[Comparison]) -> list[RunGroup]:
    return [group_of(comparison.claim, comparison.backbone) for comparison in compared]


def _row(comparison: Comparison, letters: Mapping[str, str]) -> list[str]:
    claim, ours = comparison.claim, comparison.ours
    digits = 3 if claim.measure.startswith("omega") else 2
    seen = f" {claim.classes_seen} classes" if claim.measure == "after" else ""
    reason, candidates = comparison.why
    why = reason or ", ".join(letters[one] for one in sorted(candidates, key=[*letters].index))
    if claim.rather and comparison.rather:
        why += f"; ours {MEASURES[claim.rather]}: {format_spread(comparison.rather, digits)}"
    return [
        claim.what.removesuffix(f",{seen}") if seen else claim.what,
        MEASURES[claim.measure] + seen,
        comparison.backbone,
        format_claim(claim),
        format_spread(ours, digits),
        str(ours.n) if ours.n else DASH,
        format_number(ours.mean - claim.value, digits, sign="+"),
        why,
    ]
