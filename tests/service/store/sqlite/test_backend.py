"""The store of a folder with its index."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from embedded import tamper

from diptych import Collection
from diptych.store.sqlite import backend
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CACHE, MANIFEST
from diptych.store.sqlite.verify import verify_store


def test_a_search_whose_candidates_have_no_row_makes_the_index_anew(collection, gallery, caplog):
    (match,) = collection.search(gallery / "01.jpg", top=1, candidates=0).matches
    tamper(collection.store, "DELETE FROM pictures WHERE id=?", match.id)
    found = collection.search(gallery / "01.jpg", top=12, candidates=0).matches
    assert [match.first_rank for match in found] == list(range(1, 12))
    assert "the index has pictures that the database has not; it is made anew" in caplog.text
    assert collection.store.index_state()[0] == 11


def test_a_picture_that_is_removed_while_it_is_found_is_no_reason_to_make_the_index_anew(
    collection, gallery, monkeypatch
):
    store, index = collection.store, collection.index
    search = index.search

    def search_and_remove(*arguments):
        found = search(*arguments)
        monkeypatch.setattr(index, "search", search)
        store.remove([store.records([int(found[0][0])])[int(found[0][0])].id])
        return found

    monkeypatch.setattr(index, "search", search_and_remove)
    monkeypatch.setattr(index, "refill", None)
    assert len(collection.search(gallery / "01.jpg", top=12, candidates=3).matches) == 11


@pytest.fixture
def short_journal(monkeypatch):
    monkeypatch.setattr(backend, "_SAVE_AFTER", 5)
    monkeypatch.setattr(backend, "_JOURNAL", 20)


def churn(collection, photo_bytes, rounds: int) -> set[str]:
    """Add and remove again, and add one in the end; what is there then."""
    for seed in range(1000, 1000 + rounds):
        collection.remove(collection.add(photo_bytes(seed, (8, 8), "PNG"))[0].id)
    collection.add(photo_bytes(999, (8, 8), "PNG"))
    return {record.id for record in collection.list()}


def found(collection, photo_bytes) -> set[str]:
    return {match.id for match in collection.search(photo_bytes(1), top=100, candidates=0).matches}


def test_the_journal_does_not_grow_with_what_was_ever_written(collection, photo_bytes, short_journal):
    churn(collection, photo_bytes, 60)
    assert tamper(collection.store, "SELECT count(*) FROM changes") <= 20 + 5 + 2
    last = tamper(collection.store, "SELECT max(sequence) FROM changes")
    assert last == collection.store.sequence() == 12 + 2 * 60 + 1
    assert collection.verify().healthy


@pytest.fixture
def behind(collection, scorer, photo_bytes, short_journal):
    """A reader that is further behind than the journal goes back, and the ids of what there is."""
    with Collection.open(collection.directory, scorer, read_only=True) as reader:
        assert len(found(reader, photo_bytes)) == 12
        collection.remove(collection.list()[0].id)
        held = churn(collection, photo_bytes, 60)
        assert len(held) == 12
        yield reader, held


def test_searches_of_such_a_reader_that_come_at_once_make_the_index_anew_once(behind, photo_bytes, monkeypatch):
    reader, held = behind
    made, refill = [], reader.index.refill

    def slowly(store):
        made.append(store)
        time.sleep(0.2)
        refill(store)

    monkeypatch.setattr(reader.index, "refill", slowly)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: found(reader, photo_bytes), range(4))) == [held] * 4
    assert len(made) == 1


def test_an_index_cache_that_is_further_behind_than_the_journal_goes_back_is_made_anew(
    collection, scorer, photo_bytes, short_journal
):
    directory = collection.directory
    collection.close()
    older = {name: (directory / name).read_bytes() for name in (CACHE, MANIFEST)}
    with Collection.open(directory, scorer) as again:
        again.remove(again.list()[0].id)
        held = churn(again, photo_bytes, 60)
    for name, data in older.items():
        (directory / name).write_bytes(data)
    with Store.open(directory) as store:
        verdict = verify_store(store)
        assert verdict.healthy
        assert any("further behind than the journal goes back" in remark for remark in verdict.remarks)
    with Collection.open(directory, scorer) as again:
        assert found(again, photo_bytes) == held
        assert not [text for text in again.verify().remarks if "index" in text]
