"""Self-test of the discriminant: each view that is kept, as if it had not been learned."""

from __future__ import annotations

from collections.abc import Mapping

from cbcl.heads.self_test import AskedExample, SelfTestResult, find_problem, tabulate, untested
from cbcl.method.arrays import Int64s
from cbcl.method.discriminant.model import DiscriminantModel

NO_VIEWS = "only the latest examples can be asked about, and all were taken back: show more."


def examine_views(model: DiscriminantModel, numbers: Mapping[str, Int64s]) -> SelfTestResult:
    """Test each view that is kept, as if it, and its copies, had not been learned.

    `numbers` are those of the views' examples, label by label; 0 where a view has none.

    >>> import numpy as np
    >>> from cbcl.method.discriminant.model import learn_statistics
    >>> vectors = np.array([[1.0, 1.0], [1.1, 1.0], [1.0, 9.0], [1.1, 9.0]])
    >>> model = learn_statistics(None, vectors, np.array(["cup", "cup", "key", "key"]))
    >>> examine_views(model, {"cup": np.array([1, 2]), "key": np.array([3, 4])}).right
    4
    """
    problem = find_problem(model.sizes.tolist())
    tested = [] if problem else model.self_test()
    if not tested:
        return untested(model.labels, problem or NO_VIEWS)
    examples = []
    for view in tested:
        own = numbers[model.labels[view.own]]
        number = int(own[view.row]) if view.row < len(own) else 0
        examples.append(AskedExample(number, view.own, view.answer))
    return tabulate(model.labels, examples)
