"""How long somebody waits for what is computed, known wherever the computing takes place."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from diptych.errors import DeadlineError


@dataclass(eq=False)
class Patience:
    """How long somebody waits: until `deadline`, by the monotonic clock, or until `given_up`."""

    deadline: float = float("inf")
    given_up: bool = False

    def check(self, what: str) -> None:
        """Raise DeadlineError if nobody waits for `what` any more."""
        if self.given_up:
            raise DeadlineError(f"nobody waits for {what} any more")
        if time.monotonic() >= self.deadline:
            raise DeadlineError(f"{what} was not done within the time it was given; ask for less, or allow more time")


_patience: ContextVar[Patience] = ContextVar("patience", default=Patience())  # noqa: B039 - nobody changes this one


def patience() -> Patience:
    """That of whoever waits for what this thread does; without `waiting_for` it has no end."""
    return _patience.get()


@contextmanager
def waiting_for(patience: Patience) -> Iterator[None]:
    """What is decoded and scored inside, on this thread, is only begun while somebody waits for it."""
    token = _patience.set(patience)
    try:
        yield
    finally:
        _patience.reset(token)
