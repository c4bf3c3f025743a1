"""The watchdog: the time since the oldest computation in progress began, by which a hang shows."""

from __future__ import annotations

import time
from threading import get_ident

LATE = 1.0  # seconds by which a tick may be late on a busy machine


class Clock:
    """Seconds that this process has run: it stands still while the process is stopped (SIGSTOP, `docker pause`), for
    as long as somebody calls `tick` in time.
    """

    def __init__(self) -> None:
        self._stopped, self._ticked = 0.0, time.monotonic()

    def now(self) -> float:
        """Seconds since some moment in the past."""
        return time.monotonic() - self._stopped

    def tick(self, seconds: float) -> None:
        """Say that `seconds` after the last call was when this one was to come."""
        now = time.monotonic()
        late, self._ticked = now - self._ticked - seconds, now
        if late > LATE:
            self._stopped += late


CLOCK = Clock()


class Watchdog:
    """`with running: ...` in any number of threads, not nested in one."""

    def __init__(self, clock: Clock = CLOCK) -> None:
        self._clock, self._began = clock, dict[int, float]()

    def __enter__(self) -> Watchdog:
        self._began[get_ident()] = self._clock.now()
        return self

    def __exit__(self, *_: object) -> None:
        del self._began[get_ident()]

    def longest_running(self) -> float:
        """Seconds since the longest-running thread began; 0.0 when none runs."""
        began = list(self._began.values())
        return self._clock.now() - min(began) if began else 0.0
