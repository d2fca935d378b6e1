"""The default head as ONNX nodes: from vectors to the answer of `DiscriminantModel.judge`.

b vectors, d features, t classes, k dimensions of Fisher's space, m columns of the whitening, v
views, s sketches. Each function names the one that it translates. Large arrays are stored in
float32, and computed with in float64 but for the largest, the classes' own factors: probabilities
agree to `TOLERANCE`, not bit for bit.
"""

from __future__ import annotations

from functools import reduce
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.answer_nodes import AnswerGraph, AnswerValues, Outputs, add_outputs
from cbcl.method.arrays import Float64s
from cbcl.method.discriminant.coding import encode
from cbcl.method.discriminant.directions import MIN_EMBEDDING
from cbcl.method.discriminant.model import (
    NEGATIVE_SLOPE,
    TAUGHT_CONFIDENCE,
    TAUGHT_ODDS,
    DiscriminantModel,
)
from cbcl.method.discriminant.open_set import Cosines, Signs
from cbcl.method.discriminant.scoring import Discriminant
from cbcl.method.discriminant.solving import Whitening
from cbcl.method.discriminant.statistics import (
    SKETCH_BITS,
    ClassStatistics,
    Sketches,
    random_signs,
    sketch,
)
from cbcl.method.model import MAX_GUESSES

TOLERANCE = 1e-4  # the largest difference of a probability from Python's
MAX_CODE = 127  # of eight bits


class _Offsets(NamedTuple):
    """Vectors, and where they lie from the centre of all classes."""

    directions: str  # (b, d), float32
    centred: str  # (b, d)
    whitened: str  # (b, m), times the factor of the whitening; empty: it has none


class _ClassScores(NamedTuple):
    """The names of `Scores`, all of shape (b, t)."""

    total: str
    distances: str
    gains: str
    ridge: str


def add_discriminant(graph: AnswerGraph, vector: str, knowledge: DiscriminantModel) -> Outputs:
    """Translate `judge` and the answer by it, and return the outputs."""
    t = len(knowledge.statistics)
    solved = knowledge.discriminant
    directions = add_directions(graph, vector, knowledge.dimension)
    centred = graph("Sub", graph.double(directions), solved.centre)
    offsets = _Offsets(directions, centred, _whiten(graph, centred, solved.whitening))
    scores = _scores(graph, offsets, solved)
    odds = _log_odds(graph, offsets, scores, knowledge)
    shares = graph("Softmax", graph("Div", scores.total, knowledge.temperature), axis=1)
    taught = _taught(graph, directions, knowledge)  # from 1 on; 0: none
    shares, odds = _raise_taught(graph, shares, odds, taught, t)
    known = graph.logistic(odds)
    unknown = graph("Sub", 1.0, known)
    likeliest, numbers = graph.largest(shares, min(MAX_GUESSES, t))
    confidences = graph("Mul", known, likeliest)
    best = graph.column(confidences)
    share = graph("Div", unknown, graph("Add", unknown, best))
    answer = AnswerValues(unknown, graph("Mul", 2.0, share), numbers, confidences)
    return add_outputs(graph, answer, knowledge.labels, knowledge.dimension)


def add_directions(graph: AnswerGraph, vector: str, d: int) -> str:
    """Translate `as_directions`: (b, d), float32."""
    if d < MIN_EMBEDDING:
        return vector
    sizes = graph("Abs", vector)
    lengths = graph("Sqrt", graph.total(graph.double(sizes)))
    divisors = graph.single(graph.or_one(lengths, lengths))
    return graph("Mul", graph("Sign", vector), graph("Div", graph("Sqrt", sizes), divisors))


def _whiten(graph: AnswerGraph, offsets: str, white: Whitening) -> str:
    """Return offsets times the factor of the whitening; empty where it has no columns."""
    if not white.factor.shape[1]:
        return ""
    factor = graph.constant(white.factor.astype(np.float32), f"{graph.prefix}whitening")
    return graph("MatMul", offsets, graph.double(factor))


def _squared_lengths(graph: AnswerGraph, offsets: str, whitened: str, white: Whitening) -> str:
    """Translate `squared_lengths`: (..., d) to (..., 1)."""
    squares = graph("Mul", offsets, offsets)
    lengths = graph("MatMul", squares, white.diagonal[:, np.newaxis])
    if not whitened:
        return lengths
    along = graph("ReduceSum", graph("Mul", whitened, whitened), np.array([-1]), keepdims=1)
    return graph("Add", lengths, graph("Mul", white.sign, along))


def _scores(graph: AnswerGraph, offsets: _Offsets, solved: Discriminant) -> _ClassScores:
    """Translate `Discriminant.scores`."""
    means = solved.means.astype(np.float32)
    lengths = (means.astype(np.float64) ** 2).sum(axis=1)
    places = graph("MatMul", offsets.centred, _stored(graph, solved.basis))  # (b, k)
    products = graph("MatMul", places, graph("Transpose", _stored(graph, means), perm=[1, 0]))
    own = graph.total(graph("Mul", places, places))
    squares = graph("Add", graph("Sub", own, graph("Mul", 2.0, products)), lengths)
    squares = graph("Max", squares, 0.0)
    whole = _squared_lengths(graph, offsets.centred, offsets.whitened, solved.whitening)
    outside = graph("Max", graph("Sub", whole, own), 0.0)
    ridge = graph("MatMul", places, _stored(graph, solved.regression))
    densities = _standardize(graph, _log_densities(graph, places, squares, solved), len(means))
    weight = solved.ridge_weight
    total = graph(
        "Add",
        graph("Mul", 1.0 - weight, densities),
        graph("Mul", weight, _standardize(graph, ridge, len(means))),
    )
    gains = graph("Sub", products, 0.5 * lengths)
    return _ClassScores(total, graph("Add", squares, outside), gains, ridge)


def _stored(graph: AnswerGraph, values: NDArray[np.floating[Any]]) -> str:
    """Return an array that is stored in float32, in float64."""
    return graph.double(values.astype(np.float32))


def _log_densities(graph: AnswerGraph, places: str, squares: str, solved: Discriminant) -> str:
    distances = graph("Add", graph("Div", squares, solved.spreads), solved.log_volumes)
    if len(solved.factors):
        distances = graph("Sub", distances, _taken_off(graph, places, solved))
    return graph("Mul", -0.5, distances)


def _taken_off(graph: AnswerGraph, places: str, solved: Discriminant) -> str:
    """Translate `taken_off`; the sum of a class is the difference of two running totals."""
    factors = solved.factors.astype(np.float32)
    products = graph("Gemm", graph.single(places), factors, transB=1)
    along = graph("Sub", graph.double(products), solved.factor_offsets)
    squares = graph("Pad", graph("Mul", along, along), np.array([0, 1, 0, 0]))
    totals = graph("CumSum", squares, np.array(1))
    ends = np.append(solved.starts[1:], len(factors))
    return graph(
        "Sub", graph("Gather", totals, ends, axis=1), graph("Gather", totals, solved.starts, axis=1)
    )


def _standardize(graph: AnswerGraph, scores: str, t: int) -> str:
    centred = graph("Sub", scores, graph("Div", graph.total(scores), float(t)))
    variance = graph("Div", graph.total(graph("Mul", centred, centred)), float(t))
    deviations = graph("Sqrt", variance)
    return graph("Div", centred, graph.or_one(deviations, deviations))


def _log_odds(
    graph: AnswerGraph, offsets: _Offsets, scores: _ClassScores, knowledge: DiscriminantModel
) -> str:
    """Translate the log odds that vectors are of a known class: (b, 1)."""
    open_set, negatives = knowledge.open_set, knowledge.negatives
    if knowledge.dimension < MIN_EMBEDDING:
        nearest, _ = graph.smallest(scores.distances, 1)
        odds = _log_odds_of(graph, graph("Neg", graph("Sqrt", nearest)), knowledge)
        if negatives is None:
            return odds
        return graph("Min", odds, _log_odds_against(graph, offsets, nearest, knowledge, negatives))
    seen = _units(graph, offsets.directions, open_set.cosines)
    found = graph("Gemm", seen, open_set.templates, transB=1)
    found = _add_signs(graph, graph.double(found), scores, open_set.signs)
    odds = _log_odds_of(graph, found, knowledge)
    if negatives is None or open_set.hypotheses is None:
        return odds
    strange = _units(graph, _views(graph, negatives), open_set.cosines)
    likest, _ = graph.largest(graph("Gemm", seen, strange, transB=1), 1)
    line = open_set.hypotheses.lines(np.array(open_set.hypotheses.one_view))
    against = _along(graph, graph.double(likest), line)
    # The logarithm of 1 + exp(x), which is x where x is large.
    raised = graph("Log", graph("Add", 1.0, graph("Exp", graph("Neg", graph("Abs", against)))))
    return graph("Sub", odds, graph("Add", graph("Max", against, 0.0), raised))


def _add_signs(graph: AnswerGraph, found: str, scores: _ClassScores, signs: Signs | None) -> str:
    """Translate `Signs.added`: (b, t)."""
    if signs is None:
        return found
    nearest, _ = graph.smallest(scores.distances, 1)
    (gain, _), (ridge, _) = graph.largest(scores.gains, 1), graph.largest(scores.ridge, 1)
    stacked = graph("Concat", graph("Neg", graph("Sqrt", nearest)), gain, ridge, axis=1)
    standard = graph("Div", graph("Sub", stacked, signs.means), signs.deviations)
    return graph("Add", found, graph("Mul", signs.weight, graph.total(standard)))


def _units(graph: AnswerGraph, directions: str, cosines: Cosines) -> str:
    """Translate `units`: (b, d), float32."""
    apart = graph("Sub", directions, cosines.offset)
    lengths = graph("Sqrt", graph.total(graph("Mul", apart, apart)))
    return graph("Div", apart, graph("Max", lengths, np.float32(1e-6)))


def _log_odds_of(graph: AnswerGraph, scores: str, knowledge: DiscriminantModel) -> str:
    """Translate `OpenSet.log_odds`: (b, t) to (b, 1)."""
    hypotheses = knowledge.open_set.hypotheses
    if hypotheses is None:
        shape = graph("Concat", graph("Shape", scores, end=1), np.array([1]), axis=0)
        return graph("Expand", inf, shape)
    odds, _ = graph.largest(_along(graph, scores, hypotheses.lines(hypotheses.deviations)), 1)
    return graph("Add", odds, knowledge.open_set.log_prior(knowledge.strangers))


def _along(graph: AnswerGraph, scores: str, line: tuple[Float64s, Float64s]) -> str:
    slopes, limits = line
    return graph("Mul", graph("Sub", scores, limits), slopes)


def _log_odds_against(
    graph: AnswerGraph,
    offsets: _Offsets,
    nearest: str,
    knowledge: DiscriminantModel,
    negatives: ClassStatistics,
) -> str:
    """Translate the log odds that measurements are not like a negative."""
    solved = knowledge.discriminant
    views = graph("Sub", graph.double(_views(graph, negatives)), solved.centre)
    white = _whiten(graph, views, solved.whitening)
    apart = _differences(graph, offsets.centred, views)  # (b, v, d)
    along = white and _differences(graph, offsets.whitened, white)
    lengths = _squared_lengths(graph, apart, along, solved.whitening)
    against, _ = graph.smallest(graph("Squeeze", lengths, np.array([2])), 1)
    ratio = graph("Div", graph("Max", against, 0.0), graph("Max", nearest, 1e-300))
    farther = graph("Sub", graph("Sqrt", graph("Div", ratio, 2.0)), 1.0)
    return graph("Mul", NEGATIVE_SLOPE, farther)


def _differences(graph: AnswerGraph, these: str, those: str) -> str:
    """Return (b, d) less (v, d): (b, v, d)."""
    return graph("Sub", graph("Unsqueeze", these, np.array([1])), those)


def _views(graph: AnswerGraph, known: ClassStatistics) -> str:
    """Return the views of a class that are kept: (v, d), float32."""
    return graph("Mul", graph.single(known.views.codes), known.views.scales[:, np.newaxis])


def _taught(graph: AnswerGraph, directions: str, knowledge: DiscriminantModel) -> str:
    """Translate the search for the class that a vector was taught as: (b, 1).

    From 1 on; 0: none, -1: as a negative. That of measurements, whose sketches are no sums, is
    among the views that are kept.
    """
    owners = knowledge.owners
    if knowledge.dimension < MIN_EMBEDDING:
        values = directions
        classes = [*knowledge.statistics.values(), knowledge.negatives]
        views = np.concatenate([known.directions for known in classes if known is not None])
        keys = np.unique(views, axis=0)
        numbers = [owners.get(own, -1) for own in sketch(encode(keys)).tolist()]
    else:
        values = _sketches(graph, directions, knowledge.dimension)
        keys = _halves(np.array([*owners], dtype=np.uint64))
        numbers = [*owners.values()]
    columns = enumerate(keys.T)
    matches = [graph("Equal", graph.column(values, place), some) for place, some in columns]
    same = reduce(lambda one, other: graph("And", one, other), matches)  # (b, keys)
    return graph.total(graph("Where", same, np.array(numbers) + 1, np.array(0)))


def _halves(sketches: Sketches) -> Float64s:
    """Return sketches as two numbers of 32 bits, which float64 holds: (s, 2)."""
    return sketches.astype("<u8").view("<u4").reshape(-1, 2).astype(np.float64)


def _sketches(graph: AnswerGraph, directions: str, d: int) -> str:
    """Translate `sketch` of `encode`, in two halves: (b, 2)."""
    largest, _ = graph.largest(graph("Abs", directions), 1)
    is_zero = graph("Equal", largest, np.float32(0.0))
    scales = graph("Where", is_zero, np.float32(1.0), graph("Div", largest, np.float32(MAX_CODE)))
    codes = graph.double(graph("Round", graph("Div", directions, scales)))
    signs, centre = random_signs(d)
    weights = graph("Sub", graph("Mul", graph.double(signs.astype(np.int8)), float(d)), centre)
    sums = graph("MatMul", codes, weights)
    bits = graph.double(graph("Greater", sums, 0.0))
    places = np.arange(SKETCH_BITS, dtype=np.uint64)
    return graph("MatMul", bits, _halves(np.uint64(1) << places))


def _raise_taught(
    graph: AnswerGraph, shares: str, odds: str, taught: str, t: int
) -> tuple[str, str]:
    """Translate the confidence in what was taught: the shares and the log odds, raised."""
    is_own = graph("Equal", taught, np.arange(1, t + 1))  # (b, t)
    own = graph.total(graph("Where", is_own, shares, 0.0))
    is_taught = graph("Greater", taught, np.array(0))
    is_low = graph("And", is_taught, graph("Less", own, TAUGHT_CONFIDENCE))
    others = graph("Div", 1.0 - TAUGHT_CONFIDENCE, graph("Sub", 1.0, own))
    raised = graph("Where", is_own, TAUGHT_CONFIDENCE, graph("Mul", shares, others))
    odds = graph("Where", is_taught, graph("Max", odds, TAUGHT_ODDS), odds)
    is_negative = graph("Less", taught, np.array(0))
    return (
        graph("Where", is_low, raised, shares),
        graph("Where", is_negative, graph("Min", odds, -TAUGHT_ODDS), odds),
    )
