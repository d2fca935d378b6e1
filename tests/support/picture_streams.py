"""Small pictures to learn from, small learners, and a record of what they were trained on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 8
SMALL: dict[str, Any] = {"blocks": (1, 1), "widths": (8, 16), "device": "cpu"}
RECIPES = ("recipe", "first", "later", "balanced")

Pictures = NDArray[np.uint8]
Labels = NDArray[Any]


class Training(NamedTuple):
    """One call of the training loop."""

    views: Any
    loss: Any
    recipe: Any
    before: dict[str, Any]  # the network's tensors
    after: dict[str, Any]


def pictures_of(label: int, count: int, seed: int) -> Pictures:
    """Noisy pictures of a class's colour."""
    colour = 60 + 130 * np.array([label >> bit & 1 for bit in range(3)])
    noise = np.random.default_rng([seed, label]).integers(-60, 61, (count, SIDE, SIDE, 3))
    pictures: Pictures = (colour + noise).astype(np.uint8)
    return pictures


def labelled(labels: range | list[int], count: int, seed: int = 0) -> tuple[Pictures, Labels]:
    """Pictures of some classes, mixed."""
    x = np.concatenate([pictures_of(label, count, seed) for label in labels])
    y = np.repeat([f"class {label}" for label in labels], count)
    order = np.random.default_rng(seed).permutation(len(y))
    return x[order], y[order]


def picture_stream(
    count: int = 8, size: int = 2, classes: int = 6
) -> list[tuple[Pictures, Labels]]:
    """Increments of new classes."""
    return [labelled(range(k, k + size), count, seed=k) for k in range(0, classes, size)]


def shorten(learner: Any, epochs: int = 2, batch: int = 8, rate: float | None = None) -> Any:
    """Let a learner train for a moment only."""
    for name in RECIPES:
        if recipe := getattr(learner, name, None):
            rate_ = recipe.rate if rate is None else rate
            setattr(learner, name, recipe._replace(epochs=epochs, batch=batch, rate=rate_))
    return learner


def record(learner: Any) -> list[Training]:
    """Return a list that grows with each training of the learner."""
    trainings: list[Training] = []
    descend = learner._descend

    def recorded(views: Any, loss: Any, recipe: Any) -> None:
        before = tensors(learner.network)
        descend(views, loss, recipe)
        trainings.append(Training(views, loss, recipe, before, tensors(learner.network)))

    learner._descend = recorded
    return trainings


def tensors(network: Any) -> dict[str, Any]:
    """Copies of a network's weights and statistics."""
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}
