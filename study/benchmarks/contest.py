"""What the benchmarks share: arguments, timing in turns, ratios, and the record of a run."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from PIL import Image

from cbcl.machine import description


class Worker:
    """A process that runs a script with the sources of one checkout, a turn at a time."""

    def __init__(self, script: str, checkout: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, "--worker", *arguments],
            env={**os.environ, "PYTHONPATH": str(checkout / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read()  # it is ready

    def _read(self) -> str:
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the worker has ended"
        return line

    def take_turn(self) -> str:
        """Let it work once; return the line that it prints then."""
        assert self.process.stdin
        self.process.stdin.write("turn\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self.process.communicate()


def parser_of(about: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help is the docstring of a benchmark, as it is."""
    formatter = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=about, formatter_class=formatter)


def photographs() -> list[Image.Image]:
    """Return photographs that are in scikit-image's wheel."""
    from skimage import data  # not for `make bench`, which goes without

    names = ("astronaut", "chelsea", "coffee", "rocket")
    return [Image.fromarray(getattr(data, name)()) for name in names]


def timed(contestant: Callable[[], object], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        contestant()
    return (time.perf_counter() - start) / calls


def medians(contestants: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Return the median seconds of a call; in turns of 50 ms, a busy machine is busy for all."""
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
    """Return the commit, the machine, the versions and the results."""
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "commit": git.stdout.strip(),
        "machine": description(),
        **more,
        "versions": {module.__name__: module.__version__ for module in modules},
        "results": results,
    }
