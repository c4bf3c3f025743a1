"""Labelled pairs in the database of a collection."""

from collections import Counter

import pytest
from embedded import tamper

from diptych.store.records import NewLabel
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.verify import verify_store

A, B, C = ("a" * 32, "b" * 32, "c" * 32)


@pytest.fixture
def store(collection):
    return collection.store


def answers(store: Store, question: str | None = None) -> list[tuple[str, str, str, str]]:
    return [(one.a, one.b, one.question, one.answer) for one in store.labels(question)]


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


def test_labels_outlive_a_picture_that_is_removed_and_are_its_again_when_it_is_added(collection):
    one, two = sorted(collection.list(2), key=lambda record: record.id)
    collection.store.add_labels([NewLabel(two.id, one.id, "copy", "same", "2020-02-02T00:00:00+00:00")])
    (label,) = collection.labels()
    assert (label.path_a, label.path_b, label.added) == (one.path, two.path, "2020-02-02T00:00:00+00:00")
    collection.remove(one.id)
    assert collection.store.labels()[0].path_a is None
    assert collection.store.labels()[0].path_b == two.path
    assert collection.add(one.path)[0].id == one.id
    assert collection.store.labels()[0].path_a == one.path


def test_a_damaged_label_is_left_out_and_named_by_verify(store, caplog):
    store.add_labels([NewLabel(A, B, "copy", "same"), NewLabel(A, C, "copy", "same")])
    assert verify_store(store).problems == []
    tamper(store, "UPDATE labels SET answer='different' WHERE sequence=1")
    assert answers(store) == [(A, C, "copy", "same")]
    assert "label 1 is damaged and left out" in caplog.text
    assert verify_store(store).problems == ["label 1: it has another checksum; label its pair again"]
