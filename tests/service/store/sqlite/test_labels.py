"""Labelled pairs in the database of a collection."""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from embedded import BEFORE_5, tamper

from diptych.errors import StoreError
from diptych.store.records import NewLabel
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.backup import back_up_collection, restore_collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import VERSION
from diptych.store.sqlite.verify import verify_store

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def store(collection):
    return collection.store


def answers(store: Store, question: str | None = None) -> list[tuple[str, str, str, str]]:
    return [(one.a, one.b, one.question, one.answer) for one in store.labels(question)]


def test_the_latest_answer_to_a_question_about_a_pair_counts_in_either_order_and_taking_it_back_brings_the_former(
    store,
):
    store.add_labels(
        [NewLabel(B, A, "copy", "same"), NewLabel(A, B, "thing", "same"), NewLabel(A, C, "copy", "different")]
    )
    store.add_labels([NewLabel(A, B, "copy", "cannot tell")])
    assert answers(store, "copy") == [(A, C, "copy", "different"), (A, B, "copy", "cannot tell")]
    assert answers(store) == [(A, B, "thing", "same"), *answers(store, "copy")]
    assert store.take_back_label(B, A, "copy")
    assert answers(store, "copy") == [(A, B, "copy", "same"), (A, C, "copy", "different")]
    assert store.take_back_label(A, B, "copy")
    assert not store.take_back_label(A, B, "copy")
    assert answers(store) == [(A, B, "thing", "same"), (A, C, "copy", "different")]


def test_page_by_page_there_is_the_same_as_at_once_whatever_is_answered_meanwhile(store):
    ids = [f"{number:032x}" for number in range(30)]
    for answer in ("same", "different"):
        store.add_labels([NewLabel(A, id, "copy", answer) for id in ids[::2]])
        store.add_labels([NewLabel(B, id, "thing", answer) for id in ids[::3]])
    store.add_labels([NewLabel(C, id, "copy", "cannot tell") for id in ids])
    for question in ("copy", "thing", None):
        at_once = store.labels(question)
        assert len(at_once) == {"copy": 45, "thing": 10, None: 55}[question]
        pages = list(store.label_pages(7, question))
        assert [len(page) for page in pages[:-1]] == [7] * (len(pages) - 1)
        assert [one for page in pages for one in page] == at_once
        assert store.label_counts(question) == Counter(one.answer for one in at_once)
        assert store.labelled_pairs("copy") == [one.pair for one in store.labels("copy")]
    assert {store.label_of(one.b, one.a, one.question) for one in at_once} == set(at_once)
    assert store.label_of(A, B, "copy") is None
    pages = store.label_pages(7)
    first = next(pages)
    store.add_labels([NewLabel(one.a, one.b, one.question, "cannot tell") for one in first])
    assert [*first, *(one for page in pages for one in page)] == at_once


def test_a_label_has_its_time_and_the_paths_of_its_pictures(store):
    one, two = sorted(store.page(2), key=lambda record: record.id)
    store.add_labels(
        [NewLabel(two.id, one.id, "copy", "same"), NewLabel(one.id, A, "copy", "same", "2020-02-02T00:00:00+00:00")]
    )
    first, second = store.labels()
    assert (first.path_a, first.path_b) == (one.path, two.path)
    assert first.added.endswith("+00:00")
    assert second.added == "2020-02-02T00:00:00+00:00"
    assert {second.path_a, second.path_b} == {one.path, None}


def test_labels_outlive_a_picture_that_is_removed_and_are_its_again_when_it_is_added(collection):
    one, two = sorted(collection.list(2), key=lambda record: record.id)
    collection.store.add_labels([NewLabel(one.id, two.id, "copy", "same")])
    collection.remove(one.id)
    assert collection.store.labels()[0].path_a is None
    assert collection.store.labels()[0].path_b == two.path
    assert collection.add(one.path)[0].id == one.id
    assert collection.store.labels()[0].path_a == one.path


def test_answers_that_are_none_and_pairs_of_one_picture_are_refused_and_nothing_is_written(store):
    with pytest.raises(ValueError, match="expected an answer of 'same', 'different', 'cannot tell', got 'maybe'"):
        store.add_labels([NewLabel(A, B, "copy", "same"), NewLabel(A, C, "copy", "maybe")])  # type: ignore
    with pytest.raises(ValueError, match="a label is of two pictures"):
        store.add_labels([NewLabel(A, A, "copy", "same")])
    assert store.labels() == []


def test_a_damaged_label_is_left_out_and_named_by_verify(store, caplog):
    store.add_labels([NewLabel(A, B, "copy", "same"), NewLabel(A, C, "copy", "same")])
    assert verify_store(store).problems == []
    tamper(store, "UPDATE labels SET answer='different' WHERE sequence=1")
    assert answers(store) == [(A, C, "copy", "same")]
    assert "label 1 is damaged and left out" in caplog.text
    assert verify_store(store).problems == ["label 1: it has another checksum; label its pair again"]


def test_a_backup_has_the_labels_and_a_restore_that_would_lose_some_is_refused(collection, tmp_path):
    store = collection.store
    store.add_labels([NewLabel(A, B, "copy", "same")])
    back_up_collection(store, tmp_path / "copy")
    store.add_labels([NewLabel(A, C, "copy", "same")])
    collection.close()
    with SqliteBackend.open(tmp_path / "copy", read_only=True) as copy:
        assert answers(copy) == [(A, B, "copy", "same")]
        with pytest.raises(StoreError, match="holds 1 label that the backup"):
            restore_collection(copy, store.directory)
        restore_collection(copy, store.directory, replace=True)
    with Store.open(store.directory) as again:
        assert answers(again) == [(A, B, "copy", "same")]


@pytest.fixture
def old(collection, tmp_path):
    """A collection of format version 2, which had no labels."""
    back_up_collection(collection.store, tmp_path / "old")
    with closing(sqlite3.connect(tmp_path / "old" / "collection.sqlite")) as connection:
        connection.executescript(f"{BEFORE_5} DROP TABLE labels; PRAGMA user_version=2;")
    return tmp_path / "old"


def version(folder) -> int:
    with closing(sqlite3.connect(folder / "collection.sqlite")) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_a_store_without_labels_opens_for_reading_as_it_is_and_a_writer_gives_it_the_table(old):
    with Store.open(old, read_only=True) as reader:
        assert reader.labels() == []
        assert verify_store(reader).healthy
        assert version(old) == 2
        with Store.open(old) as writer:
            writer.add_labels([NewLabel(A, B, "copy", "same")])
            assert answers(writer) == [(A, B, "copy", "same")]
            assert len(writer.page(100)) == 12
    assert version(old) == VERSION


def test_a_backup_without_labels_is_brought_to_the_present_format_by_a_restore(old, tmp_path):
    with SqliteBackend.open(old, read_only=True) as copy:
        restore_collection(copy, tmp_path / "new")
    assert version(tmp_path / "new") == VERSION
    shutil.rmtree(old)
    with Store.open(tmp_path / "new") as store:
        assert len(store.page(100)) == 12
        assert store.labels() == []
