"""Tables of study/benchmarks/person.py: what is counted, and what is wanted of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

MAX_LOSS, MAX_GAP = 0.02, 0.05  # of shares right: to the baseline, and of the self-test

Tally: TypeAlias = Counter[str]  # right, refused, wrong; strangers, found; tested, passed


class Judged(NamedTuple):
    """One answer, as a user meets it."""

    stranger: bool
    named: bool
    right: bool
    confidence: float
    unlikely: bool  # "unknown" was more probable than the name that was given
    perhaps_unlikely: bool  # or may have been, as far as the answer tells


def summarize(judged: Sequence[Judged]) -> dict[str, float]:
    """Return shares of the known photos and of the strangers, and calibration errors."""
    known = [one for one in judged if not one.stranger]
    return {
        "asked": len(known),
        "right": float(np.mean([one.right for one in known])),
        "refused": float(np.mean([not one.named for one in known])),
        "wrong": float(np.mean([one.named and not one.right for one in known])),
        "strangers_found": float(np.mean([one.right for one in judged if one.stranger])),
        "calibration_error": calibration_error(known),
        "calibration_error_with_strangers": calibration_error(judged),
        "named": sum(one.named for one in judged),
        "named_though_unknown_is_likelier": sum(one.unlikely for one in judged),
        "perhaps_likelier": sum(one.perhaps_unlikely for one in judged),
        "right_of_these": sum(one.perhaps_unlikely and one.right for one in judged),
    }


def bins(judged: Sequence[Judged]) -> list[dict[str, float]]:
    """Return mean confidence and share right of the answers in each tenth of the confidence."""
    tenths: dict[int, list[Judged]] = {}
    for one in judged:
        tenths.setdefault(min(int(one.confidence * 10), 9), []).append(one)
    return [
        {
            "from": tenth / 10,
            "answers": len(some),
            "confidence": float(np.mean([one.confidence for one in some])),
            "right": float(np.mean([one.right for one in some])),
        }
        for tenth, some in sorted(tenths.items())
    ]


def calibration_error(judged: Sequence[Judged]) -> float:
    gaps = (one["answers"] * abs(one["confidence"] - one["right"]) for one in bins(judged))
    return sum(gaps) / len(judged)


def compare(tallies: Mapping[str, Sequence[Tally]]) -> list[dict[str, Any]]:
    """Print and return a row for each memory; the first is what the others are compared with."""
    rows: list[dict[str, Any]] = []
    for name, by_draw in tallies.items():
        tally = sum(by_draw, Counter[str]())
        asked = _asked(tally)
        right, found = tally["right"] / asked, tally["found"] / tally["strangers"]
        score = tally["passed"] / tally["tested"] if tally["tested"] else None
        against = right - rows[0]["right"] if rows else None
        rows.append(
            {
                "memory": name,
                "asked": asked,
                "right": right,
                "right_by_draw": [one["right"] / _asked(one) for one in by_draw],
                "refused": tally["refused"] / asked,
                "wrong": tally["wrong"] / asked,
                "strangers_found": found,
                "against_single_snaps": against,
                "as_good": None if against is None else against >= -MAX_LOSS,
                "self_test": score,
                "self_test_is_true": score is not None and abs(score - right) <= MAX_GAP,
            }
        )
        print(_line(rows[-1]))
    return rows


def _asked(tally: Tally) -> int:
    return tally["right"] + tally["refused"] + tally["wrong"]


def _line(row: Mapping[str, Any]) -> str:
    shares = " ".join(f"{100 * row[name]:7.1f}" for name in ("right", "refused", "wrong"))
    against, score = row["against_single_snaps"], row["self_test"]
    change = " " * 12 if against is None else f"{100 * against:+7.1f} {_yes(row['as_good']):>4}"
    test = "none" if score is None else f"{100 * score:.1f}"
    return (
        f"{row['memory']:<42} {row['asked']:>5} {shares}  {change}  "
        f"{100 * row['strangers_found']:6.1f}  {test:>6} {_yes(row['self_test_is_true']):>4}"
    )


def _yes(met: bool) -> str:
    return "yes" if met else "NO"


def show_memories(parts: Sequence[Mapping[str, Sequence[Tally]]]) -> list[dict[str, Any]]:
    print(
        f"\n{'memory':<42} {'asked':>5} {'right':>7} {'refused':>7} {'wrong':>7}  "
        f"{'change':>7} {'ok':>4}  {'strngr':>6}  {'test':>6} {'true':>4}"
    )
    rows = []
    for tallies in parts:
        rows += compare(tallies)
    return rows


def show_corrections(tallies: Mapping[int, Tally]) -> list[dict[str, Any]]:
    print()
    for shots, tally in tallies.items():
        corrected, moved = tally["corrected"], tally["mislabelled"]
        left = tally["mislabelled, still there"]
        met = (
            tally["right at the end"] == corrected
            and tally["mislabelled, right"] == moved
            and not left
        )
        print(
            f"corrections, {shots:>2} photos a thing: right at once {tally['right at once']} of "
            f"{corrected}, at the end {tally['right at the end']} of {corrected}; taught under a "
            f"wrong name, then their own: {tally['mislabelled, right']} of {moved}, left "
            f"under the wrong name: {left}  {_yes(met)}"
        )
    return [{"corrections_with": shots, **tally} for shots, tally in tallies.items()]


def show_met(draws: Sequence[Sequence[Judged]]) -> dict[str, Any]:
    """Print and return means over draws, the worst draw, and the bins of all."""
    pooled = [one for judged in draws for one in judged]
    by_draw = [summarize(judged) for judged in draws]
    total = summarize(pooled)
    found = [one["strangers_found"] for one in by_draw]
    names = bins([one for one in pooled if one.named])
    print(
        f"\nas a user meets it: right {total['right']:.1%}, refused {total['refused']:.1%}, "
        f"wrong {total['wrong']:.1%} of {total['asked']}; strangers found "
        f"{total['strangers_found']:.1%}, {min(found):.1%} in the worst draw "
        "(wanted 94, at most 5, -, 85, 75)\n"
        f"calibration error {total['calibration_error']:.1%}, with strangers "
        f"{total['calibration_error_with_strangers']:.1%}; of {total['named']} names "
        f"{total['named_though_unknown_is_likelier']} to {total['perhaps_likelier']} were less "
        f"probable than unknown, at most {total['right_of_these']} of these right\n"
        "names given, with strangers: confidence  promised  right      n"
    )
    for one in names:
        print(
            f"{one['from']:>36.1f} - {one['from'] + 0.1:.1f}  {one['confidence']:8.1%}  "
            f"{one['right']:6.1%} {one['answers']:>6}"
        )
    return {
        "as_met": total,
        "worst_strangers_found": min(found),
        "draws": by_draw,
        "names_by_confidence": names,
    }
