"""The vote as a head: the paper's centroids of each class, of which the nearest vote."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import chain
from math import inf
from struct import pack, unpack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cbcl.heads.base import (
    FIRST,
    MAX_COUNT,
    Blobs,
    Changes,
    ClassRecord,
    ClassSummary,
    Context,
    ExamplePlaces,
    Exchanged,
    Head,
    HeadModel,
    Picture,
    PictureBatch,
    Records,
    Settings,
    Sight,
    StoredExample,
)
from cbcl.heads.centroids.changes import (
    PER_CENTROID,
    CentroidClass,
    CentroidRecord,
    as_record,
    find_changed,
    join_classes,
    learn_examples,
    unlearn,
)
from cbcl.heads.centroids.self_test import examine
from cbcl.heads.self_test import SelfTestResult
from cbcl.method.arrays import Float32s, read_only
from cbcl.method.centroids.concepts import Concepts, check_concepts
from cbcl.method.centroids.confidence import (
    NO_SPREAD,
    Scale,
    Spread,
    spread_of,
    vote_on_all,
)
from cbcl.method.centroids.model import CentroidModel, Options, learn
from cbcl.method.centroids.tuning import MIN_VECTORS_FOR_RADIUS, tune
from cbcl.method.discriminant.directions import as_directions
from cbcl.method.model import Verdict

if TYPE_CHECKING:
    from cbcl.heads.answer_nodes import AnswerGraph, Outputs
    from cbcl.method.classifiers import CBCLClassifier

FLOAT32 = np.dtype("<f4")
INT64 = np.dtype("<i8")
SPREAD = "<qdd"  # n, total, squares


class CentroidHead(Head[CentroidClass]):
    """Centroids of each class, learned by Agg-Var clustering; the nearest ones vote."""

    name = "vote"
    kind = CentroidClass
    abilities = frozenset({"tune", "limit", "centroids", "upgrade"})
    parameters = frozenset({"radius", "n_voters", "max_centroids"})
    exchange_format = 1
    learns_together = True  # the radius is chosen from all

    def summarize(self, known: CentroidClass) -> ClassSummary:
        n_centroids = len(known.concepts.counts)
        return ClassSummary(
            int(known.concepts.centroids.shape[1]),
            known.concepts.size,
            ExamplePlaces(n_centroids, need_vectors=True),
            FIRST + PER_CENTROID * n_centroids,
        )

    def pack(self, known: CentroidClass) -> Blobs:
        _check(known)
        return Blobs(
            known.concepts.centroids.astype(FLOAT32, copy=False).tobytes(),
            known.concepts.counts.astype(INT64, copy=False).tobytes(),
            pack(SPREAD, known.spread.n, known.spread.total, known.spread.squares),
        )

    def unpack(self, blobs: Blobs, dimension: int) -> CentroidClass:
        m = len(blobs.counts) // INT64.itemsize
        sizes = (m * dimension * FLOAT32.itemsize, m * INT64.itemsize, 24)
        lengths = tuple(map(len, blobs[:3]))
        if m < 1 or lengths != sizes or blobs[3:] != (None, None):
            raise ValueError("its parts do not belong together")
        matrix = np.frombuffer(blobs.centroids, FLOAT32).astype(np.float32, copy=False)
        concepts = Concepts(
            read_only(matrix.reshape(m, dimension)),
            read_only(np.frombuffer(blobs.counts, INT64).astype(np.int64, copy=False)),
        )
        known = CentroidClass(concepts, Spread(*unpack(SPREAD, blobs.spread)))
        _check(known)
        return known

    def to_tensors(
        self,
        classes: Sequence[CentroidClass],
        dimension: int,  # noqa: ARG002  # there is at least one class
    ) -> Exchanged:
        concepts = [known.concepts for known in classes]
        sizes = [len(one.counts) for one in concepts]
        tensors: dict[str, NDArray[Any]] = {
            "centroids": np.concatenate([one.centroids for one in concepts]),
            "counts": np.concatenate([one.counts for one in concepts]),
            "classes": np.repeat(np.arange(len(concepts)), sizes),
        }
        return {"spreads": [asdict(known.spread) for known in classes]}, tensors

    def from_tensors(
        self, described: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]], dimension: int
    ) -> list[CentroidClass]:
        centroids = tensors["centroids"]
        if centroids.ndim != 2 or centroids.shape[1] != dimension:
            raise ValueError(f"centroids of shape {centroids.shape} have not {dimension} features")
        spreads = described["spreads"]
        owners = tensors["classes"]
        if {*owners.tolist()} != {*range(len(spreads))}:
            raise ValueError("the labels and the centroids do not belong together")
        classes = []
        for number, given in enumerate(spreads):
            rows = owners == number
            concepts = check_concepts(Concepts(centroids[rows], tensors["counts"][rows]))
            spread = Spread(given["n"], float(given["total"]), float(given["squares"]))
            _check_spread(spread)
            classes.append(CentroidClass(concepts, spread))
        return classes

    def check_options(self, options: Mapping[str, Any]) -> None:
        _options(options)

    def tune(self, classes: Sequence[Float32s], settings: Settings) -> Settings:
        tuning = tune(classes)
        return settings._replace(radius=tuning.radius, n_voters=tuning.n_voters, head=self.name)

    def needs_all(self, context: Context, n_pictures: int = 0, n_labels: int = 1) -> bool:
        """Tell whether other classes matter: the room they leave, or whether a radius is chosen."""
        many = n_pictures >= MIN_VECTORS_FOR_RADIUS * n_labels
        settings = context.settings
        return settings.max_centroids is not None or (settings.radius == inf and many)

    def learn(
        self, lesson: PictureBatch, records: Records[CentroidClass], context: Context
    ) -> Changes[CentroidClass]:
        """Cluster the pictures of each label; merge centroids where a budget is reached."""
        settings = context.settings
        options = _options({**lesson.options, "max_centroids": settings.max_centroids})
        matrix = lesson.sight.matrix
        concepts = {label: record.known.concepts for label, record in records.items()}
        known = None
        if not context.is_fresh:
            known = CentroidModel(concepts, settings.radius, settings.n_voters)
        after = learn(known, matrix, lesson.targets, options)
        changed: dict[str, CentroidRecord | None] = {}
        for label, learned in after.concepts.items():
            before = records.get(label)
            if before is not None and learned is before.known.concepts:
                continue
            rows = np.flatnonzero(lesson.targets == label)
            old_spread = NO_SPREAD if before is None else before.known.spread
            spread = spread_of(matrix[rows], after.radius, concepts.get(label), old_spread)
            candidates: list[Picture] = [] if before is None else [*before.examples]
            if not context.private:
                given = [lesson.pictures[row] for row in rows.tolist()]
                candidates += [picture for picture in given if picture.has_thumbnail]
            changed[label] = as_record(CentroidClass(learned, spread), candidates)
        chosen = settings._replace(
            radius=after.radius, n_voters=after.n_voters, max_centroids=options.max_centroids
        )
        return Changes(changed, chosen)

    def move(
        self,
        examples: Mapping[str, Sequence[StoredExample]],
        target: str | None,
        records: Records[CentroidClass],
        context: Context,
        see: Callable[[list[bytes]], Float32s],  # noqa: ARG002  # all vectors are kept
    ) -> Changes[CentroidClass]:
        settings = context.settings
        before = {label: record.known for label, record in records.items()}
        touched = [*examples] if target is None else [*examples, target]
        kept = {label: records[label].examples for label in touched if label in records}
        after = dict(before)
        for label, own in examples.items():
            for example in own:
                unlearn(example, label, after, kept, settings)
        if target is not None:
            every = [example for own in examples.values() for example in own]
            every.sort(key=lambda example: example.number)
            after[target] = learn_examples(every, after.get(target), settings)
            kept[target] = [*kept.get(target, []), *every]
        changed: dict[str, CentroidRecord | None] = dict.fromkeys(
            label for label in before if label not in after
        )
        new = [] if target is None else [target]
        for label, known in find_changed(before, after, new, settings).items():
            changed[label] = as_record(known, kept.get(label) or records[label].examples)
        return Changes(changed, settings)

    def merge(
        self, these: CentroidRecord, those: CentroidRecord, context: Context
    ) -> CentroidRecord:
        known = join_classes(these.known, those.known, context.settings.radius)
        return as_record(known, [*these.examples, *those.examples])

    def adopt(
        self, ours: Records[CentroidClass], theirs: Records[CentroidClass], context: Context
    ) -> dict[str, CentroidRecord]:
        settings = context.settings
        known = {label: record.known for label, record in ours.items()}
        combined = dict(known)
        for label, record in theirs.items():
            combined[label] = record.known
            if label in known:
                combined[label] = join_classes(known[label], record.known, settings.radius)
        changed = {}
        for label, stored in find_changed(known, combined, [*theirs], settings).items():
            examples = [own[label].examples for own in (ours, theirs) if label in own]
            changed[label] = as_record(stored, [*chain.from_iterable(examples)])
        return changed

    def model(
        self,
        classes: Mapping[str, CentroidClass],
        negatives: CentroidClass | None,  # noqa: ARG002  # it knows none
        context: Context,
    ) -> CentroidHeadModel:
        return CentroidHeadModel(classes, context.settings, context.initial_limit)


class CentroidHeadModel(HeadModel):
    """The centroids of all classes of a memory, and the scale of distances to them."""

    def __init__(
        self, classes: Mapping[str, CentroidClass], settings: Settings, initial_limit: float
    ) -> None:
        concepts = {label: known.concepts for label, known in classes.items()}
        self.settings = settings
        self.initial_limit = initial_limit
        self.voters = CentroidModel(concepts, settings.radius, settings.n_voters)
        self.labels = self.voters.labels
        self._spreads = [known.spread for known in classes.values()]

    @cached_property
    def scale(self) -> Scale:
        return Scale.of(self._spreads, self.voters.index, self.initial_limit)

    @property
    def usual_distance(self) -> float:  # type: ignore[override] # computed when it is asked for
        return self.scale.usual

    @property
    def concepts(self) -> dict[str, Concepts]:
        return self.voters.concepts

    def answer(self, sight: Sight) -> list[Verdict]:
        return vote_on_all(sight.matrix, self.voters, self.scale)

    def self_test(self, examples: Mapping[str, ClassRecord[Any]]) -> SelfTestResult:
        kept = {label: record.examples for label, record in examples.items()}
        return examine(kept, self.settings, self.initial_limit)

    def estimator(self) -> CBCLClassifier:
        from cbcl.method.classifiers import CBCLClassifier  # which loads scikit-learn

        return CBCLClassifier.from_concepts(
            self.voters.concepts,
            radius=self.voters.radius,
            n_voters=self.voters.n_voters,
            max_centroids=self.settings.max_centroids,
        )

    def vector_of(self, label: str, example: StoredExample) -> Float32s | None:  # noqa: ARG002
        direction: Float32s = as_directions(example.vector[np.newaxis])[0]
        return direction

    def add_answer(self, graph: AnswerGraph, vector: str) -> Outputs:
        from cbcl.heads.centroids.onnx import add_vote  # which loads onnx

        return add_vote(graph, vector, self.voters, self.scale)

    def metadata(self) -> dict[str, str]:
        parameters = {"radius": repr(self.voters.radius), "n_voters": str(self.voters.n_voters)}
        return {"head": VOTE.name, **parameters}


def _options(given: Mapping[str, Any]) -> Options:
    return Options.of(
        given.get("radius", "auto"), given.get("n_voters", "auto"), given.get("max_centroids")
    )


def _check(known: CentroidClass) -> None:
    """Raise ValueError for a class that no learning gives."""
    counts = known.concepts.counts
    total = float(counts.sum(dtype=np.float64))
    if not len(counts) or counts.min() < 1 or total >= MAX_COUNT:
        raise ValueError(f"{len(counts)} centroids cannot be of {total:.0f} pictures")
    if not np.isfinite(known.concepts.centroids).all():
        raise ValueError("a centroid is not finite")
    _check_spread(known.spread)


def _check_spread(spread: Spread) -> None:
    n, total, squares = spread.n, spread.total, spread.squares
    possible = all(isinstance(value, float) and 0.0 <= value < inf for value in (total, squares))
    if type(n) is not int or not 0 <= n < MAX_COUNT or not possible:
        raise ValueError(f"the distances of {n} pictures cannot add up to {total} and {squares}")


VOTE = CentroidHead()
