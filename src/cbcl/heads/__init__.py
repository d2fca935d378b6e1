"""Heads: how a class is learned, changed, kept and answered."""
