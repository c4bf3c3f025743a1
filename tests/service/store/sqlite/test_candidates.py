import json
import logging
import os
import re
import struct
import threading

import numpy as np
import pytest
from embedded import SIZE, new, tamper, unit

from diptych.store.sqlite.candidates import CandidateIndex
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CACHE, MANIFEST, cache_digest


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        store.insert([new(number) for number in range(1, 8)])
        yield store


def opened(store: Store) -> CandidateIndex:
    return CandidateIndex.open(store, SIZE, "r")


def saved(store: Store) -> CandidateIndex:
    index = CandidateIndex.rebuilt(store, SIZE, "r")
    index.save(store.directory)
    return index


def rows(index: CandidateIndex, count: int = 100) -> list[int]:
    return sorted(index.search(unit(1), count)[0].tolist())


def test_replaying_twice_makes_no_duplicates(store):
    index = CandidateIndex.rebuilt(store, SIZE, "r")
    index.generation = 0
    index.catch_up(store)
    assert rows(index) == [1, 2, 3, 4, 5, 6, 7]
    assert len(index) == 7


def test_a_right_cache_is_loaded_without_a_word_and_newer_changes_are_replayed(store, caplog):
    saved(store)
    store.insert([new(8)])
    store.remove([new(2).id, new(8).id])
    store.insert([new(9)])
    with caplog.at_level(logging.WARNING):
        index = opened(store)
    assert rows(index) == [1, 3, 4, 5, 6, 7, 9]
    assert not caplog.records
    assert index.saved_generation == 7
    assert index.generation == store.sequence()


def flip_a_bit(directory):
    data = bytearray((directory / CACHE).read_bytes())
    data[len(data) // 2] ^= 4
    (directory / CACHE).write_bytes(data)


def write_lists(directory):
    """A cache in several lists, as versions before 0.3 wrote it of large collections, with a digest that is right."""
    data = bytearray((directory / CACHE).read_bytes())
    struct.pack_into("<q", data, 16, 2)
    (directory / CACHE).write_bytes(data)
    change_manifest("lists", 2)(directory)


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


def change_manifest(key, value, *, signed=True):
    def change(directory):
        manifest = json.loads((directory / MANIFEST).read_text())
        manifest[key] = value
        if signed:
            manifest["sha256"] = cache_digest(directory, manifest)
        (directory / MANIFEST).write_text(json.dumps(manifest))

    return change


DAMAGE = {
    "checksum is wrong": flip_a_bit,
    "it cannot be read": lambda directory: (directory / CACHE).unlink(),
    r"it cannot be read \(candidates.faiss is no file": lambda directory: make_pipe(directory / CACHE),
    r"manifest cannot be read \(.*is no file": lambda directory: make_pipe(directory / MANIFEST),
    "it is missing": lambda directory: (directory / MANIFEST).unlink(),
    "manifest cannot be read": lambda directory: (directory / MANIFEST).write_bytes(b"{"),
    "manifest is damaged": change_manifest("count", None),
    "made for revision 'old'": change_manifest("revision", "old"),
    "made for identity 'other'": change_manifest("identity", "other"),
    r"cannot be read \(it has several lists, as of an earlier version\)": write_lists,
    "made for format None": change_manifest("format", None),
    "(?:)checksum is wrong": change_manifest("generation", 3, signed=False),
    "ahead of the database": change_manifest("generation", 99),
    "it has 7 entries and 7 labels, expected 6": change_manifest("count", 6),
}


@pytest.mark.parametrize("reason", DAMAGE)
def test_a_damaged_or_foreign_cache_is_noticed_and_rebuilt_and_that_is_said_once(store, caplog, reason):
    saved(store)
    DAMAGE[reason](store.directory)
    with caplog.at_level(logging.WARNING):
        index = opened(store)
    assert rows(index) == [1, 2, 3, 4, 5, 6, 7]
    (record,) = caplog.records
    assert "rebuilt from the database (7)" in record.message
    assert re.search(reason, record.message)


def test_a_cache_that_missed_a_removal_is_found_out_by_its_count(store, caplog):
    saved(store)
    tamper(store, "DELETE FROM pictures WHERE row=4")
    with caplog.at_level(logging.WARNING):
        assert rows(opened(store)) == [1, 2, 3, 5, 6, 7]
    assert "7 entries after the replay and the database 6" in caplog.text


def test_an_embedding_that_is_not_finite_is_left_out_and_named(store, caplog):
    tamper(store, "UPDATE pictures SET embedding=? WHERE row=3", np.full(SIZE, np.nan, "<f4").tobytes())
    with caplog.at_level(logging.WARNING):
        index = CandidateIndex.rebuilt(store, SIZE, "r")
    assert rows(index) == [1, 2, 4, 5, 6, 7]
    assert "1 embeddings are damaged" in caplog.text


def test_a_cache_of_other_pictures_is_found_out_though_number_and_count_are_right(store, caplog):
    saved(store)
    tamper(store, "UPDATE pictures SET embedding=? WHERE row=3", unit(30).tobytes())
    tamper(store, "UPDATE digests SET embedding=crc32(?) WHERE row=3", unit(30).tobytes())
    with caplog.at_level(logging.WARNING):
        index = opened(store)
    assert index.search(unit(30), 1)[0].tolist() == [3]
    assert "1 of its entries are not the database's, the first of row 3; rebuilt" in caplog.text


def test_searches_adds_and_removals_go_on_while_it_is_made_anew_and_nothing_is_lost_or_comes_back(store):
    store.insert([new(number) for number in range(8, 201)])
    index = opened(store)
    over, faults, gone = threading.Event(), [], set()
    steady = set(range(101, 201))

    def repeat_in_thread(work):
        def run():
            try:
                while not over.is_set():
                    work()
            except Exception as error:
                faults.append(repr(error))

        return threading.Thread(target=run)

    def search():
        before = set(gone)
        found = set(rows(index, 10_000))
        if not steady <= found:
            faults.append(f"{sorted(steady - found)} were not found")
        if before & found:
            faults.append(f"{sorted(before & found)} came back")

    threads = [repeat_in_thread(search), repeat_in_thread(search), repeat_in_thread(lambda: index.refill(store))]
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
    assert rows(index, 10_000) == list(range(101, 301))
