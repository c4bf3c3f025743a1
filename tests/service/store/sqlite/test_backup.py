"""Records as lines, and copies of a collection in use."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from diptych import Collection
from diptych.errors import StoreError
from diptych.store.open import open_store
from diptych.store.sqlite import backup as archive
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.backup import back_up_collection, restore_collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.own_calibration import CALIBRATION


def test_a_backup_is_the_collection_of_one_moment_while_it_grows(
    collection, scorer, photo_bytes, tmp_path, monkeypatch
):
    monkeypatch.setattr(archive, "_PAGES", 4)
    before, added = {record.id for record in collection.list(1000)}, []

    def add_meanwhile(done: int, total: int) -> None:
        if len(added) < 3:
            added.append(collection.add(photo_bytes(1000 + len(added), (40, 40), "PNG"))[0].id)

    size = back_up_collection(collection.store, tmp_path / "copy", add_meanwhile)
    assert size == (tmp_path / "copy" / "collection.sqlite").stat().st_size
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "copy", tmp_path / "copy" / "collection.sqlite")]
    assert modes == [0o700, 0o600]
    with Collection.open(tmp_path / "copy", scorer) as copy:
        held = {record.id for record in copy.list(1000)}
        assert before < held == before | {*added}
        assert copy.verify().healthy
        found = copy.search(photo_bytes(20), top=len(held), candidates=3).matches
        assert {match.id for match in found} == held


def test_a_backup_goes_into_a_new_folder_or_nowhere(collection, tmp_path, monkeypatch):
    back_up_collection(collection.store, tmp_path / "copy")
    with pytest.raises(StoreError, match="holds a collection already"):
        back_up_collection(collection.store, tmp_path / "copy")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        back_up_collection(collection.store, tmp_path / "file")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        back_up_collection(collection.store, tmp_path / "other", interrupt)
    assert list((tmp_path / "other").iterdir()) == []


def test_what_a_backup_lacks_is_lost_only_with_consent_and_what_it_has_comes_back(collection, tmp_path):
    own, copied = (folder / CALIBRATION for folder in (collection.directory, tmp_path / "copy"))
    first, second = collection.list(2)
    a, b = first.id, second.id
    own.write_text("as it was")
    collection.backend.replace_metadata([(a, {"was": "old"})])
    collection.label(a, b, "same")
    back_up_collection(collection.store, copied.parent)
    own.write_text("made anew")
    collection.backend.replace_metadata([(a, {"is": "new"})])
    collection.label(a, b, "same", question="thing")
    collection.add(collection.content(b)[0], keep_originals=True)
    collection.close()
    with SqliteBackend.open(copied.parent, read_only=True) as copy:
        said = "holds 1 label and .* and the kept files of 1 picture and a calibration that the backup"
        with pytest.raises(StoreError, match=said):
            restore_collection(copy, collection.directory)
        assert own.read_text() == "made anew"
        restore_collection(copy, collection.directory, replace=True)
        assert own.read_text() == "as it was"
        copied.unlink()
        restore_collection(copy, collection.directory)
        assert own.read_text() == "as it was", "a backup without one takes none away"
    with SqliteBackend.open(collection.directory, read_only=True) as store:
        assert [(label.pair, label.question) for label in store.labels()] == [(tuple(sorted((a, b))), "copy")]
        assert [record.metadata for record in store.page(1)] == [{"was": "old"}]


@pytest.fixture
def older(collection, photo_bytes):
    """A collection that went on after a backup was made: one picture of the twelve was removed and two were added."""
    back_up_collection(collection.store, collection.directory.parent / "older")
    gone = collection.list(1)[0].id
    collection.remove(gone)
    fresh = [collection.add(photo_bytes(seed), keep_originals=True)[0].id for seed in (100, 101)]
    return SimpleNamespace(folder=collection.directory.parent / "older", gone=gone, fresh=fresh)


def found_by_itself(collection: Collection, id: str) -> bool:
    return collection.search(collection.content(id)[0], top=1, candidates=0).matches[0].id == id


def test_a_restored_collection_is_the_backup_for_who_opens_it_and_for_who_reads_it_already(
    collection, older, scorer, photo_bytes
):
    collection.close()
    with Collection.open(collection.directory, scorer, read_only=True) as reader:
        assert found_by_itself(reader, older.fresh[1])
        with SqliteBackend.open(older.folder, read_only=True) as copy:
            with pytest.raises(StoreError, match=r"holds 2 pictures that the backup .* does not have; nothing"):
                restore_collection(copy, collection.directory)
            assert len(reader) == 13
            assert restore_collection(copy, collection.directory, replace=True) == 12
            wanted = set(copy.ids())
        for seen in (reader, Collection.open(collection.directory, scorer)):
            found = seen.search(photo_bytes(0), top=99, candidates=3).matches
            assert {match.id for match in found} == {record.id for record in seen.list(99)} == wanted
            assert found_by_itself(seen, older.gone)
            assert seen.verify().healthy
            seen.close()


def test_searches_of_a_reader_find_what_was_restored_though_many_come_at_once_and_the_first_fails(
    collection, older, scorer, monkeypatch
):
    collection.close()
    with Collection.open(collection.directory, scorer, read_only=True) as reader:
        with SqliteBackend.open(older.folder, read_only=True) as copy:
            restore_collection(copy, collection.directory, replace=True)
        embeddings = Store.embeddings

        def fail(store, *words):
            monkeypatch.setattr(Store, "embeddings", slowly)
            raise StoreError("the disk is away")

        def slowly(store, *words):
            time.sleep(0.2)
            return embeddings(store, *words)

        monkeypatch.setattr(Store, "embeddings", fail)
        with pytest.raises(StoreError, match="the disk is away"):
            found_by_itself(reader, older.gone)
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(lambda _: found_by_itself(reader, older.gone), range(4)))


def test_a_damaged_collection_makes_no_backup(collection, tmp_path):
    collection.close()
    with (collection.directory / DATABASE).open("r+b") as file:
        file.seek(5 * 4096)
        file.write(bytes(range(256)) * 160)
    with (
        SqliteBackend.open(collection.directory, read_only=True) as store,
        pytest.raises(StoreError, match=r"damaged|malformed"),
    ):
        back_up_collection(store, tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []


def test_a_backup_is_restored_into_a_new_folder_and_never_over_itself_nor_under_a_writer(collection, older, tmp_path):
    with SqliteBackend.open(older.folder, read_only=True) as copy:
        assert restore_collection(copy, tmp_path / "new") == 12
        with pytest.raises(StoreError, match="is the backup itself"):
            restore_collection(copy, older.folder)
        with pytest.raises(StoreError, match="is being written by process"):
            restore_collection(copy, collection.directory, replace=True)
    with (
        SqliteBackend.open(tmp_path / "new", read_only=True) as store,
        SqliteBackend.open(older.folder, read_only=True) as copy,
    ):
        assert store.page(99) == copy.page(99)
        assert store.identity != copy.identity


def test_a_damaged_backup_and_a_restore_that_is_broken_off_leave_the_collection_as_it_was(
    collection, older, tmp_path, monkeypatch
):
    collection.close()
    before = [record.id for record in open_store(collection.directory, read_only=True).page(99)]

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(archive, "_PAGES", 1)
    with SqliteBackend.open(older.folder, read_only=True) as copy:
        with pytest.raises(KeyboardInterrupt):
            restore_collection(copy, collection.directory, replace=True, progress=interrupt)
        monkeypatch.setattr(Store, "find_damage", lambda store: ["page 7 is torn"])
        with pytest.raises(StoreError, match=r"is damaged \(page 7 is torn\); nothing was changed"):
            restore_collection(copy, collection.directory, replace=True)
    with open_store(collection.directory, read_only=True) as store:
        assert [record.id for record in store.page(99)] == before
