import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from diptych import Collection
from diptych.collection import registry
from diptych.collection.registry import Collections, Summary
from diptych.errors import (
    CollectionKeptError,
    DamagedCollectionError,
    StoreError,
    UnknownCollectionError,
)
from diptych.store.sqlite.database import Store


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def collections(root, scorer):
    """Two collections, of which "shoes" has two pictures."""
    with Collections.open(root, scorer) as opened:
        opened.create("shoes")
        opened.create("bags")
        yield opened


def fill(collections: Collections, name: str, *contents: bytes) -> None:
    with collections.borrow(name) as collection:
        for data in contents:
            collection.add(data, keep_originals=True)


def test_what_is_made_is_there_after_a_new_start(root, scorer, photo_bytes):
    with Collections.open(root, scorer) as collections:
        assert collections.names() == []
        assert collections.create("shoes")
        assert not collections.create("shoes")
        fill(collections, "shoes", photo_bytes(1), photo_bytes(2))
        assert collections.summary("shoes") == Summary(
            *("shoes", 2, collections.summary("shoes").disk_bytes, 2, None),
            *(scorer.runtime.name, scorer.runtime.revision),
        )
    with Collections.open(root, scorer) as collections:
        assert [(one.name, one.pictures) for one in collections.summaries()] == [("shoes", 2)]
    with Collection.open(root / "shoes", scorer) as alone:
        assert len(alone) == 2
        one = Collections.of(alone)
        assert (one.names(), one.is_fixed, Collections.of(one)) == (["default"], True, one)
        with one.borrow(None) as found, one.borrow("default") as named:
            assert found is named is alone
        for change in (lambda: one.create("hats"), lambda: one.remove("default", 2)):
            with pytest.raises(StoreError, match="start `diptych serve --collections ROOT`"):
                change()
        one.close()
        assert len(alone) == 2, "it stays its owner's to close"


def test_who_is_at_a_collection_ends_before_it_is_removed_and_nobody_else_gets_it(collections, photo_bytes):
    with collections.borrow("shoes"), pytest.raises(CollectionKeptError, match="is still being used; try again"):
        collections.remove("shoes", seconds=0.01)
    fill(collections, "shoes", photo_bytes(1))
    with ThreadPoolExecutor(1) as pool:
        with collections.borrow("shoes") as shoes:
            removal = pool.submit(collections.remove, "shoes", 1)
            limit = time.monotonic() + 20
            while "shoes" in collections.open_ones():
                assert time.monotonic() < limit
                time.sleep(0.005)
            with pytest.raises(UnknownCollectionError, match="shoes is being removed"), collections.borrow("shoes"):
                pass
            with collections.borrow("bags") as bags:
                assert len(bags) == 0
            assert len(shoes.search(photo_bytes(1)).matches) == 1
            assert not removal.done()
        removal.result(20)
    assert collections.names() == ["bags"]
    with ThreadPoolExecutor(1) as pool:
        with collections.borrow("bags") as bags:
            closing = pool.submit(collections.close)
            while collections.open_ones():
                time.sleep(0.005)
            bags.add(photo_bytes(1), keep_originals=True)
        closing.result(20)


def test_what_is_added_while_a_removal_waits_is_not_lost(collections, photo_bytes):
    with ThreadPoolExecutor(1) as pool:
        with collections.borrow("shoes") as shoes:
            removal = pool.submit(collections.remove, "shoes")
            while "shoes" in collections.open_ones():
                time.sleep(0.005)
            shoes.add(photo_bytes(1), keep_originals=True)
        with pytest.raises(CollectionKeptError, match=": 1, and 0 were said to go"):
            removal.result(20)
    assert collections.summary("shoes").pictures == 1


def test_damage_that_nobody_foresaw_takes_no_other_down(root, scorer, monkeypatch, caplog):
    with Collections.open(root, scorer) as collections:
        collections.create("bags")
        collections.create("shoes")
    real = Collection.open

    def broken(directory, *rest, **options):
        if directory.name == "bags":
            raise ZeroDivisionError("of a kind that no one has seen")
        return real(directory, *rest, **options)

    monkeypatch.setattr(Collection, "open", broken)
    with caplog.at_level(logging.ERROR), Collections.open(root, scorer) as collections:
        assert collections.list_faults() == {"bags": "ZeroDivisionError: of a kind that no one has seen"}
        assert list(collections.open_ones()) == ["shoes"]


def test_a_write_to_one_collection_waits_for_none_to_another(collections, photo_bytes):
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with collections.borrow("shoes") as shoes, shoes.store.changing:
            held.set()
            go.wait(20)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(hold)
        assert held.wait(20)
        fill(collections, "bags", photo_bytes(1))
        assert collections.create("hats")
        assert not waiting.done()
        go.set()
        waiting.result(20)
    assert collections.summary("bags").pictures == 1


def test_the_same_collection_made_by_many_at_once_is_made_once(collections):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(collections.create, ["hats"] * 16))
    assert sum(made) == 1


def names(count: int) -> list[str]:
    return [f"c{number:04}" for number in range(count)]


def test_more_collections_than_may_be_open_are_served_and_those_in_use_stay(scorer, tmp_path, photo_bytes):
    with Collections.open(tmp_path, scorer, most=2) as collections:
        for name in names(5):
            assert collections.create(name)
        for number, name in enumerate(names(5)):
            with collections.borrow(name) as collection:
                collection.add(photo_bytes(number))
        assert [*collections.open_ones()] == names(5)[3:]
        assert [(one.name, one.pictures, one.fault) for one in collections.summaries()] == [
            (name, 1, None) for name in names(5)
        ]
    with Collections.open(tmp_path, scorer, most=2) as collections:
        assert [*collections.open_ones()] == names(5)[:2]
        for number, name in enumerate(names(5)):
            with collections.borrow(name) as collection:
                assert collection.search(photo_bytes(number), top=1).matches[0].id == collection.list()[0].id
        assert not collections.create(names(1)[0])
        collections.remove(names(1)[0], pictures=1)
        assert collections.names() == names(5)[1:]
        with (
            collections.borrow("c0001") as first,
            collections.borrow("c0002") as second,
            collections.borrow("c0003"),
        ):
            assert [*collections.open_ones()] == names(4)[1:]
            assert (len(first), len(second)) == (1, 1)

        def visit(number: int) -> int:
            with collections.borrow(f"c{1 + number % 4:04}") as collection:
                return len(collection)

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(visit, range(300))) == [1] * 300
        assert collections.list_faults() == {}
        assert len(collections.open_ones()) <= 2


def test_a_collection_that_could_not_be_opened_is_tried_again_after_a_while(scorer, tmp_path, monkeypatch):
    with Collections.open(tmp_path, scorer, most=1) as collections:
        for name in names(2):
            collections.create(name)
        with Store.open(tmp_path / "c0000"), pytest.raises(DamagedCollectionError), collections.borrow("c0000"):
            pass
        with pytest.raises(DamagedCollectionError), collections.borrow("c0000"):
            pass
        monkeypatch.setattr(registry, "AGAIN_SECONDS", 0.0)
        with collections.borrow("c0000") as collection:
            assert len(collection) == 0
        assert collections.list_faults() == {}
