"""The scoring of many pairs of a collection, request by request: each works for some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

SECONDS = 3.0  # of scoring for one request, or as many as it took to get there


class TimeIsUp(Exception):  # noqa: N818 - no error: the next request goes on
    """The end of the time for one request; the scores so far are in the cache."""


class Stint:
    """The scoring of pairs that one request does."""

    def __init__(self, most: float) -> None:
        """`most`: seconds that scoring may take at the utmost."""
        self.scored = self.total = self.computed = 0
        self._most, self._end, self._began = most, 0.0, time.monotonic()
        self._scoring: float | None = None

    def begin(self, missing: int, known: int) -> Callable[[int], object]:
        """Begin the count of pairs, before they are scored; returns the callback of its progress."""
        now = self._scoring = time.monotonic()
        self.scored, self.total = known, known + missing
        self._end = now + min(max(SECONDS, now - self._began), self._most)
        return self._tick

    def timings(self) -> dict[str, float]:
        """Seconds by stage, until now."""
        now = time.monotonic()
        scoring = now if self._scoring is None else self._scoring
        return {"retrieve": scoring - self._began, "pair": now - scoring}

    def _tick(self, done: int) -> None:
        self.scored += done
        self.computed += done
        self.total = max(self.total, self.scored)  # keepers are compared with more than their candidates
        if time.monotonic() >= self._end:
            raise TimeIsUp
