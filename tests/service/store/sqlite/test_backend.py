"""The store of a folder with its index."""

import pytest

from diptych.errors import StoreError
from diptych.store.backend import opened
from diptych.store.sqlite.backend import Local


def test_opened_without_a_model_it_is_looked_after_and_not_searched(collection):
    ids = [record.id for record in collection.list()]
    collection.close()
    with opened(collection.directory) as store:
        assert isinstance(store, Local)
        assert store.remove(ids[:1]) == [True]
        assert store.verify().healthy
        assert store.index_facts()["kind"] == "exact"
        with pytest.raises(StoreError, match="was opened without a model and cannot be searched"):
            store.indexed()


def test_what_was_removed_without_a_model_is_found_no_more(collection, scorer, gallery):
    (match,) = collection.search(gallery / "01.jpg", top=1, candidates=0).matches
    collection.close()
    with opened(collection.directory) as store:
        store.remove([match.id])
    with Local.searchable(collection.directory, scorer.runtime) as store:
        assert store.indexed()[0] == 11
        assert match.id not in store.known([match.id])


def test_a_damaged_embedding_is_never_given_out(collection):
    (record, *_) = collection.list()
    assert set(collection.store.embeddings_of([record.id, "f" * 32])) == {record.id}
    with collection.store._transaction() as connection:
        connection.execute("UPDATE pictures SET embedding=zeroblob(40) WHERE id=?", (record.id,))
    with pytest.raises(StoreError, match="its embedding has another checksum"):
        collection.store.embeddings_of([record.id])
