"""Computing beside the event loop: a few threads, a short queue, and a refusal when it is full or nobody waits."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from diptych.errors import DeadlineError, OverloadedError
from diptych.scoring.deadline import Deadline, deadline_scope
from diptych.scoring.scheduler import Watchdog

T = TypeVar("T")


class RequestPool:
    """Runs functions in at most `workers` threads at once and lets at most `waiting` more queue for one.

    Each has `seconds`, after which, as after its caller has gone away, it is not begun any more and none of its pairs
    is. `queued` is told how long each waited for its thread.
    """

    def __init__(
        self,
        workers: int,
        waiting: int,
        seconds: float = math.inf,
        queued: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.workers, self.waiting, self.seconds = workers, waiting, seconds
        self._queued = queued
        self._limiter = anyio.CapacityLimiter(workers)
        self._admitted = 0
        self._running = Watchdog()
        self._mean = 1.0

    async def run(
        self, function: Callable[[], T], request: Request | None = None, *, seconds: float | None = None
    ) -> T:
        """The function's value, computed in a thread; a `request` whose body is read is watched for its caller.

        It has `seconds`, if they are given, in place of those of all; all that is run for one request has them
        together. Raises OverloadedError when the queue is full, and DeadlineError.
        """
        if self._admitted >= self.workers + self.waiting:
            pause = min(60, math.ceil(self._mean * self._admitted / self.workers))
            text = f"{self._admitted} requests are being worked on or waiting; try again in {pause} s."
            raise OverloadedError(text, seconds=pause)
        asked, seconds = time.monotonic(), self.seconds if seconds is None else seconds
        end = asked + seconds
        if request is not None:
            end = request.scope.setdefault("state", {}).setdefault("deadline", end)
        deadline = Deadline(end)
        watching = None if request is None else asyncio.create_task(_watch_caller(request, deadline))
        self._admitted += 1
        try:
            # Only waiting for a thread is broken off here: what runs looks at its deadline itself.
            with anyio.fail_after(None if math.isinf(end) else max(0.0, end - asked)):
                return await anyio.to_thread.run_sync(self._run_timed, function, deadline, asked, limiter=self._limiter)
        except TimeoutError:
            text = f"the request was not begun within {seconds:g} s; try again later, or ask for less"
            raise DeadlineError(text) from None
        finally:
            self._admitted -= 1
            if watching is not None:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    def longest_running(self) -> float:
        """Seconds since the longest-running function began; 0.0 when none runs."""
        return self._running.longest_running()

    def _run_timed(self, function: Callable[[], T], deadline: Deadline, asked: float) -> T:
        began = time.monotonic()
        self._queued(began - asked)
        try:
            deadline.check("the request")
            with self._running, deadline_scope(deadline):
                return function()
        finally:
            self._mean = 0.8 * self._mean + 0.2 * (time.monotonic() - began)


async def _watch_caller(request: Request, deadline: Deadline) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    deadline.cancelled = True
