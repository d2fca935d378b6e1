"""Readers for files of pretrained weights that trust none of their content."""
