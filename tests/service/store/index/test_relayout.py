import logging
import platform
import re
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from embedded import SIZE, new, unit

from diptych import Collection
from diptych.store.index import layout
from diptych.store.index.candidates import CandidateIndex, Relayout
from diptych.store.sqlite.database import Store


def rows(index: CandidateIndex) -> list[int]:
    return sorted(index.search(unit(1), 10_000)[0].tolist())


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        store.insert([new(number) for number in range(1, 201)])
        yield store


@pytest.fixture
def small(monkeypatch):
    """A bound that two hundred pictures are above."""
    monkeypatch.setattr(layout, "MANY", 150)


def renewed(store: Store, index: CandidateIndex, saved: list[int] | None = None) -> None:
    renewal = Relayout(index, store, lambda: (saved if saved is not None else []).append(index.lists))
    renewal.maybe_start()
    renewal.close()


def test_an_index_that_became_large_is_laid_out_in_lists_and_saved_and_one_that_became_small_is_exact(store, small):
    index, saved = CandidateIndex.open(store, SIZE, "r"), []
    assert index.lists == 1, "the start takes the least time"
    renewed(store, index, saved)
    assert saved == [index.lists] == [16]
    renewed(store, index, saved)
    assert saved == [16], "it has not outgrown that"
    store.remove([new(number).id for number in range(1, 141)])
    index.catch_up(store)
    renewed(store, index, saved)
    assert saved == [16, 1]
    assert rows(index) == list(range(141, 201))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the others give memory back by themselves, or keep it")
def test_memory_that_was_freed_between_what_stays_is_given_back(store, small):
    index = CandidateIndex.open(store, SIZE, "r")
    kept = [bytearray(60_000) for _ in range(2000)]
    del kept[::2]
    before = anonymous()
    renewed(store, index)
    assert before - anonymous() > 30e6, f"of 60 MB that lie between {len(kept)} pieces"


def anonymous() -> int:
    """The bytes of memory of this process that no file is behind."""
    return int(re.findall(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024


def test_searches_adds_and_removals_go_on_while_indexes_are_made_and_nothing_is_lost_or_comes_back(store, small):
    index = CandidateIndex.open(store, SIZE, "r")
    over, faults, gone = threading.Event(), [], set()
    steady = set(range(101, 201))

    def guarded(work):
        def run():
            try:
                while not over.is_set():
                    work()
            except Exception as error:
                faults.append(repr(error))

        return threading.Thread(target=run)

    def search():
        before = set(gone)
        found = set(index.search(unit(int(np.random.default_rng().integers(100))), 10_000)[0].tolist())
        if not steady <= found:
            faults.append(f"{sorted(steady - found)} were not found")
        if before & found:
            faults.append(f"{sorted(before & found)} came back")

    threads = [guarded(search), guarded(search), guarded(lambda: index.relayout(store))]
    for thread in threads:
        thread.start()
    for number in range(1, 101):
        store.insert([new(1000 + number)])
        store.remove([new(number).id])
        index.catch_up(store)
        gone.add(number)
    over.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert rows(index) == list(range(101, 301))


def test_a_failure_is_said_once_and_what_there_is_still_answers(store, small, monkeypatch, caplog):
    index = CandidateIndex.open(store, SIZE, "r")

    def fail(*_):
        raise MemoryError("no memory")

    monkeypatch.setattr("diptych.store.index.candidates.find_centroids", fail)
    with closing(Relayout(index, store, lambda: None)) as renewal, caplog.at_level(logging.WARNING):
        for _ in range(3):
            renewal.maybe_start()
            assert renewal._thread is not None
            renewal._thread.join()
    (record,) = [record for record in caplog.records if "not made anew" in record.message]
    assert "no memory" in record.message
    assert len(rows(index)) == 200


def test_a_collection_lays_its_index_out_by_itself_and_keeps_that(collection, scorer, gallery, monkeypatch):
    monkeypatch.setattr(layout, "MANY", 12)
    collection.close()
    for _ in range(2):
        with Collection.open(collection.directory, scorer) as again:
            again.store.renewal.close()
            assert again.stats()["index"]["kind"] == "ivf"
            (match,) = again.search(gallery / "01.jpg", top=1, candidates=0).matches
            assert match.path == str(gallery / "01.jpg")
    with Collection.open(collection.directory, scorer, read_only=True) as reader:
        assert reader.index.lists > 1
