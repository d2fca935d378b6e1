"""Labelled vectors to learn from: the digits, and increments of a few classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from cbcl.method.arrays import Float32s

Labels = NDArray[Any]


def digits(seed: int) -> tuple[Float32s, Labels, Float32s, Labels]:
    pixels, targets = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(targets))
    x = pixels[order].astype(np.float32)
    y = targets[order].astype(str)
    return x[:1200], y[:1200], x[1200:], y[1200:]


def stream(seed: int) -> list[tuple[Float32s, Labels]]:
    """Increments of new classes, more of known ones, and both."""
    rng = np.random.default_rng(seed)
    means = 2.0 * rng.normal(size=(6, 16))
    plan = [(["a", "b"], 40), (["c", "a"], 30), (["d"], 1), (["b", "e", "f"], 25)]
    made = []
    for labels, count in plan:
        y = rng.permutation(np.repeat(labels, count))
        made.append(
            (
                (means[[ord(one) - 97 for one in y]] + rng.normal(size=(len(y), 16))).astype(
                    np.float32
                ),
                y,
            )
        )
    return made
