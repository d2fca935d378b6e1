"""Runs: a learner goes through a stream and is tested after each increment; each is recorded once.

q test vectors, t classes. Each run has one thread of arithmetic, so what it finds does not depend
on how many run beside it.
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
from threading import Thread
from time import perf_counter
from traceback import extract_tb
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from cbcl.errors import CBCLError, DataError, first_line
from cbcl.files import cache_folder
from cbcl.machine import cores
from cbcl.method.arrays import Int64s
from cbcl.tasks import interrupts_ignored, perform_tasks
from cbcl.vision.extraction import Progress
from cbcl_study.checkpoints import Checkpoint, Resumable
from cbcl_study.data.vectors import Features, features
from cbcl_study.hybrid import Hybrid
from cbcl_study.learners import Learner, LearnerKind, learner_kind
from cbcl_study.records import Run, RunRecord, append, key, read, surroundings
from cbcl_study.returned import check_labels, check_state
from cbcl_study.rivals.logistic import JointLogistic
from cbcl_study.scores import encode_confusion
from cbcl_study.streams import stream

UNDERWAY = "underway"  # folder of checkpoints
QUERIES = 100  # the generator of a seed that shuffles test vectors; those of streams are the first


def perform(
    run: Run,
    data: Features,
    make: Callable[[int, int | None], Learner] | None = None,
    checkpoint: Checkpoint | None = None,
) -> dict[str, Any]:
    """Run a learner; return its record without commit, versions and machine."""
    classes = stream(data.labels, data.test, run.protocol, run.seed)
    kind = LearnerKind("", make) if make else learner_kind(run.learner)
    learner = kind.make(run.seed, run.max_centroids)
    t, tested = len(classes.classes), [len(rows) for rows in classes.tested]
    truth, ends = np.repeat(np.arange(t), tested), np.cumsum(tested)
    queries = data.vectors[np.concatenate(classes.tested)]
    numbers = {label: number for number, label in enumerate(classes.classes)}
    right, centroids, tunings, gradients, learning = [], [], [], [], 0.0
    begun = perf_counter()
    resumable = learner if isinstance(learner, Resumable) else None
    if checkpoint and resumable and (scores := checkpoint.resume(resumable)):
        right, learning, begun = scores["right"], scores["learning"], begun - scores["all"]
    for known, rows in [*classes.increments()][len(right) :]:
        vectors = np.ascontiguousarray(data.vectors[rows])
        learning_begun = perf_counter()
        learner.partial_fit(vectors, data.labels[rows])
        returned = learner.state()  # some only do their work when it is needed
        learning += perf_counter() - learning_begun
        state = check_state(returned)
        q = int(ends[known - 1])
        order = np.random.default_rng([run.seed, QUERIES, known]).permutation(q)
        answers = _ask(learner, queries[:q], numbers, order)
        own = truth[:q]
        right.append(np.bincount(own[answers == own], minlength=known).tolist())
        if isinstance(learner, Hybrid) and (knowledge := learner.knowledge) is not None:
            centroids.append(len(knowledge.index.owners))
            tunings.append([_finite(knowledge.radius), knowledge.n_voters])
        if isinstance(learner, JointLogistic):
            gradients.append(learner.gradient)
        if checkpoint and resumable and len(right) < len(classes.sizes):
            so_far = {"right": right, "learning": learning, "all": perf_counter() - begun}
            checkpoint.keep(resumable, so_far)
    confusion = np.bincount(truth * t + answers, minlength=t * t).reshape(t, t)
    return {
        "run": _run_fields(run, data),
        "inputs": inputs(data, kind),
        "classes": list(classes.classes),
        "increments": list(classes.sizes),
        "tested": tested,
        "right": right,
        "confusion": encode_confusion(confusion),
        "centroids": centroids or None,
        "tunings": tunings or None,
        "gradients": gradients or None,
        "bytes": footprint(state),
        "seconds": {"learning": round(learning, 3), "all": round(perf_counter() - begun, 3)},
        **({"device": learner.describe_device()} if isinstance(learner, OnDevice) else {}),
    }


@runtime_checkable
class OnDevice(Protocol):
    """A learner that may run on a GPU."""

    def describe_device(self) -> dict[str, str]:
        """Return the device and the software that drives it, for a record."""


def _ask(
    learner: Learner, queries: NDArray[np.float32], numbers: dict[str, int], order: Int64s
) -> Int64s:
    """Return the number of the class that each vector is given: (q,).

    The order is drawn: that of the vectors, class after class, would be an answer.
    """
    answers = np.empty(len(queries), dtype=np.int64)
    # Indexing copies: a learner is somebody's own and may write into what it is given.
    returned: Any = learner.predict(queries[order]) if len(queries) else []
    labels = check_labels(returned, len(queries), numbers)
    answers[order] = [numbers[label] for label in labels]
    return answers


def _finite(radius: float) -> float | None:
    return radius if np.isfinite(radius) else None  # JSON has no infinity


def _run_fields(run: Run, data: Features) -> dict[str, Any]:
    """Return a run's fields for its record, in which a folder goes by its name."""
    return {**run._asdict(), "data": data.about["data"]}


def inputs(data: Features, kind: LearnerKind) -> dict[str, Any]:
    """Return the digests of a run's pictures, weights and vectors, and the preprocessing.

    And that of its learner's file, if it is somebody's own.
    """
    about = data.about
    return {
        "vectors": about["vectors"],
        "pictures": about["fingerprint"],
        "weights": about["weights"],
        "preprocessing": about["preprocessing"],
        **({"learner": kind.digest} if kind.digest else {}),
    }


def footprint(state: dict[str, NDArray[Any]]) -> int:
    """Return the bytes of a file that holds these arrays: written, and measured."""
    arrays = {}
    for name, array in state.items():
        if array.dtype.kind in "UO":
            array = np.frombuffer(json.dumps(array.tolist()).encode(), np.uint8)
        arrays[name] = np.ascontiguousarray(array)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state.safetensors")
        save_file(arrays, path)
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
    n_jobs: int | None = None,
    progress: Progress,
) -> tuple[list[RunRecord], list[Failure]]:
    """Perform the runs that have no record yet, on all cores, and record each as it ends.

    A record of a learner of somebody's own counts as long as its file is the same.

    Return the records of all, in the order asked, and the failures, which stop no other run. With
    `n_jobs`, joblib's workers perform them; each must have the vectors (the same CBCL_HOME).
    """
    runs = [*dict.fromkeys(runs)]
    keys = {}
    for run in runs:
        data = _features(run.data, run.backbone, home)
        keys[run] = key(_run_fields(run, data), inputs(data, learner_kind(run.learner)))
    records = {key(record["run"], record["inputs"]): record for record in read(results)}
    for run in runs:
        record = records.get(keys[run])
        if record and record["inputs"].get("learner") != learner_kind(run.learner).digest:
            del records[keys[run]]
    missing = [run for run in runs if keys[run] not in records]
    done, failures = len(keys) - len(missing), []
    progress(done, len(keys))
    for result in (
        _perform_all(missing, home, workers or cores())
        if n_jobs is None
        else _perform_elsewhere(missing, home, n_jobs)
    ):
        if isinstance(result, Failure):
            failures.append(result)
        else:
            record = {**surroundings(), **result}
            recorded = key(record["run"], record["inputs"])
            append(results, record)
            _checkpoint(recorded, result["inputs"], home).remove()
            records[recorded] = record
        done += 1
        progress(done, len(keys))
    return [records[keys[run]] for run in runs if keys[run] in records], failures


def _perform_all(
    runs: Sequence[Run], home: Path | None, workers: int
) -> Iterator[dict[str, Any] | Failure]:
    workers = min(workers, len(runs))
    if workers <= 1:
        with threadpool_limits(1):
            for run in runs:
                yield _perform(run, home)
        return
    with _processes(workers) as executor:
        try:
            with interrupts_ignored():  # the processes inherit it: this one decides
                futures = [executor.submit(_perform, run, home) for run in runs]
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise DataError(
                "a process",
                "that ran a learner was killed, perhaps because the machine ran out of RAM",
                "try `--workers 1`; what was finished is recorded",
            ) from None


def _perform_elsewhere(
    runs: Sequence[Run], home: Path | None, n_jobs: int
) -> Iterator[dict[str, Any] | Failure]:
    tasks = {number: (run, home) for number, run in enumerate(runs)}
    for _, result in perform_tasks(_perform_alone, tasks, n_jobs):
        yield result


def _perform_alone(run: Run, home: Path | None) -> dict[str, Any] | Failure:
    """Perform a run in a worker, whose machine is that of the record."""
    with threadpool_limits(1):
        result = _perform(run, home)
    return result if isinstance(result, Failure) else {**result, **surroundings()}


@contextmanager
def _processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    executor = ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_start_process
    )
    try:
        yield executor
    except BaseException:  # above all Ctrl-C: running work is dropped, finished work is recorded
        executor.shutdown(wait=False, cancel_futures=True)
        for process in active_children():
            process.terminate()
            process.join(5.0)
        raise
    executor.shutdown()


def _start_process() -> None:
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
        data = _features(run.data, run.backbone, home)
        given = inputs(data, learner_kind(run.learner))
        checkpoint = _checkpoint(key(_run_fields(run, data), given), given, home)
        return perform(run, data, checkpoint=checkpoint)
    except CBCLError as error:
        return Failure(run, str(error))
    except (Exception, SystemExit) as error:  # a learner may call sys.exit
        if learner_kind(run.learner).digest:  # somebody's own code: say where
            place = extract_tb(error.__traceback__)[-1]
            where = f"{Path(place.filename).name}, line {place.lineno}"
            return Failure(run, f"{type(error).__name__} in {where}: {first_line(error)}")
        # LinAlgError is a ValueError; a GPU that is out of memory, a RuntimeError.
        if isinstance(error, ValueError | ArithmeticError | RuntimeError):
            return Failure(run, str(error))
        raise


def _checkpoint(run_key: str, given: dict[str, Any], home: Path | None) -> Checkpoint:
    folder = (home or cache_folder()) / "study" / UNDERWAY
    return Checkpoint(folder, run_key + given.get("learner", ""))


@cache
def _features(data: str, backbone: str, home: Path | None) -> Features:
    return features(data, backbone, home=home)
