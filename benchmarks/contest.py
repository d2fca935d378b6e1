"""Contestants that take turns, ratios between them, and a record of the run: what the speed benchmarks share."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np


def timed(contestant: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        contestant()
    return (time.perf_counter() - start) / calls


def medians(contestants: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Seconds a call, the contestants taking turns of about 50 ms so that a busy machine is busy for all."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    turns = {
        name: max(1, round(0.05 / timed(contestant, 2))) for name, contestant in contestants.items()
    }
    for _ in range(repetitions):
        for name, contestant in contestants.items():
            seconds[name].append(timed(contestant, turns[name]))
    return {name: float(np.median(times)) for name, times in seconds.items()}


def line(
    work: str, seconds: dict[str, float], ratio: float, target: str, met: bool
) -> dict[str, object]:
    times = ", ".join(f"{name} {1e3 * value:.4g} ms" for name, value in seconds.items())
    print(
        f"{work:<58} {ratio:7.2f} x  (wanted {target}: {'yes' if met else 'NO'})   {times}",
        flush=True,
    )
    return {"work": work, "ratio": ratio, "target": target, "met": met, "seconds": seconds}


def record(
    modules: Sequence[ModuleType], results: list[dict[str, object]], **more: object
) -> dict[str, object]:
    """The commit, the machine, the versions and what was found, on Linux: it looks the processor up in /proc."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    cpu = [
        row.split(":")[1].strip()
        for row in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in row
    ]
    return {
        "commit": git.stdout.strip(),
        "machine": f"{cpu[0]}, {os.cpu_count()} cores, {platform.system()}",
        **more,
        "versions": {module.__name__: module.__version__ for module in modules},
        "results": results,
    }
