import logging
import threading
from threading import Event, Timer

import pytest
from folders import names, put

from diptych import Collection
from diptych.collection.sync.follow import Follower
from diptych.errors import SyncError


@pytest.fixture
def wait(store, folder):
    def until(expected):
        for _ in range(600):
            if names(store, folder) == expected:
                return
            Event().wait(0.02)
        raise AssertionError(names(store, folder))

    return until


def test_a_thread_follows_beside_the_one_who_uses_the_collection(scorer, store, folder, photo_bytes, caplog, wait):
    with caplog.at_level(logging.INFO), Collection.open(store, scorer, create=True) as collection:
        collection.add(photo_bytes(50))
        with Follower(collection, [folder], 0.05):
            wait(["", *sorted(f"{path.relative_to(folder)}" for path in folder.rglob("*.jpg"))])
            (folder / "1.jpg").unlink()
            put(folder / "2.jpg", b"a text")
            wait(["", "3.jpg", "5.jpg", "6.jpg", "7.jpg", "more/0.jpg", "more/4.jpg"])
            found = collection.search(photo_bytes(1), top=20).matches
            assert len(found) == 7, "its index followed too"
    assert "sync: 8 new" in caplog.text
    assert "2.jpg is not in a format that can be read" in caplog.text


def test_it_ends_in_the_middle_of_a_run_and_a_missing_folder_is_an_error_at_once(
    scorer, store, folder, monkeypatch, wait
):
    monkeypatch.setattr("diptych.collection.ingest.BATCH", 1)
    with Collection.open(store, scorer, create=True) as collection:
        commit = collection.commit
        begun, go = Event(), Event()

        def slowly(arrivals):
            begun.set()
            go.wait(10)
            return commit(arrivals)

        monkeypatch.setattr(collection, "commit", slowly)
        follower = Follower(collection, [folder], 0.05)
        with follower:
            begun.wait(10)
            Timer(0.2, go.set).start()  # while it is told to end
        assert 1 <= len(collection) < 8
        with pytest.raises(SyncError, match="does not exist"):
            Follower(collection, [folder / "none"], 1)
    assert len(names(store, folder)) < 8


def test_a_read_that_hangs_does_not_keep_the_service_from_ending(scorer, store, folder, monkeypatch, caplog):
    monkeypatch.setattr("diptych.collection.sync.follow._WAIT_SECONDS", 0.2)
    begun, go = Event(), Event()

    def hanging(path, limits):
        begun.set()
        go.wait(60)

    others = set(threading.enumerate())
    monkeypatch.setattr("diptych.collection.sync.run._read_file", hanging)
    with Collection.open(store, scorer, create=True) as collection, Follower(collection, [folder], 0.05):
        assert begun.wait(30)
    (left,) = set(threading.enumerate()) - others
    assert f"sync: {folder} gave no answer for 0.2 s; ending without" in caplog.text
    go.set()
    left.join(30)
    assert not left.is_alive()
    assert names(store, folder) == []
