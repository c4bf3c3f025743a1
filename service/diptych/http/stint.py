"""The scoring of many pairs of a collection, request by request: each works for some seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SECONDS = 3.0  # of scoring for one request, or as many as it took to get there


class TimeIsUp(Exception):  # noqa: N818 - no error: the next request goes on
    """The end of the time for one request; the scores so far are in the cache."""


class Stint:
    """The scoring of pairs that one request does, and the closer looks at those that deserve one (`LookProgress`).

    Of `total` pairs `scored` have their score, of the pictures of a `crowd` `described` are described by their
    keypoints, and of `looks` that are due `taken` are taken; `computed` counts the pairs that this request scored.
    """

    def __init__(self, most: float) -> None:
        """`most`: seconds that scoring may take at the utmost."""
        self.scored = self.total = self.computed = self.taken = self.looks = self.described = self.crowd = 0
        self._most, self._end, self._began = most, 0.0, time.monotonic()
        self._scoring: float | None = None

    def begin(self, missing: int, known: int) -> Stint:
        """Begin the count of pairs, before they are scored; returns the callback of its progress."""
        now = self._scoring = time.monotonic()
        self.scored, self.total = known, known + missing
        self._end = now + min(max(SECONDS, now - self._began), self._most)
        return self

    def __call__(self, done: int, /) -> None:
        """So many more pairs are scored. Raises TimeIsUp."""
        self.scored += done
        self.computed += done
        self.total = max(self.total, self.scored)  # keepers are compared with more than their candidates
        self._check_time()

    def keypoints(self, missing: int, known: int) -> Callable[[int], object]:
        """So many pictures of a crowd are to be described by their keypoints, and so many are; returns the callback of
        their progress.
        """
        self.described, self.crowd = known, known + missing
        return self._describe

    def closer_looks(self, missing: int, known: int) -> Callable[[int], object]:
        """So many more closer looks are due, and so many are taken already; returns the callback of their progress."""
        self.taken += known
        self.looks += known + missing
        return self._look

    def settling(self, groups: int) -> Callable[[int], object]:
        """Of so many groups it is to be decided what goes, of which the answer tells nothing until all are."""
        return lambda done: None

    def progress(self) -> dict[str, Any]:
        """The fields of `Pairs` that say how far it is."""
        stage = "closer_looks" if self.looks else "keypoints" if self.crowd else "pairs"
        keypoints = {"described": self.described, "total": self.crowd}
        looks = {"taken": self.taken, "total": self.looks}
        return {
            "stage": stage,
            "scored": self.scored,
            "total": self.total,
            "keypoints": keypoints,
            "closer_looks": looks,
        }

    def timings(self) -> dict[str, float]:
        """Seconds by stage, until now."""
        now = time.monotonic()
        scoring = now if self._scoring is None else self._scoring
        return {"retrieve": scoring - self._began, "pair": now - scoring}

    def _describe(self, done: int) -> None:
        self.described += done
        self._check_time()

    def _look(self, done: int) -> None:
        self.taken += done
        self._check_time()

    def _check_time(self) -> None:
        if time.monotonic() >= self._end:
            raise TimeIsUp
