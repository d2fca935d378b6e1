"""Data sets and their vectors."""
