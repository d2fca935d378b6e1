"""Learners as pure functions on arrays, and the estimators on them."""
