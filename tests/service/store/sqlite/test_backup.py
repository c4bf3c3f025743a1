"""Records as lines, and copies of a collection in use."""

from __future__ import annotations

import base64
import json
import threading

import numpy as np
import pytest

from diptych import Collection
from diptych.errors import StoreError
from diptych.store.sqlite.backup import backup, lines


def test_lines_are_the_records_in_their_order_with_their_embeddings_if_asked(collection):
    found = list(lines(collection.store, embeddings=True))
    assert [line["id"] for line in found] == [record.id for record in collection.list(100)]
    for line in found:
        record = collection.get(line["id"])
        assert (line["metadata"], line["sha256"], line["path"]) == (record.metadata, record.sha256, record.path)
        embedding = np.frombuffer(base64.b64decode(line["embedding"]), "<f4")
        assert np.array_equal(embedding, collection.panel(line["id"])[1])
    assert all("embedding" not in line for line in lines(collection.store))
    assert list(lines(collection.store, {"no such field": 1})) == []


def test_a_backup_is_the_collection_of_one_moment_while_it_grows(collection, scorer, photo_bytes, tmp_path):
    stop, added = threading.Event(), []

    def keep_adding() -> None:
        for seed in range(1000, 2000):
            if stop.is_set():
                return
            added.append(collection.add(photo_bytes(seed, (40, 40), "PNG")).id)

    before = {record.id for record in collection.list(1000)}
    thread = threading.Thread(target=keep_adding)
    thread.start()
    try:
        while len(added) < 3:
            pass
        acknowledged = set(added)
        size = backup(collection.store, tmp_path / "copy")
    finally:
        stop.set()
        thread.join()
    assert size == (tmp_path / "copy" / "collection.sqlite").stat().st_size
    with Collection.open(tmp_path / "copy", scorer) as copy:
        held = {record.id for record in copy.list(10_000)}
        assert before | acknowledged <= held <= before | set(added)
        assert copy.verify().healthy
        query = photo_bytes(20)
        found = copy.search(query, top=len(held), candidates=3).matches
        assert {match.id for match in found} == held


def test_a_backup_goes_into_a_new_folder_or_nowhere(collection, tmp_path, monkeypatch):
    backup(collection.store, tmp_path / "copy")
    with pytest.raises(StoreError, match="holds a collection already"):
        backup(collection.store, tmp_path / "copy")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be written"):
        backup(collection.store, tmp_path / "file")

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        backup(collection.store, tmp_path / "other", interrupt)
    assert list((tmp_path / "other").iterdir()) == []


def test_the_commands_write_lines_and_a_copy(diptych, collection, tmp_path):
    store, out = collection.directory, tmp_path / "out.jsonl"
    assert diptych("index", "export", "--store", store, "-o", out).code == 0
    written = [json.loads(line) for line in out.read_text().splitlines()]
    assert written == list(lines(collection.store))
    shown = diptych("index", "export", "--store", store, "--embeddings", "--quiet").out
    assert [json.loads(line) for line in shown.splitlines()] == list(lines(collection.store, embeddings=True))
    assert diptych("index", "backup", "--store", store, tmp_path / "copy").code == 0
    assert diptych("index", "verify", "--store", tmp_path / "copy").code == 0
    refused = diptych("index", "backup", "--store", store, tmp_path / "copy")
    assert (refused.code, refused.out) == (1, "")
