"""Pickles, safetensors and ONNX files from elsewhere, generated and mutated."""

from __future__ import annotations

from endurance.trial import Trial

TRIALS: tuple[Trial, ...] = ()
