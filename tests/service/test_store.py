import os
import sqlite3

import numpy as np
import pytest

from diptych.errors import StoreError
from diptych.records import NewPicture
from diptych.store import Store


def new(number: int, **changes) -> NewPicture:
    id = f"{number:032x}"
    values = {
        "id": id,
        "sha256": id * 2,
        "path": f"/pictures/{number}.jpg",
        "media_type": "image/jpeg",
        "width": 31,
        "height": 17,
        "metadata": {"number": number},
        "revision": "r1",
        "embedding": np.full(3, number, "<f4").tobytes(),
        "tokens": np.full(5, number, "<f2").tobytes(),
        "data": None,
    }
    return NewPicture(**{**values, **changes})


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store", create=True) as store:
        yield store


def test_a_row_comes_back_as_it_was_written(store):
    assert store.insert([new(1), new(2, data=b"bytes", path=None)]) == [True, True]
    record = store.get(new(1).id)
    assert (record.path, record.width, record.height, record.metadata) == ("/pictures/1.jpg", 31, 17, {"number": 1})
    assert (record.bytes_kept, record.media_type, record.revision) == (False, "image/jpeg", "r1")
    assert record.added.endswith("+00:00")
    assert store.get(new(2).id).bytes_kept
    assert store.data(new(2).id) == b"bytes"
    assert store.tokens([1, 2, 99]) == {1: new(1).tokens, 2: new(2).tokens}
    assert store.get("none") is None


def test_the_same_picture_twice_is_one_row_that_keeps_what_it_has_and_gains_what_it_lacked(store):
    store.insert([new(1, path=None)])
    assert store.insert([new(1, path="/a", data=b"first"), new(1, path="/b", data=b"second")]) == [False, False]
    assert store.count() == 1
    assert store.get(new(1).id).path == "/a"
    assert store.data(new(1).id) == b"first"
    assert store.sequence() == 1, "what an index need not know is no change"


def test_the_journal_grows_with_every_addition_and_removal_and_shows_the_present_state(store):
    store.insert([new(1), new(2)])
    assert store.remove([new(1).id, "none"]) == [True, False]
    assert [(change.sequence, change.row, change.embedding is None) for change in store.changes(0, 10)] == [
        (1, 1, True),
        (2, 2, False),
        (3, 1, True),
    ]
    assert [change.sequence for change in store.changes(1, 1)] == [2]


def test_a_row_number_is_never_given_twice(store):
    store.insert([new(1)])
    store.remove([new(1).id])
    store.insert([new(1)])
    assert [change.row for change in store.changes(0, 10)] == [1, 1, 2]


def test_pages_follow_each_other_without_gap_or_overlap(store):
    store.insert([new(number) for number in range(7)])
    first = store.page(3)
    second = store.page(3, first[-1].id)
    third = store.page(3, second[-1].id)
    assert [record.id for record in first + second + third] == [new(number).id for number in range(7)]


def test_a_folder_names_what_lies_beneath_it_and_nothing_beside_it(store):
    paths = ["/a/b", "/a/b/1.jpg", "/a/b/c/2.jpg", "/a/b.jpg", "/a/b0", "/a/bb/3.jpg"]
    store.insert([new(number, path=path) for number, path in enumerate(paths)])
    assert store.under("/a/b/") == [new(1).id, new(2).id]
    assert store.under("/a/b") == [new(0).id, new(1).id, new(2).id]
    assert store.under("/a/b.jpg") == [new(3).id]


def test_a_failed_transaction_leaves_nothing_behind(store):
    with pytest.raises(StoreError, match="NOT NULL"):
        store.insert([new(1), new(2, media_type=None)])
    assert store.count() == store.sequence() == 0
    assert store.insert([new(1)]) == [True]


def test_a_second_writer_is_refused_by_the_number_of_the_first(store):
    with pytest.raises(StoreError, match=rf"being written by process {os.getpid()}"):
        Store.open(store.directory)


def test_the_next_writer_gets_in_when_the_first_is_gone(tmp_path):
    Store.open(tmp_path, create=True).close()
    with Store.open(tmp_path) as store:
        assert store.insert([new(1)]) == [True]


def test_a_reader_sees_what_the_writer_commits_and_may_not_write(store):
    store.insert([new(1)])
    with Store.open(store.directory, read_only=True) as reader:
        assert reader.count() == 1
        store.insert([new(2)])
        assert reader.count() == 2
        with pytest.raises(StoreError, match="opened for reading only"):
            reader.remove([new(1).id])


def test_a_reader_needs_no_writer(tmp_path):
    with Store.open(tmp_path, create=True) as store:
        store.insert([new(1)])
    with Store.open(tmp_path, read_only=True) as reader:
        assert reader.count() == 1


def test_a_folder_without_a_collection_is_refused_with_the_command_that_makes_one(tmp_path):
    for read_only in (False, True):
        with pytest.raises(StoreError, match=r"holds no collection; make one with `diptych index add --store"):
            Store.open(tmp_path / "nothing", read_only=read_only)
    assert not (tmp_path / "nothing").exists()


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "collection.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(StoreError, match="is not a Diptych collection"):
        Store.open(tmp_path, create=True)


def test_a_file_that_is_no_database_is_refused(tmp_path):
    (tmp_path / "collection.sqlite").write_bytes(b"not a database at all, but long enough to look like one" * 9)
    with pytest.raises(StoreError, match="file is not a database"):
        Store.open(tmp_path)


def test_a_newer_format_is_refused_with_a_way_out(tmp_path):
    Store.open(tmp_path, create=True).close()
    with sqlite3.connect(tmp_path / "collection.sqlite") as connection:
        connection.execute("PRAGMA user_version=9")
    connection.close()
    with pytest.raises(StoreError, match="format version 9, and this Diptych reads version 1"):
        Store.open(tmp_path)


def test_writes_are_synchronous_and_in_a_write_ahead_log(store):
    with store._connection() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_closed_store_says_so(tmp_path):
    store = Store.open(tmp_path, create=True)
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.count()
