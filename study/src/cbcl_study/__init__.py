"""The study: data sets, vectors, streams of classes, runs, scores and the report."""
