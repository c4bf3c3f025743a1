"""The connections to the database of a collection."""

from __future__ import annotations

import pytest
from embedded import new

from diptych.errors import StoreError
from diptych.store.sqlite.database import Store


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


@pytest.mark.parametrize("replace", [True, False])
def test_a_database_that_was_replaced_or_taken_away_in_use_takes_nothing_more(store, replace, tmp_path):
    store.insert([new(1)])
    if replace:
        with Store.open(tmp_path / "other", create=True) as other:
            other.insert([new(2)])
        (tmp_path / "other" / store.path.name).replace(store.path)
    else:
        store.path.unlink()
    with pytest.raises(
        StoreError, match="was taken away or replaced by another file while it was in use; nothing was wr"
    ):
        store.insert([new(3)])


def test_a_closed_store_says_so(tmp_path):
    store = Store.open(tmp_path, create=True)
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.count()


def test_a_full_disk_is_said_to_be_full_and_not_damaged(store):
    store.insert([new(1)])
    with store.reading() as connection:  # which the next write uses too
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="disk is full; make room and run it again"):
        store.insert([new(number) for number in range(2, 2000)])
    assert store.count() == 1
