"""Tasks: stopping in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import warnings
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

from cbcl import tasks
from cbcl.tasks import interrupts_ignored, perform_tasks


def ignores_ctrl_c(_: int) -> bool:
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_workers_ignore_ctrl_c_and_who_started_them_does_not() -> None:
    before = signal.getsignal(signal.SIGINT)
    get_reusable_executor().shutdown(wait=True)  # whoever started workers before
    assert dict(perform_tasks(ignores_ctrl_c, {1: (1,), 2: (2,)}, n_jobs=2)) == {1: True, 2: True}
    assert signal.getsignal(signal.SIGINT) is before


def test_who_stops_in_the_middle_is_not_warned_of_what_is_cancelled() -> None:
    results = perform_tasks(pow, {number: (number, 2) for number in range(400)}, n_jobs=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        number, square = next(results)
        results.close()  # type: ignore[attr-defined]
    assert square == number**2


def test_an_interrupt_has_to_wait_while_processes_are_begun() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts_ignored():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
    assert signal.getsignal(signal.SIGINT) is before
    seen: list[Any] = []

    def elsewhere() -> None:
        with interrupts_ignored():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert seen == [before]


def test_ctrl_c_once_more_does_not_interrupt_the_end_of_what_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = []

    def perform(*_: object) -> Iterator[tuple[int, int]]:
        try:
            yield 1, 1
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)
            ended.append(subprocess.run(["sh", "-c", "kill -INT $$; echo goes on"]).returncode)

    monkeypatch.setattr(tasks, "_perform", perform)
    results = perform_tasks(pow, {1: (1, 1), 2: (2, 2)}, n_jobs=2)
    assert next(results) == (1, 1)
    results.close()  # type: ignore[attr-defined]
    assert ended == [0]  # as the program does by which joblib ends workers
