"""Limits on the decoding of pictures by all threads of the process together."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Condition, local

from cbcl.machine import cores, trim_memory

MAX_DECODED_BYTES = 390_000_000  # of one picture, at the peak of its decoding
MAX_TOTAL_BYTES = 600_000_000  # of all pictures that are decoded together
TRIMMED_BYTES = 100_000_000  # given back at once: free memory is returned to the system


class _Share(local):
    """The bytes that a thread has taken, inside `DecodingBudget.share`."""

    is_open = False
    taken = 0
    make_room: Callable[[], None] | None = None


class DecodingBudget:
    """Budget of bytes, and slots for the batches that the process decodes in parallel.

    No thread waits while it holds some bytes, so that none waits for ever.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._reset)  # what is taken is the parent's

    def _reset(self) -> None:
        self.taken = 0
        self.slots = BoundedSemaphore(cores())
        self._changed = Condition()
        self._share = _Share()

    @contextmanager
    def share(self, make_room: Callable[[], None] | None = None) -> Iterator[None]:
        """Give back what this thread takes inside at the end of the outermost share.

        `make_room` gives back bytes; it is called before this thread would have to wait for more.
        """
        if self._share.is_open:
            yield
            return
        self._share.is_open = True
        self._share.make_room = make_room
        try:
            yield
        finally:
            self.give_back()
            self._share.is_open = False
            self._share.make_room = None

    def take(self, count: int) -> None:
        """Take bytes for the share of this thread; wait until they are free."""
        share = self._share
        if share.taken and share.make_room is not None and self.taken + count > self.limit:
            share.make_room()
        with self._changed:
            if not share.taken:
                self._changed.wait_for(lambda: not self.taken or self.taken + count <= self.limit)
            self.taken += count
            share.taken += count

    def give_back(self) -> None:
        """Give back all bytes that this thread has taken."""
        count = self._share.taken
        self._share.taken = 0
        with self._changed:
            self.taken -= count
            self._changed.notify_all()
        if count >= TRIMMED_BYTES:
            trim_memory()


BUDGET = DecodingBudget(MAX_TOTAL_BYTES)
