"""Scoring many pairs of a collection, request by request: each works for some seconds, and keeps what it scored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, finalize

from diptych.collection.collection import Collection
from diptych.dedupe.closer import Stage
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.errors import DeadlineError
from diptych.scoring.view_cache import ViewCache

SECONDS = 3.0  # of scoring for one request, or as many as it took to get there


class PairCaches:
    """The scores of pairs, a cache a collection: beside it on the disk, or, where that may not be written, in memory.

    The `views` of pictures are those of all collections, and held while there are closer looks to be taken.

    One request at a time searches a collection: two would score the same pairs.
    """

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[Collection, asyncio.Lock] = WeakKeyDictionary()
        self._memory: WeakKeyDictionary[Collection, PairCache] = WeakKeyDictionary()
        self.views = ViewCache()

    @asynccontextmanager
    async def wait_turn(self, collection: Collection, seconds: float) -> AsyncIterator[None]:
        """Wait, without a thread, for the turn to search the collection. Raises DeadlineError."""
        lock = self._turns.setdefault(collection, asyncio.Lock())
        try:
            await asyncio.wait_for(lock.acquire(), seconds)
        except TimeoutError:
            raise DeadlineError(
                f"others searched the collection for duplicates for more than {seconds:g} s; try again later"
            ) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def open_cache(self, collection: Collection) -> Iterator[PairCache]:
        """Open the cache of a collection for the request whose turn it is. Raises DedupeError."""
        revision = collection.scorer.runtime.scores_revision
        folder = collection.backend.folder
        if folder is not None and not collection.backend.read_only:
            with PairCache(folder / LEDGER, revision) as cache:
                yield cache
            return
        if collection not in self._memory:
            cache = self._memory[collection] = PairCache(None, revision)
            finalize(collection, cache.close)
        yield self._memory[collection]


class TimeIsUp(Exception):  # noqa: N818 - no error: the next request goes on
    """The end of the time for one request; the scores so far are in the cache."""


@dataclass
class Count:
    """How many are done, of how many in all."""

    done: int = 0
    total: int = 0


class PairProgress:
    """The scoring of pairs that one request does, and the closer looks at those that deserve one.

    It counts the `pairs` that have their score, the `pictures` of a crowd that are described by their keypoints, and
    the `looks` that are taken; `computed` are the pairs that this request scored.
    """

    def __init__(self, most: float) -> None:
        """`most`: seconds that scoring may take at the utmost."""
        self.pairs, self.pictures, self.looks, self.computed = Count(), Count(), Count(), 0
        self._most, self._end, self._began = most, 0.0, time.monotonic()
        self._scoring: float | None = None

    def begin(self, stage: Stage, missing: int, known: int) -> Callable[[int], object]:
        """The callback of a stage that has so much missing and known (`OnStage`); it raises TimeIsUp."""
        if stage == "pairs":
            now = self._scoring = time.monotonic()
            self.pairs = Count(known, known + missing)
            self._end = now + min(max(SECONDS, now - self._began), self._most)
            return self._add_pairs
        if stage == "keypoints":
            self.pictures = Count(known, known + missing)
            return partial(self._add, self.pictures)
        if stage == "closer_looks":
            self.looks.done += known
            self.looks.total += known + missing
            return partial(self._add, self.looks)
        return lambda done: None  # of groups the answer tells nothing until all are settled

    def to_fields(self) -> dict[str, Any]:
        """The fields of `Pairs` that say how far it is."""
        return {
            "stage": "closer_looks" if self.looks.total else "keypoints" if self.pictures.total else "pairs",
            "scored": self.pairs.done,
            "total": self.pairs.total,
            "keypoints": {"described": self.pictures.done, "total": self.pictures.total},
            "closer_looks": {"taken": self.looks.done, "total": self.looks.total},
        }

    def to_timings(self) -> dict[str, float]:
        """Seconds by stage, until now."""
        now = time.monotonic()
        scoring = now if self._scoring is None else self._scoring
        return {"retrieve": scoring - self._began, "pair": now - scoring}

    def _add_pairs(self, done: int) -> None:
        self.computed += done
        self._add(self.pairs, done)

    def _add(self, count: Count, done: int) -> None:
        count.done += done
        count.total = max(count.total, count.done)  # keepers are compared with more than their candidates
        if time.monotonic() >= self._end:
            raise TimeIsUp
