"""Who keeps the scores of a search for duplicates, and in whose turn."""

from __future__ import annotations

import asyncio
import gc

import numpy as np
import pytest

from diptych import Collection
from diptych.dedupe.pair_cache import LEDGER
from diptych.errors import DeadlineError, DedupeError
from diptych.http.context import PairCaches

PAIR = ("0" * 32, "1" * 32)


def test_a_collection_has_one_searcher_at_a_time_and_another_collection_its_own(collection, shelf):
    ledgers, events = PairCaches(), []

    async def search(name, where):
        async with ledgers.turn(where, 10):
            events.append(f"{name} begins")
            await asyncio.sleep(0.05)
            events.append(f"{name} ends")

    async def all_of_them():
        await asyncio.gather(search("a", collection), search("b", collection), search("other", shelf))

    asyncio.run(all_of_them())
    assert [event for event in events if "other" not in event] == ["a begins", "a ends", "b begins", "b ends"]
    assert events.index("other begins") < events.index("a ends")


def test_who_waits_too_long_is_told_so_and_leaves_the_turn_to_others(collection):
    ledgers = PairCaches()

    async def impatient():
        async with ledgers.turn(collection, 10):
            with pytest.raises(DeadlineError, match=r"for more than 0\.01 s; try again later"):
                async with ledgers.turn(collection, 0.01):
                    pytest.fail("two had the turn")
        async with ledgers.turn(collection, 0.01):
            return True

    assert asyncio.run(impatient())


def test_scores_are_beside_a_collection_that_can_be_written(collection):
    for ledgers in (PairCaches(), PairCaches()):
        with ledgers.of(collection) as ledger:
            ledger.add_scores([PAIR], np.array([1.5], np.float32), "copy")
    assert (collection.directory / LEDGER).exists()
    with PairCaches().of(collection) as ledger:
        assert ledger.scores(PAIR, "copy")[1].tolist() == [1.5]


def test_scores_of_a_collection_that_is_only_read_are_in_memory_as_long_as_it_is_there(collection):
    ledgers = PairCaches()
    reading = Collection.open(collection.directory, collection.scorer, read_only=True)
    with ledgers.of(reading) as ledger:
        ledger.add_scores([PAIR], np.array([1.5], np.float32), "copy")
    with ledgers.of(reading) as again:
        assert again.scores(PAIR, "copy")[1].tolist() == [1.5]
    assert not (collection.directory / LEDGER).exists()
    reading.close()
    del reading
    gc.collect()
    with pytest.raises(DedupeError, match="closed"):
        again.scores(PAIR, "copy")
