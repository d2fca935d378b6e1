"""Requests from the OpenAPI description, and slow and half-open connections."""

from __future__ import annotations

from endurance.trial import Trial

TRIALS: tuple[Trial, ...] = ()
