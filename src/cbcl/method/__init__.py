"""The paper, as pure functions on arrays, and the estimator on them."""
