"""The store of a folder with its index."""

import pytest

from diptych.errors import StoreError
from diptych.store.open import open_store
from diptych.store.sqlite.backend import SqliteBackend


def test_opened_without_a_model_it_is_looked_after_and_not_searched(collection):
    ids = [record.id for record in collection.list()]
    collection.close()
    with open_store(collection.directory) as store:
        assert isinstance(store, SqliteBackend)
        assert store.remove(ids[:1]) == [True]
        assert store.verify().healthy
        assert store.index_facts()["kind"] == "exact"
        with pytest.raises(StoreError, match="was opened without a model and cannot be searched"):
            store.indexed()


def test_what_was_removed_without_a_model_is_found_no_more(collection, scorer, gallery):
    (match,) = collection.search(gallery / "01.jpg", top=1, candidates=0).matches
    collection.close()
    with open_store(collection.directory) as store:
        store.remove([match.id])
    with SqliteBackend.searchable(collection.directory, scorer.runtime) as store:
        assert store.indexed()[0] == 11
        assert match.id not in store.known([match.id])


def test_a_damaged_embedding_is_never_given_out(collection):
    (record, *_) = collection.list()
    assert set(collection.store.embeddings_of([record.id, "f" * 32])) == {record.id}
    with collection.store._transaction() as connection:
        connection.execute("UPDATE pictures SET embedding=zeroblob(40) WHERE id=?", (record.id,))
    with pytest.raises(StoreError, match="its embedding has another checksum"):
        collection.store.embeddings_of([record.id])


def test_a_search_whose_candidates_have_no_row_makes_the_index_anew(collection, gallery, caplog):
    (match,) = collection.search(gallery / "01.jpg", top=1, candidates=0).matches
    with collection.store._transaction() as connection:  # of which the journal says nothing
        connection.execute("DELETE FROM pictures WHERE id=?", (match.id,))
    found = collection.search(gallery / "01.jpg", top=12, candidates=0).matches
    assert [match.first_rank for match in found] == list(range(11))
    assert "the index has pictures that the database has not; it is made anew" in caplog.text
    assert collection.store.indexed()[0] == 11


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
    monkeypatch.setattr(index, "relayout", None)
    assert len(collection.search(gallery / "01.jpg", top=12, candidates=3).matches) == 11
