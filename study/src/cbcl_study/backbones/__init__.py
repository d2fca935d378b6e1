"""Backbones of the study: networks of the paper and its rivals, and readers of their weights."""
