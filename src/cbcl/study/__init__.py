"""Data sets, vectors, streams of classes, scores and reports: how well it learns, and against what."""
