"""Answers of models that no memory holds."""

from __future__ import annotations

from math import inf
from pathlib import Path

from cbcl.heads.base import Settings, Sight
from cbcl.heads.centroids.changes import CentroidClass
from cbcl.heads.centroids.head import CentroidHeadModel
from cbcl.heads.discriminant.model import DiscriminantHeadModel
from cbcl.heads.discriminant.views import DirectionSight
from cbcl.memory.store import Memory
from cbcl.method.arrays import Float32s
from cbcl.method.centroids.confidence import NO_SPREAD, Scale
from cbcl.method.centroids.model import CentroidModel
from cbcl.method.discriminant.model import DiscriminantModel
from cbcl.method.model import Verdict
from cbcl.recognition.answer import Answer, as_answer


def voting(model: CentroidModel, scale: Scale) -> CentroidHeadModel:
    """Return the vote of centroids, by this scale of distances."""
    classes = {label: CentroidClass(one, NO_SPREAD) for label, one in model.concepts.items()}
    voters = CentroidHeadModel(classes, Settings(model.radius, model.n_voters), inf)
    voters.scale = scale
    return voters


def answers(matrix: Float32s, model: CentroidModel, scale: Scale) -> list[Answer]:
    return [_answer(verdict) for verdict in voting(model, scale).answer(Sight(matrix))]


def judged_answers(matrix: Float32s, model: DiscriminantModel) -> list[Answer]:
    sight = DirectionSight(matrix)
    return [_answer(verdict) for verdict in DiscriminantHeadModel(model).answer(sight)]


def _answer(verdict: Verdict) -> Answer:
    return as_answer(verdict, {}, Memory(Path("none.cbcl")), -1.0)
