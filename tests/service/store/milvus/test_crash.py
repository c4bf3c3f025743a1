"""A server that is killed while pictures are added: nothing acknowledged is lost, nothing false is found."""

from __future__ import annotations

import threading
import time

import numpy as np

from diptych import Collection, Scorer
from diptych.errors import StoreError, UnreachableError

CYCLES, WRITERS = 3, 2


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(server, scorer, photo_bytes, tmp_path):
    place = server.place("crashed", originals=tmp_path / "originals")
    Collection.open(place, scorer, create=True).close()
    there: dict[str, int] = {}
    removed: set[str] = set()
    for cycle in range(CYCLES):
        over = threading.Event()

        def write(number: int, cycle: int = cycle, over: threading.Event = over) -> None:
            with Collection.open(place, scorer) as collection:
                seed = 1000 * cycle + 10_000 * number
                while not over.is_set():
                    seed += 1
                    try:
                        id = collection.add(photo_bytes(seed), metadata={"seed": seed})[0].id
                        there[id] = seed
                        if seed % 5 == 0:
                            del there[id]
                            if collection.remove(id):
                                removed.add(id)
                    except StoreError:
                        return

        threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        before = len(there)
        while len(there) < before + 12:
            assert any(thread.is_alive() for thread in threads)
            over.wait(0.05)
        server.kill()
        over.set()
        for thread in threads:
            thread.join(60)
        server.start()
        with recovered(place, scorer) as collection:
            records = {record.id: record.metadata["seed"] for record in collection.list(100_000)}
            assert {id: records.get(id) for id in there} == there
            assert not removed & records.keys()
            assert collection.verify().problems == []
            for seed in list(there.values())[-4:]:
                data = photo_bytes(seed)
                found = collection.search(data, top=3, candidates=3)
                assert any(match.metadata["seed"] == seed for match in found.matches)
                tokens, embedding = collection.panel(collection.add(data)[0].id)
                fresh = scorer.panels([data])
                assert np.array_equal(tokens, fresh.tokens[0].astype("<f2"))
                assert np.array_equal(embedding, fresh.embeddings[0])
    assert len(there) >= 12 * CYCLES


def recovered(place: str, scorer: Scorer) -> Collection:
    """The collection, as soon as its server, which answers before that, has read its log."""
    end = time.monotonic() + 120
    while True:
        try:
            return Collection.open(place, scorer)
        except UnreachableError:
            assert time.monotonic() < end
