"""The conclusions that docs/results.md and docs/study.md draw by hand are what the records say."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from cbcl_study import scores
from cbcl_study.experiments import CALTECH, CIFAR, CUB, MAIN, NETWORKS, PAIRS, PIXELS, SHOTS
from cbcl_study.learners import LOGISTIC
from cbcl_study.paper import BUDGETS, OWN_RESNET34, only
from cbcl_study.records import RunRecord, read
from cbcl_study.report import aggregate, budgets, choices, comparison, confusion, fearnet, votes
from cbcl_study.report.aggregate import DASH, MINUS, IndexedRuns, RunGroup, average
from cbcl_study.report.comparison import Comparison
from cbcl_study.report.default import DEFAULT, VOTE, group_for, pick_penalties
from cbcl_study.report.significance import Difference, paired

ROOT = Path(__file__).parents[2]
LITE = PAIRS[CUB]
RESULTS, STUDY = ((ROOT / "docs" / name).read_text() for name in ("results.md", "study.md"))
BY_HAND = [
    RESULTS.split("## Accuracy")[1].split("<!-- study -->")[0],
    RESULTS.split("<!-- /study -->")[1].split("\n\nIts vectors: ")[0],
    STUDY.split("## What came out")[1].split("<!-- study -->")[0],
]
CONCLUSIONS = [
    re.sub(r"\[(.*?)\]\(.*?\)|\*\*", r"\1", " ".join(text.split()))
    for part in BY_HAND
    for text in re.split(r"^- ", part, flags=re.MULTILINE)[1:]
]
NAMES = (
    r"CIFAR-100|Caltech-101|CUB-200-2011|VGG-16|ResNet-\d+|Lite0|RanPAC with [\d,]+ features|"
    r"Table \w+|section [\d.]+|p < 0.05"
)
FIGURE = r"\d+(?:[.,]\d+)*(?: ± \d+\.\d+)?"


@cache
def runs() -> IndexedRuns:
    return pick_penalties(aggregate.deduplicate(read(ROOT / "study" / "results")))


def lead(one: RunGroup, other: RunGroup, digits: int = 2, score: aggregate.Score = average) -> str:
    """Return by how much one group is above another; where it is below, no text has its minus."""
    gap = paired(runs(), one, other, score)
    return f"{gap.mean:.{digits}f} ± {gap.error:.{digits}f}"


def is_clear(gap: Difference) -> bool:
    return gap.p < 0.05


@cache
def compared() -> list[Comparison]:
    """Return our numbers that can be tested against the paper's."""
    found = comparison.comparisons(runs())
    return [one for one in found if one.claim.measure != "megabytes" and one.gap.p >= 0.0]


def below() -> list[Comparison]:
    return [one for one in compared() if is_clear(one.gap) and one.gap.mean < 0]


def stated(method: str, data: str = CIFAR) -> float:
    """Return the paper's average, with all pictures."""
    return only(method, "average", data, shots=None, where="Table 5" if data == CIFAR else "").value


def megabytes(learner: str, digits: int = 0) -> str:
    size = aggregate.mean_of(runs(), group_for(learner, CIFAR, None), aggregate.megabytes)
    return f"{size.mean:.{digits}f}"


def the_vote() -> list[str]:
    figures = []
    for data in (CIFAR, CALTECH, CUB):
        ours = aggregate.mean_of(runs(), group_for(VOTE, data, None), average)
        figures += [f"{ours.mean:.1f}", f"{stated('CBCL', data):g}"]
    return figures


def differences() -> list[int]:
    """Return how many differences are clear, and can be tested; and ours above and below."""
    clear = sum(is_clear(one.gap) for one in compared())
    return [clear, len(compared()), clear - len(below()), len(below())]


def losses() -> int:
    return sum(one.claim.measure == "drop" for one in below())


def clustering() -> list[str]:
    vote = group_for(VOTE, CIFAR, None)
    ncm, k_means = (vote._replace(learner=name) for name in ("ncm", "k-means"))
    theirs = [f"{stated('CBCL') - stated(method):.2f}" for method in ("NCM", "K-means")]
    return [lead(vote, ncm), theirs[0], lead(k_means, vote), theirs[1]]


def the_default() -> list[str]:
    cells = [(data, shots) for data in PAIRS for shots in SHOTS]
    vote, batch = (
        [paired(runs(), group_for(DEFAULT, *cell), group_for(other, *cell)) for cell in cells]
        for other in (VOTE, LOGISTIC)
    )
    gains = [gap.mean for gap in vote]
    better = [gap.mean for gap in batch if is_clear(gap) and gap.mean > 0]
    worse = [-gap.mean for gap in batch if is_clear(gap) and gap.mean < 0]
    level = len(batch) - len(better) - len(worse)
    return [
        *(f"{min(gains):.1f}", f"{max(gains):.1f}"),
        *(f"{len(better)}", f"{len(cells)}", f"{max(better):.1f}"),
        *(f"{level}", f"{len(worse)}", f"{max(worse):.1f}"),
    ]


def rivals() -> list[str]:
    groups = [RunGroup(CIFAR, PIXELS, learner) for learner in NETWORKS]
    means = {group: aggregate.mean_of(runs(), group, average) for group in groups}
    trained = {group: mean.mean for group, mean in means.items() if mean.n}
    best = max(trained, key=trained.__getitem__)
    assert best.learner == "bic"
    leads = [lead(group_for(ours, CIFAR, None), best, 1) for ours in (VOTE, DEFAULT)]
    return [f"{len(trained)}", f"{trained[best]:.1f}", *leads]


def memory() -> list[str]:
    sizes = [megabytes(learner, 1) for learner in (VOTE, DEFAULT, "slda", LOGISTIC)]
    return [f"{only('CBCL', 'megabytes', CIFAR).value}", f"{BUDGETS[CIFAR]:,}", *sizes]


def ahead_of(ours: str, data: str) -> set[str]:
    """Return who is clearly ahead with all pictures, but for the default and other votes."""
    found = set()
    for learner in {run["run"]["learner"] for run in aggregate.select(runs(), data=data)}:
        gap = paired(runs(), group_for(learner, data, None), group_for(ours, data, None))
        if gap.mean > 0 and is_clear(gap) and not learner.startswith((DEFAULT, "voters-")):
            found.add(learner)
    return found


def behind(ours: str, *others: str) -> list[str]:
    """Return the megabytes of ours, and the points and megabytes of all that is ahead of it."""
    assert ahead_of(ours, CIFAR) == {*others}
    group = group_for(ours, CIFAR, None)
    gaps = [
        text
        for other in others
        for text in (lead(group_for(other, CIFAR, None), group, 1), megabytes(other))
    ]
    return [megabytes(ours), *gaps]


def the_default_is_behind() -> list[str]:
    assert ahead_of(DEFAULT, CALTECH) == ahead_of(DEFAULT, CUB) == set()
    return behind(DEFAULT, LOGISTIC, "probe", "ranpac-10000")


def the_vote_is_behind() -> list[str]:
    many = ["ranpac", "slda", "slda-roots", LOGISTIC, "probe"]
    assert ahead_of(VOTE, CALTECH) == ahead_of(VOTE, CUB) == {*many}
    return behind(VOTE, "trad-agg", "k-means", "knn", *many, "ranpac-10000")


BELOW = [  # by method, place in the paper, and backbone
    *(("CBCL", place, OWN_RESNET34) for place in ("Table 2", "section 4.3", "Table 5")),
    *(("CBCL", place, MAIN) for place in ("Table 2", "Table 4")),
    *(("CBCL", "Table S2", "visual-words"), ("VGG-16", "Table 5", "vgg16")),
    *(("ResNet-34", "section 4.3", PIXELS), ("FLB", "Table 2", OWN_RESNET34)),
    *(("FLB", "Table 2", MAIN), ("FLB", "section 4.4", LITE), ("FLB", "section 4.5", LITE)),
]


def below_the_paper() -> list[str]:
    gaps: dict[tuple[str, str, str], list[float]] = {}
    for one in below():
        if one.claim.measure != "drop":
            place = one.claim.where.partition(",")[0]
            gaps.setdefault((one.claim.method, place, one.backbone), []).append(-one.gap.mean)
    assert gaps.keys() == {*BELOW}
    figures = [f"{sum(map(len, gaps.values()))}"]
    for what in BELOW:
        ends = [f"{min(gaps[what]):.1f}", f"{max(gaps[what]):.1f}", f"{len(gaps[what])}"]
        figures += ends if len(gaps[what]) > 1 else ends[:1]
    return figures


def few_shots() -> list[str]:
    leads = []
    for data in (CIFAR, CALTECH, CUB):
        for shots in (5, 10):
            vote = RunGroup(data, MAIN, VOTE, shots=shots, max_centroids=BUDGETS[data])
            flb, probe = (vote._replace(learner=name) for name in ("flb", "probe"))
            leads += [lead(vote, flb), lead(probe, vote)]
            orders = paired(runs(), vote, flb).n, paired(runs(), vote, probe).n
            assert orders == (10, 10 if data == CIFAR else 3)
    return [*leads, "10", "3"]


def one_voter() -> list[str]:
    limited = [
        run["tunings"]
        for run in aggregate.select(runs(), learner=VOTE)
        if run["run"]["max_centroids"] and run["tunings"]
    ]
    alone = sum(all(n == 1 for _, n in tunings) for tunings in limited)
    return [f"{alone}", f"{len(limited)}", *alike("single-centroid"), *alike("cbcl-rank")]


def alike(learner: str) -> list[str]:
    """Return in how many orders a learner's answers are CBCL's, and of how many."""
    group = group_for(VOTE, CIFAR, None)
    ours, theirs = (
        {
            run["run"]["seed"]: (run["right"], run["confusion"])
            for run in aggregate.runs_of(runs(), one)
        }
        for one in (group, group._replace(learner=learner))
    )
    both = {*ours} & {*theirs}
    return [f"{sum(ours[seed] == theirs[seed] for seed in both)}", f"{len(both)}"]


def several_voters() -> list[str]:
    gains = {}
    for data, backbone in PAIRS.items():
        one = RunGroup(data, backbone, votes.ONE)
        several = [one._replace(learner=f"voters-{n}") for n in range(2, 11)]
        gaps = {group: paired(runs(), group, one) for group in several}
        gains[data] = {group: gap.mean for group, gap in gaps.items() if gap.n}
    assert all(gain < 0 for data in (CALTECH, CUB) for gain in gains[data].values())
    best = max(gains[CIFAR], key=gains[CIFAR].__getitem__)
    one = best._replace(learner=votes.ONE)
    leads = [lead(best, one), lead(one._replace(learner=VOTE), one)]
    gain = f"{stated('CBCL') - stated('Single-Centroid-Pred'):.2f}"
    assert f"gains {gain} points over one centroid" in STUDY
    return [best.learner.removeprefix("voters-"), *leads, gain]


def limits() -> list[str]:
    ours, removing = (budgets.group_at(name, 3000) for name in budgets.NAMES)
    theirs = [budgets.stated()[name, 3000].value for name in budgets.NAMES.values()]
    return ["3000", lead(ours, removing), f"{theirs[0] - theirs[1]:.1f}"]


def confused() -> list[str]:
    matrix = confusion.sum_by_position(aggregate.runs_of(runs(), confusion.RUNS))
    half = len(matrix) // 2
    first, last = slice(None, half), slice(half, None)
    shares = [
        matrix[:, last].sum() / matrix.sum(),
        matrix[last].sum() / matrix.sum(),
        matrix[:, first].sum() / matrix.sum(),
        *(matrix.diagonal()[part].sum() / matrix[part].sum() for part in (first, last)),
    ]
    new, due, old, *right = (f"{100 * share:.1f}" for share in shares)
    return [new, f"{half}", due, old, f"{half}", *right]


def fearnet_measures() -> list[str]:
    def omega(run: RunRecord, measure: str) -> float:
        return float(getattr(scores.omega(run), measure))

    ours, theirs = (fearnet.group_for(name) for name in (VOTE, "fearnet"))
    base, new, every = (partial(omega, measure=name) for name in ("base", "new", "all"))
    return [
        aggregate.format_spread(fearnet.offline_accuracy(runs())),
        f"{paired(runs(), ours, theirs).n}",
        lead(ours, theirs, 3, base),
        lead(theirs, ours, 3, new),
        lead(ours, theirs, 3, every),
    ]


def tuner() -> list[str]:
    rows = [row for group in choices.tuner(runs()).groups for row in group.rows]
    gaps = [row[-2] for row in rows if row[-2] != DASH]
    near = sum("(!)" not in gap for gap in gaps)
    worst = min(float(gap.split()[0].replace(MINUS, "-")) for gap in gaps)
    return [f"{near}", f"{len(gaps)}", f"{choices.TOLERANCE:g}", f"{-worst:.2f}"]


CLAIMS: dict[str, Callable[[], list[str]]] = {  # by the first words of a conclusion
    "The paper's learner": the_vote,
    "Tested against ours": lambda: [*map(str, [*differences(), losses()])],
    "On CIFAR-100 the vote": clustering,
    "CBCL's default": the_default,
    "Of the paper's rivals": rivals,
    "For CIFAR-100 the paper states": memory,
    "CIFAR-100, all pictures: the default": the_default_is_behind,
    "CIFAR-100, all pictures: the vote": the_vote_is_behind,
    "Below the paper's": below_the_paper,
    "The paper's numbers": lambda: [*map(str, differences())],
    "Few shots": few_shots,
    "One voter": one_voter,
    "Several voters": several_voters,
    "Limits": limits,
    "Confusion": confused,
    "FearNet": fearnet_measures,
    "The tuner": tuner,
}


@pytest.mark.parametrize("words", CLAIMS)
def test_a_conclusion_has_the_figures_of_the_records(words: str) -> None:
    (told,) = (text for text in CONCLUSIONS if text.startswith(words))
    assert re.findall(FIGURE, re.sub(NAMES, "", told)) == CLAIMS[words](), told


def test_every_conclusion_is_compared() -> None:
    assert len(CONCLUSIONS) == len(CLAIMS)
