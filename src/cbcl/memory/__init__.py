"""Memory files: what was learned, on disk."""
