"""The device of large batches: that of the environment, where there is enough to compute."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from cbcl import CBCLClassifier, WeightsError
from cbcl.method.search import MIN_DEVICE_ROWS
from cbcl.method.statistical import MIN_DEVICE_ROWS as MIN_DISCRIMINANT_ROWS

PROBLEM = "PyTorch finds none" if find_spec("torch") else r'pip install "cbcl\[torch\]"'


@pytest.mark.parametrize(
    ("head", "rows"), [("vote", MIN_DEVICE_ROWS), ("discriminant", MIN_DISCRIMINANT_ROWS)]
)
def test_a_device_that_is_not_there_is_told_when_it_is_needed(
    head: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.random.default_rng(0).normal(size=(rows, 64)).astype(np.float32)
    learner = CBCLClassifier(head=head).fit(vectors[:20], np.arange(20) % 4)  # type: ignore[arg-type]
    monkeypatch.setenv("CBCL_DEVICE", "cuda")
    assert len(learner.predict(vectors[1:])) == rows - 1
    with pytest.raises(WeightsError, match=PROBLEM):
        learner.predict(vectors)
    monkeypatch.setenv("CBCL_DEVICE", "cpu")
    assert len(learner.predict(vectors)) == rows
