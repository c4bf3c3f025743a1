"""Scores of pairs and views of pictures that searches for duplicates keep between requests, and their turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakKeyDictionary, finalize

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.errors import DeadlineError
from diptych.scoring.view_cache import ViewCache


class PairCaches:
    """One ledger a collection: beside it on the disk, or, where that may not be written, in memory.

    The `views` of pictures are those of all collections, and held while there are closer looks to be taken.

    One request at a time searches a collection: two would score the same pairs.
    """

    def __init__(self) -> None:
        self._turns: WeakKeyDictionary[Collection, asyncio.Lock] = WeakKeyDictionary()
        self._memory: WeakKeyDictionary[Collection, PairCache] = WeakKeyDictionary()
        self.views = ViewCache()

    @asynccontextmanager
    async def turn(self, collection: Collection, seconds: float) -> AsyncIterator[None]:
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
    def of(self, collection: Collection) -> Iterator[PairCache]:
        """The ledger of a collection, for whose turn it is. Raises DedupeError."""
        revision = collection.scorer.runtime.scores_revision
        folder = collection.backend.folder
        if folder is not None and not collection.backend.read_only:
            with PairCache(folder / LEDGER, revision) as ledger:
                yield ledger
            return
        if collection not in self._memory:
            ledger = self._memory[collection] = PairCache(None, revision)
            finalize(collection, ledger.close)
        yield self._memory[collection]
