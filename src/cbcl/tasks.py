"""Tasks: independent calls made by joblib's workers, on this machine or on others.

`joblib.parallel_config` decides who they are: processes (loky), dask, ray, spark.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from cbcl.errors import WorkerError, first_line

CALL_TASKS = 4  # a worker, of an engine that returns the results of a call together
MANAGER = "ExecutorManagerThread"  # joblib's thread that feeds its worker processes
MANAGER_SECONDS = 5.0  # to wait for its end
MAX_FAILURES = 3  # of the engine, one after another, without a result between them


def perform_tasks(
    function: Callable[..., Any], tasks: Mapping[int, Sequence[Any]], n_jobs: int | None
) -> Iterator[tuple[int, Any]]:
    """Yield the number and the result of each task as it comes, once.

    Those of workers that are lost are given to others. What the function raises is raised here.
    `n_jobs` is joblib's: None is as `joblib.parallel_config` has it, or 1.

    >>> sorted(perform_tasks(pow, {1: (2, 3), 2: (3, 2)}, n_jobs=1))
    [(1, 8), (2, 9)]
    """
    missing = dict(tasks)
    failures = 0
    while missing:
        results = _perform(function, missing, n_jobs)
        try:
            while missing:
                try:
                    number, result = next(results)
                except Exception as error:  # an engine may raise anything when a worker is lost
                    failures += 1
                    if failures > MAX_FAILURES:
                        raise _failed(error) from error
                    break
                if isinstance(result, Exception):
                    raise result
                failures = 0
                del missing[number]
                yield number, result
        finally:
            with _ending_quietly() if missing else nullcontext():
                results.close()


def count_workers(n_jobs: int | None) -> int:
    """Return how many tasks are performed at a time."""
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def _perform(
    function: Callable[..., Any], tasks: Mapping[int, Sequence[Any]], n_jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    from joblib import Parallel, delayed

    calls = [delayed(_call)(function, number, given) for number, given in tasks.items()]
    try:
        parallel = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # as of ray, which returns all results of a call together
        size = CALL_TASKS * count_workers(n_jobs)
        with Parallel(n_jobs, batch_size=1) as parallel:
            for start in range(0, len(calls), size):
                yield from parallel(calls[start : start + size])
        return
    with interrupts_ignored():  # while workers are started
        results = parallel(calls)
    yield from results


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """Say nothing of tasks that are cancelled: who stops, knows it. Ctrl-C once more is ignored.

    joblib warns of them, and its thread may fail at giving one of them to a worker just then. It
    finds the processes to kill by a program: if Ctrl-C stopped that, workers would live on, and
    this process would wait for them for ever.
    """
    before = threading.excepthook

    def tell(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is None or failure.thread.name != MANAGER:
            before(failure)

    threading.excepthook = tell
    try:
        with interrupts_ignored():  # which programs that are started meanwhile inherit
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
            for thread in threading.enumerate():
                if thread.name == MANAGER:
                    thread.join(MANAGER_SECONDS)
    finally:
        threading.excepthook = before


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C for a moment; processes that are started meanwhile ignore it for ever.

    On a terminal it comes to all of them at once, and workers would print tracebacks; it is this
    process that decides, and ends them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def _call(function: Callable[..., Any], number: int, arguments: Sequence[Any]) -> tuple[int, Any]:
    """Make one call, in a worker. Its error is returned: those that are raised are the engine's."""
    try:
        return number, function(*arguments)
    except Exception as error:
        return number, error


def _failed(error: Exception) -> WorkerError:
    what = f"{type(error).__name__}: {first_line(error)}"
    problem = f"failed {MAX_FAILURES + 1} times, one after another ({what})"
    return WorkerError("the workers", problem, "what was finished is kept: go on from there")
