"""A trial is one way to attack; what it did and found is its outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Attack:
    """How much to try, with which random numbers, in which empty folder."""

    count: int
    seed: int
    folder: Path
    progress: Callable[[int], None]  # called with how many are done


@dataclass
class Outcome:
    """`found` are faults, each a sentence that names its seed or case; `lost` is acknowledged work
    that was gone, or silently other."""

    tried: int = 0
    found: list[str] = field(default_factory=list)
    lost: int = 0
    figures: dict[str, float] = field(default_factory=dict)  # "WebP: peak MB": 217.0
    remarks: list[str] = field(default_factory=list)  # such as "refused 812, accepted 188"


@dataclass(frozen=True)
class Trial:
    """One row of the table. `short` is how many are tried in CI, `long` on demand."""

    name: str  # "kills of the library"
    unit: str  # what is counted: "kills", "files", "requests", "operations"
    short: int
    long: int
    run: Callable[[Attack], Outcome]
