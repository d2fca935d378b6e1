"""Tasks: independent calls made by joblib's workers, on this machine or on others.

`joblib.parallel_config` decides which: processes (loky), dask, ray, spark.
"""

from __future__ import annotations

import signal
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

from cbcl.errors import WorkerError, first_line

CALL_TASKS = 4  # for each worker, where an engine returns the results of a call together
MANAGER = "ExecutorManagerThread"  # joblib's thread that feeds its worker processes
MANAGER_SECONDS = 5.0  # to wait for its end
MAX_FAILURES = 3  # of the engine in a row, without a result between them


def perform_tasks(
    function: Callable[..., Any], tasks: Mapping[int, Sequence[Any]], n_jobs: int | None
) -> Iterator[tuple[int, Any]]:
    """Yield number and result of each task once, as it comes.

    A task of a lost worker is given to another. Errors of the function are raised here. `n_jobs`
    is joblib's: None stands for that of `joblib.parallel_config`, or 1.

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
    """Return the number of tasks performed in parallel."""
    from joblib import effective_n_jobs

    return int(effective_n_jobs(n_jobs))


def _perform(
    function: Callable[..., Any], tasks: Mapping[int, Sequence[Any]], n_jobs: int | None
) -> Generator[tuple[int, Any], None, None]:
    from joblib import Parallel, delayed

    calls = [delayed(_call)(function, number, given) for number, given in tasks.items()]
    try:
        parallel = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    except ValueError:  # ray returns all results of a call together
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
    """Suppress warnings about cancelled tasks, and ignore further Ctrl-C.

    joblib warns of cancelled tasks, and its thread may fail while it hands one to a worker. To find
    the processes to kill, joblib runs a program: if Ctrl-C stopped that program, workers would live
    on, and this process would wait for them for ever.
    """
    before = threading.excepthook

    def report(failure: threading.ExceptHookArgs) -> None:
        if failure.thread is None or failure.thread.name != MANAGER:
            before(failure)

    threading.excepthook = report
    try:
        with interrupts_ignored():  # programs started here inherit that
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
    """Ignore Ctrl-C for a moment; processes started meanwhile ignore it for good.

    A terminal sends Ctrl-C to all processes, and workers would print tracebacks. This process
    decides, and ends them.
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
    """Make a call in a worker; return its error, since raised errors are those of the engine."""
    try:
        return number, function(*arguments)
    except Exception as error:
        return number, error


def _failed(error: Exception) -> WorkerError:
    tries = MAX_FAILURES + 1
    what = f"{type(error).__name__}: {first_line(error)}"
    problem = f"failed {tries} times, one after another ({what})"
    return WorkerError("the workers", problem, "what was finished is kept: go on from there")
