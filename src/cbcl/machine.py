"""The machine: its cores, the threads of matrix products, and its description for records."""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from threading import Lock

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # only once: it searches all loaded libraries


def blas_threads() -> int:
    """Return the number of threads that a matrix product would use now."""
    pools = _controller().select(user_api="blas").info()
    return max((pool["num_threads"] for pool in pools), default=1)


class _ThreadLimit:
    """Limit of one thread, shared by its users: the first sets it, the last removes it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.users = 0
        self.limit = ExitStack()

    def __enter__(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limit.enter_context(_controller().limit(limits=1))
            self.users += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limit.close()


_thread_limit = _ThreadLimit()


def one_thread() -> AbstractContextManager[None]:
    """Limit matrix products and k-means of the whole process to one thread each."""
    return _thread_limit


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def description() -> str:
    """Return the processor, the usable cores and the operating system, for records of runs."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = (line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    return f"{next(models, platform.machine())}, {cores()} cores, {platform.system()}"


def trim_memory() -> None:
    """Return to the system the free memory that the C library keeps (on Linux)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)
