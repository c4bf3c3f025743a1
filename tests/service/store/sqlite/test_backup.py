"""Records as lines, and copies of a collection in use."""

from __future__ import annotations

import base64
import json
import logging
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from diptych import Collection
from diptych.errors import StoreError
from diptych.store.open import open_store
from diptych.store.records import NewPicture
from diptych.store.sqlite import backup as archive
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.backup import back_up_collection, export_lines, restore_collection
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.own_calibration import CALIBRATION


def test_lines_are_the_records_in_their_order_with_their_embeddings_if_asked(collection):
    found = list(export_lines(collection.store, embeddings=True))
    assert [line["id"] for line in found] == [record.id for record in collection.list(100)]
    for line in found:
        record = collection.get(line["id"])
        assert (line["metadata"], line["sha256"], line["path"]) == (record.metadata, record.sha256, record.path)
        embedding = np.frombuffer(base64.b64decode(line["embedding"]), "<f4")
        assert np.array_equal(embedding, collection.panel(line["id"])[1])
    assert all("embedding" not in line for line in export_lines(collection.store))
    assert list(export_lines(collection.store, {"no such field": 1})) == []


def test_a_backup_is_the_collection_of_one_moment_while_it_grows(collection, scorer, photo_bytes, tmp_path):
    stop, added = threading.Event(), []

    def keep_adding() -> None:
        for seed in range(1000, 2000):
            if stop.is_set():
                return
            added.append(collection.add(photo_bytes(seed, (40, 40), "PNG"))[0].id)

    before = {record.id for record in collection.list(1000)}
    thread = threading.Thread(target=keep_adding)
    thread.start()
    try:
        while len(added) < 3:
            pass
        acknowledged = set(added)
        size = back_up_collection(collection.store, tmp_path / "copy")
    finally:
        stop.set()
        thread.join()
    assert size == (tmp_path / "copy" / "collection.sqlite").stat().st_size
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "copy", tmp_path / "copy" / "collection.sqlite")]
    assert modes == [0o700, 0o600]
    with Collection.open(tmp_path / "copy", scorer) as copy:
        held = {record.id for record in copy.list(10_000)}
        assert before | acknowledged <= held <= before | set(added)
        assert copy.verify().healthy
        query = photo_bytes(20)
        found = copy.search(query, top=len(held), candidates=3).matches
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


def test_a_calibration_of_its_own_is_part_of_a_backup_and_comes_back_with_it(collection, tmp_path):
    own, copied, new = (folder / CALIBRATION for folder in (collection.directory, tmp_path / "copy", tmp_path / "new"))
    own.write_text("as it was")
    back_up_collection(collection.store, copied.parent)
    assert copied.read_text() == "as it was"
    collection.close()
    with SqliteBackend.open(copied.parent, read_only=True) as copy:
        restore_collection(copy, new.parent)
        assert new.read_text() == "as it was"
        own.write_text("made anew")
        with pytest.raises(StoreError, match="holds a calibration that the backup"):
            restore_collection(copy, own.parent)
        assert own.read_text() == "made anew"
        restore_collection(copy, own.parent, replace=True)
        assert own.read_text() == "as it was"
        copied.unlink()
        restore_collection(copy, own.parent)
    assert own.read_text() == "as it was", "a backup without one takes none away"


def test_metadata_that_were_replaced_since_a_backup_are_not_lost_without_a_word(collection, tmp_path):
    (first, *_) = collection.list(1)
    collection.backend.replace_metadata([(first.id, {"was": "old"})])
    back_up_collection(collection.store, tmp_path / "copy")
    collection.backend.replace_metadata([(first.id, {"is": "new"})])
    collection.close()
    with SqliteBackend.open(tmp_path / "copy", read_only=True) as copy:
        with pytest.raises(StoreError, match="holds the metadata of 1 picture that the backup"):
            restore_collection(copy, collection.directory)
        restore_collection(copy, collection.directory, replace=True)
    with SqliteBackend.open(collection.directory, read_only=True) as store:
        record = store.get(first.id)
    assert record is not None
    assert record.metadata == {"was": "old"}


def test_the_commands_write_lines_and_a_copy(diptych, collection, tmp_path):
    store, out = collection.directory, tmp_path / "out.jsonl"
    assert diptych("index", "export", "--store", store, "-o", out).code == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert written == list(export_lines(collection.store))
    shown = diptych("index", "export", "--store", store, "--embeddings", "--quiet").out
    assert [json.loads(line) for line in shown.splitlines()] == list(export_lines(collection.store, embeddings=True))
    assert diptych("index", "backup", "--store", store, tmp_path / "copy").code == 0
    assert diptych("index", "verify", "--store", tmp_path / "copy").code == 0
    refused = diptych("index", "backup", "--store", store, tmp_path / "copy")
    assert (refused.code, refused.out) == (1, "")


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


def meet_again(store: Store, sequence: int) -> None:
    """Change a collection without its index until it is where another was; the pictures are others."""
    step = store.page(100)[-1]
    while store.sequence() < sequence:
        number = store.sequence()
        store.insert([replace(_row(store, step.id), id=f"{number:032x}", sha256=f"{number:032x}" * 2)])


def _row(store: Store, id: str) -> NewPicture:
    record = store.get(id)
    assert record is not None
    tokens, embedding = store.panels([id])[id]
    turned = np.roll(np.frombuffer(embedding, "<f4"), 1).tobytes()
    facts = {name: getattr(record, name) for name in ("media_type", "width", "height", "metadata", "revision")}
    return NewPicture(id=id, sha256=record.sha256, path=None, embedding=turned, tokens=tokens, data=None, **facts)


def test_an_older_database_copied_beside_a_newer_index_is_told_apart_when_number_and_count_meet_again(
    collection, older, scorer, photo_bytes, caplog
):
    collection.remove(older.fresh[0])  # as many changes as below, and as many pictures
    generation, count = collection.index.generation, len(collection)
    collection.close()
    shutil.copy(older.folder / DATABASE, collection.directory / DATABASE)
    with SqliteBackend.open(collection.directory) as store:
        store.remove([store.page(2)[1].id])
        store.remove([store.page(2)[1].id])
        meet_again(store, generation)
        assert (store.sequence(), store.count()) == (generation, count)
        (problem,) = store.verify().problems
        assert "of its entries are not the database's, the first of row" in problem
    with caplog.at_level(logging.WARNING), Collection.open(collection.directory, scorer) as restored:
        assert "entries are not the database's" in caplog.text
        assert {match.id for match in restored.search(photo_bytes(0), top=99, candidates=0).matches} == {
            record.id for record in restored.list(99)
        }
        assert found_by_itself(restored, older.gone)
    with Store.open(collection.directory, read_only=True) as store:
        assert store.count() == count


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
