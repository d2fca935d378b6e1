"""The headline: for each claim of the paper that is run here, the paper's number, ours, the difference, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cbcl.study.report import aggregate
from cbcl.study.report.aggregate import (
    DASH,
    DATA,
    MEASURES,
    Cell,
    Group,
    Records,
    Table,
    of_claim,
    stated,
)
from cbcl.study.report.explanations import measured, why
from cbcl.study.report.paper import CLAIMS, Claim, only
from cbcl.study.report.scores import Summary, summary

COLUMNS = ("what", "measure", "our backbone", "paper", "ours", "orders", "difference", "why")
ORDERS = COLUMNS.index("orders")
LEGEND = "Why: candidates, of which none was measured by itself."


class Comparison(NamedTuple):
    """A claim of the paper and what was found with one backbone."""

    claim: Claim
    backbone: str
    ours: Summary
    rather: Summary | None  # of what the claim may be instead
    reason: str  # where there are no candidates
    candidates: tuple[str, ...]


def comparisons(records: Records, claims: Iterable[Claim] = CLAIMS) -> list[Comparison]:
    """Each claim that is run here, with each of the backbones that stand in for the paper's."""
    return [
        _compared(records, claim, backbone)
        for claim in claims
        if claim.protocol.learner is not None
        for backbone in claim.protocol.ours
    ]


def _compared(records: Records, claim: Claim, backbone: str) -> Comparison:
    runs = aggregate.behind(records, of_claim(claim, backbone))
    ours = summary([measured(claim, run) for run in runs])
    rather = (
        summary([measured(claim, run, claim.rather) for run in runs])
        if claim.rather and runs
        else None
    )
    reason, _, candidates = why(claim, backbone, ours.mean - claim.value, ours.std).partition(": ")
    return Comparison(
        claim, backbone, ours, rather, reason, tuple(candidates.split("; ")) if candidates else ()
    )


def telling() -> list[Claim]:
    """The few claims that say most."""
    few = [
        c
        for c in CLAIMS
        if c.where.startswith("Table 2") and (c.method, c.protocol.increment) == ("CBCL", 10)
    ]
    return [
        only("CBCL", "average", "cifar100", where="Table 5"),
        *few,
        *(only("CBCL", "average", data) for data in ("caltech101", "cub200")),
        only("CBCL", "omega_all", "cifar100"),
        only("NCM", "average", "cifar100"),
        only("CBCL", "average", "cifar100", where="sections 4.6"),
    ]


def headline(records: Records) -> Table:
    """All claims, grouped by where in the paper they are and by data."""
    found = comparisons(records)
    letters = _letters(found)
    groups: dict[str, list[list[str]]] = {}
    for one in found:
        data, where = (
            DATA[one.claim.protocol.data],
            one.claim.where[0].upper() + one.claim.where[1:],
        )
        groups.setdefault(where if data in where else f"{where}, {data}", []).append(
            _row(one, letters)
        )
    notes = _notes(records, found, letters)
    tables = [Group(title, rows) for title, rows in groups.items()]
    return Table("The paper's numbers and ours", COLUMNS, tables, notes, 3, ("why",))


def short(records: Records) -> Table:
    """The most telling claims alone, each with its data and where it is, and the number of orders below."""
    found = comparisons(records, telling())
    letters = _letters(found)
    rows = []
    for one in found:
        what, *rest = _row(one, letters)
        data = DATA[one.claim.protocol.data]
        rows.append([f"{data}: {what} ({one.claim.where})", *rest[: ORDERS - 1], *rest[ORDERS:]])
    columns = (*COLUMNS[:ORDERS], *COLUMNS[ORDERS + 1 :])
    notes = (*aggregate.orders(records, _wanted(found)), *_notes(records, found, letters))
    return Table(
        "The most telling of the paper's numbers and ours",
        columns,
        [Group(None, rows)],
        notes,
        3,
        ("why",),
    )


def _letters(found: Iterable[Comparison]) -> dict[str, str]:
    """A letter for each candidate, in the order in which they come; two letters past z."""
    candidates = dict.fromkeys(candidate for one in found for candidate in one.candidates)
    return {
        candidate: chr(ord("a") + place % 26) * (1 + place // 26)
        for place, candidate in enumerate(candidates)
    }


def _notes(
    records: Records, found: Iterable[Comparison], letters: Mapping[str, str]
) -> tuple[str, ...]:
    legend = [f"{letter}: {candidate}." for candidate, letter in letters.items()]
    return (*([LEGEND] if legend else []), *legend, *aggregate.not_run(records, _wanted(found)))


def _wanted(found: Iterable[Comparison]) -> list[Cell]:
    return [of_claim(one.claim, one.backbone) for one in found]


def _row(one: Comparison, letters: Mapping[str, str]) -> list[str]:
    claim = one.claim
    digits = 3 if claim.measure.startswith("omega") else 2
    seen = f" {claim.classes_seen} classes" if claim.measure == "after" else ""
    letter = ", ".join(
        letter for candidate, letter in letters.items() if candidate in one.candidates
    )
    rather = (
        f"; ours {MEASURES[claim.rather]}: {aggregate.spread(one.rather, digits)}"
        if claim.rather and one.rather
        else ""
    )
    return [
        claim.what.removesuffix(f",{seen}") if seen else claim.what,
        MEASURES[claim.measure] + seen,
        one.backbone,
        stated(claim),
        aggregate.spread(one.ours, digits),
        str(one.ours.n) if one.ours.n else DASH,
        aggregate.signed(one.ours.mean - claim.value, digits),
        (letter or one.reason) + rather,
    ]
