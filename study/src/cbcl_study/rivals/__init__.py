"""Other learners to compare with, on vectors: anything with partial_fit and predict."""
