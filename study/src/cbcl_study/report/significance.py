"""Differences between means over orders of the classes: standard errors and two-sided t-tests."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.special import stdtr

from cbcl_study.paper import ORDERS
from cbcl_study.report.aggregate import (
    Records,
    RunGroup,
    Score,
    average,
    format_number,
    score_by_order,
)
from cbcl_study.scores import Summary, summary

NO_SPREAD = 1e-9  # a standard error below it is rounding: the score is the same in every order


class Difference(NamedTuple):
    """A mean difference, its standard error, and p of a t-test with so many degrees of freedom."""

    mean: float
    error: float
    freedom: float
    p: float
    n: int  # orders of ours


def paired(records: Records, one: RunGroup, other: RunGroup, score: Score = average) -> Difference:
    """Return one group's score less the other's, order by order, over the orders of both."""
    ours, theirs = score_by_order(records, one, score), score_by_order(records, other, score)
    gaps = summary([ours[seed] - theirs[seed] for seed in sorted({*ours} & {*theirs})])
    return difference(gaps, 0.0)


def difference(ours: Summary, stated: float, std: float | None = None) -> Difference:
    """Return our mean less a stated one.

    Without a stated deviation the number is taken as exact (one-sample test); with one, it is the
    mean of as many values as the paper has orders (Welch's test).

    >>> difference(Summary(71.0, 1.0, 4), 70.0)
    Difference(mean=1.0, error=0.5, freedom=3.0, p=0.139..., n=4)
    >>> difference(Summary(71.0, 1.0, 10), 70.0, std=1.0)
    Difference(mean=1.0, error=0.447..., freedom=18.0, p=0.038..., n=10)
    """
    mean = ours.mean - stated
    if ours.n < 2:
        return Difference(mean, math.nan, math.nan, math.nan, ours.n)
    variance, freedom = ours.std**2 / ours.n, float(ours.n - 1)
    if std is not None:
        theirs = std**2 / ORDERS
        both = variance + theirs
        freedom = both**2 / (variance**2 / freedom + theirs**2 / (ORDERS - 1)) if both else freedom
        variance = both
    error = math.sqrt(variance)
    p = 2.0 * float(stdtr(freedom, -abs(mean) / error)) if error > NO_SPREAD else math.nan
    return Difference(mean, error, freedom, p, ours.n)


def format_difference(gap: Difference, digits: int = 2) -> str:
    """Return a difference with its standard error and p, as far as there are any, or a dash.

    >>> format_difference(Difference(1.0, 0.5, 3, 0.139, 4))
    '+1.00 ± 0.50 (.14)'
    >>> format_difference(Difference(3.0, math.nan, math.nan, math.nan, 1))
    '+3.00'
    """
    text = format_number(gap.mean, digits, sign="+")
    if not math.isnan(gap.error):
        text += f" ± {gap.error:.{digits}f}"
    return text if math.isnan(gap.p) else f"{text} ({format_p(gap.p)})"


def format_p(p: float) -> str:
    """Return a p in two or three digits.

    >>> format_p(0.042), format_p(0.0042), format_p(0.5), format_p(0.0)
    ('.042', '.004', '.50', '<.001')
    """
    if p < 0.001:
        return "<.001"
    return (f"{p:.3f}" if p < 0.0995 else f"{min(p, 0.99):.2f}").removeprefix("0")
