"""The default learner: statistics of each class, and a discriminant solved from them."""
