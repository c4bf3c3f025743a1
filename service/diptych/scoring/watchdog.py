"""The watchdog: the time since the oldest computation in progress began, by which a hang shows."""

from __future__ import annotations

import time
from threading import get_ident


class Watchdog:
    """`with running: ...` in any number of threads, not nested in one."""

    def __init__(self) -> None:
        self._began = dict[int, float]()

    def __enter__(self) -> Watchdog:
        self._began[get_ident()] = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        del self._began[get_ident()]

    def longest_running(self) -> float:
        """Seconds since the longest-running thread began; 0.0 when none runs."""
        began = list(self._began.values())
        return time.monotonic() - min(began) if began else 0.0
