"""Memory files: processes killed, writes torn, bits flipped, disks full, schemas made up."""

from __future__ import annotations

from endurance import commands, flips, full_disk, kills, logs, schemas, teaching, torn
from endurance.trial import Trial

TRIALS: tuple[Trial, ...] = (
    *kills.TRIALS,
    *commands.TRIALS,
    *teaching.TRIALS,
    *torn.TRIALS,
    *full_disk.TRIALS,
    *flips.TRIALS,
    *logs.TRIALS,
    *schemas.TRIALS,
)
