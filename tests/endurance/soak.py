"""Many thousand mixed operations, compared with a fresh learner that was fed the same stream."""

from __future__ import annotations

from endurance.trial import Trial

TRIALS: tuple[Trial, ...] = ()
