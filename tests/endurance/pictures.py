"""Pictures: every format, mutated; the memory and the seconds that each takes."""

from __future__ import annotations

from endurance.trial import Trial

TRIALS: tuple[Trial, ...] = ()
