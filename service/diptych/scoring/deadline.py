"""The deadline of the current request, in a context variable, so that decoding and scoring stop when it has passed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from diptych.errors import ClientLeftError, DeadlineError


@dataclass(eq=False)
class Deadline:
    """The end of a caller's waiting: the time `at` by the monotonic clock, or before it once it is `cancelled`."""

    at: float = float("inf")
    cancelled: bool = False

    def check(self, task: str) -> None:
        """Raise DeadlineError if the time for `task` is over, ClientLeftError if its client has left."""
        if self.cancelled:
            raise ClientLeftError(f"nobody waits for {task} any more")
        if time.monotonic() >= self.at:
            raise DeadlineError(f"{task} was not done within the time it was given; ask for less, or allow more time")


_current: ContextVar[Deadline] = ContextVar("deadline", default=Deadline())  # noqa: B039 - nobody changes this one


def current_deadline() -> Deadline:
    """The deadline of the work on this thread; outside of `deadline_scope` it has no end."""
    return _current.get()


@contextmanager
def deadline_scope(deadline: Deadline) -> Iterator[None]:
    """The block in which decoding and scoring, on this thread, begin nothing that `deadline` has no time for."""
    token = _current.set(deadline)
    try:
        yield
    finally:
        _current.reset(token)
