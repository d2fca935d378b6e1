"""The paper's learner: Agg-Var clustering and the inverse-distance vote, as pure functions."""
