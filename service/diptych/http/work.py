"""Computing beside the event loop: a few threads, a short queue, and 429 when it is full."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.to_thread

from diptych.http.errors import RequestError

T = TypeVar("T")


class Work:
    """Runs functions in at most `workers` threads at once and lets at most `waiting` more queue for one."""

    def __init__(self, workers: int, waiting: int) -> None:
        self.workers, self.waiting = workers, waiting
        self._limiter = anyio.CapacityLimiter(workers)
        self._admitted = 0
        self._running: dict[object, float] = {}
        self._seconds = 1.0

    async def run(self, function: Callable[[], T]) -> T:
        """The function's value, computed in a thread. Raises RequestError: 429, when the queue is full."""
        if self._admitted >= self.workers + self.waiting:
            seconds = min(60, math.ceil(self._seconds * self._admitted / self.workers))
            raise RequestError(
                429,
                "overloaded",
                f"{self._admitted} requests are being worked on or waiting; try again in {seconds} s.",
                headers={"Retry-After": str(seconds)},
            )
        self._admitted += 1
        try:
            return await anyio.to_thread.run_sync(self._timed, function, limiter=self._limiter)
        finally:
            self._admitted -= 1

    def oldest(self) -> float:
        """Seconds since the longest-running function began; 0.0 when none runs."""
        began = list(self._running.values())
        return time.monotonic() - min(began) if began else 0.0

    def _timed(self, function: Callable[[], T]) -> T:
        token, began = object(), time.monotonic()
        self._running[token] = began
        try:
            return function()
        finally:
            del self._running[token]
            self._seconds = 0.8 * self._seconds + 0.2 * (time.monotonic() - began)
