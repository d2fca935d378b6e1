"""Runs: a learner goes through a stream and is tested after each increment; many of them, each recorded once.

q test vectors, t classes. Each run has one thread of arithmetic, so what it finds does not depend on how many run
beside it.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from threading import Thread, current_thread, main_thread
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from cbcl.errors import CBCLError, DataError
from cbcl.machine import cores
from cbcl.method.knowledge import Knowledge
from cbcl.method.voting import block_votes
from cbcl.study.data.vectors import Features, features
from cbcl.study.hybrid import Hybrid
from cbcl.study.incremental_search import Directions, IncrementalSearch
from cbcl.study.learners import Learner, kind
from cbcl.study.records import Record, Run, append, key, read, surroundings
from cbcl.study.report.scores import encode_confusion
from cbcl.study.streams import Stream, stream
from cbcl.vision.extraction import Progress


def perform(
    run: Run, seen: Features, make: Callable[[int, int | None], Learner] | None = None
) -> dict[str, Any]:
    """One run: everything of its record but when, where and how fast."""
    found = stream(seen.labels, seen.test, run.protocol, run.seed)
    learner = (make or kind(run.learner).make)(run.seed, run.max_centroids)
    rows = np.concatenate(found.tested)
    ends = np.cumsum([len(of_class) for of_class in found.tested])
    truth = np.repeat(np.arange(len(found.classes)), [len(of_class) for of_class in found.tested])
    examiner = _Examiner(found, np.ascontiguousarray(seen.vectors[rows]), _directions(seen))
    right, centroids, tunings, learning = [], [], [], 0.0
    begun = perf_counter()
    for known, new in found.increments():
        vectors, labels = np.ascontiguousarray(seen.vectors[new]), seen.labels[new]
        start = perf_counter()
        learner.partial_fit(vectors, labels)
        state = learner.state()  # some only do their work when it is needed
        learning += perf_counter() - start
        q = int(ends[known - 1])
        answers = examiner.answers(learner, q)
        right.append(np.bincount(truth[:q][answers == truth[:q]], minlength=known).tolist())
        if (knowledge := _knowledge(learner)) is not None:
            centroids.append(len(knowledge.index.owners))
            tunings.append([_finite(knowledge.radius), knowledge.n_voters])
    t = len(found.classes)
    confusion = np.bincount(truth * t + answers, minlength=t * t).reshape(t, t)
    return {
        "run": _named(run, seen),
        "inputs": inputs(seen),
        "classes": list(found.classes),
        "increments": list(found.sizes),
        "tested": [len(of_class) for of_class in found.tested],
        "right": right,
        "confusion": encode_confusion(confusion),
        "centroids": centroids or None,
        "tunings": tunings or None,
        "bytes": footprint(state),
        "seconds": {"learning": round(learning, 3), "all": round(perf_counter() - begun, 3)},
    }


class _Examiner:
    """Asks a learner about all test vectors of the classes it knows."""

    def __init__(self, found: Stream, vectors: NDArray[np.float32], directions: Directions) -> None:
        self._vectors, self._watch = vectors, IncrementalSearch(vectors, directions)
        self._numbers = {label: number for number, label in enumerate(found.classes)}

    def answers(self, learner: Learner, q: int) -> NDArray[np.int64]:
        """The number of the class that each of the first q vectors is given."""
        if (
            isinstance(learner, Hybrid)
            and learner.vote is block_votes
            and learner.knowledge is not None
        ):
            labels = learner.knowledge.classes[self._watch.winners(learner.knowledge, q)]
        else:
            labels = learner.predict(self._vectors[:q].copy()) if q else np.array([], dtype=np.str_)
        return np.array([self._numbers[label] for label in labels.tolist()], dtype=np.int64)


def _knowledge(learner: Learner) -> Knowledge | None:
    return learner.knowledge if isinstance(learner, Hybrid) else None


def _finite(radius: float) -> float | None:
    return radius if np.isfinite(radius) else None  # JSON has no infinity


def _named(run: Run, seen: Features) -> dict[str, Any]:
    """A run for its record, in which a folder goes by its name."""
    return {**run._asdict(), "data": seen.about["data"]}


def inputs(seen: Features) -> dict[str, Any]:
    """What a run was made from, in so many digests."""
    about = seen.about
    return {
        "vectors": about["vectors"],
        "pictures": about["fingerprint"],
        "weights": about["weights"],
        "preprocessing": about["preprocessing"],
    }


def footprint(state: dict[str, NDArray[Any]]) -> int:
    """The bytes of a file that holds these arrays: written, and measured."""
    arrays = {
        name: np.frombuffer(json.dumps(array.tolist()).encode(), np.uint8)
        if array.dtype.kind in "UO"
        else array
        for name, array in state.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.safetensors")
        save_file({name: np.ascontiguousarray(array) for name, array in arrays.items()}, path)
        return path.stat().st_size


class Failure(NamedTuple):
    """A run that could not be done, and why."""

    run: Run
    reason: str


def execute(
    runs: Sequence[Run],
    results: Path,
    *,
    home: Path | None = None,
    workers: int | None = None,
    progress: Progress,
) -> tuple[list[Record], list[Failure]]:
    """Run what has no record yet, on all cores, and record each as it ends.

    The records of all, in the order asked; and what failed, which keeps nothing else from being run.
    """
    runs = [*dict.fromkeys(runs)]
    keys = {}
    for run in runs:
        seen = _features(run.data, run.backbone, home)
        keys[run] = key(_named(run, seen), inputs(seen))
    known = {key(record["run"], record["inputs"]): record for record in read(results)}
    todo = [run for run in runs if keys[run] not in known]
    done, failures = len(keys) - len(todo), []
    progress(done, len(keys))
    for result in _performed(todo, home, min(workers or cores(), len(todo))):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            complete = {**result, **surroundings()}
            append(results, complete)
            known[key(result["run"], result["inputs"])] = complete
        done += 1
        progress(done, len(keys))
    return [known[keys[run]] for run in runs if keys[run] in known], failures


def _performed(
    runs: Sequence[Run], home: Path | None, workers: int
) -> Iterator[dict[str, Any] | Failure]:
    if workers <= 1:
        with threadpool_limits(1):
            for run in runs:
                yield _perform(run, home)
        return
    with _processes(workers) as executor:
        try:
            with _deaf():  # so that what is started is, too: who started it decides
                waiting = [executor.submit(_perform, run, home) for run in runs]
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            raise DataError(
                "a process that ran a learner was ended, perhaps for want of memory: try `--workers 1`. "
                "What was finished is recorded."
            ) from None


@contextmanager
def _processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    executor = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield executor
    except (
        BaseException
    ):  # above all Ctrl-C: what is under way is given up, what was done is recorded
        executor.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
            process.join(5.0)
        raise
    executor.shutdown()


@contextmanager
def _deaf() -> Iterator[None]:
    """No Ctrl-C meanwhile."""
    if current_thread() is not main_thread():  # only the main one may decide on signals
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform(run: Run, home: Path | None) -> dict[str, Any] | Failure:
    try:
        return perform(run, _features(run.data, run.backbone, home))
    except (ValueError, ArithmeticError, CBCLError) as error:  # LinAlgError is a ValueError
        return Failure(run, str(error))


@cache
def _directions(seen: Features) -> Directions:
    return Directions(seen.vectors)


@cache
def _features(data: str, backbone: str, home: Path | None) -> Features:
    return features(data, backbone, home=home)
