"""Servers that are missing, too old, or hold something else; and what is damaged on one."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diptych import Collection
from diptych.collection.rebuild import rebuild_collection
from diptych.errors import ModelMismatchError, StoreError, UnreachableError
from diptych.store.milvus.backend import MilvusBackend
from diptych.store.milvus.client import Server
from diptych.store.milvus.table import layout_of, make_collection
from diptych_runtime.errors import PictureError


def test_without_the_package_the_error_has_the_line_that_installs_it(monkeypatch, scorer):
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(StoreError, match=r"pip install 'diptych\[milvus\]'"):
        Collection.open("milvus://127.0.0.1/photos", scorer)


@pytest.mark.milvus
def test_a_host_that_is_not_there_is_said_within_seconds(port, diptych):
    pytest.importorskip("pymilvus", reason="pymilvus is not installed: pip install 'diptych[milvus]'")
    began = time.monotonic()
    found = diptych("index", "stats", "--store", f"milvus://me:secret@127.0.0.1:{port}/photos")
    assert time.monotonic() - began < 20
    assert found.code == 1
    assert f"milvus://127.0.0.1:{port}/photos does not answer" in found.err
    assert "secret" not in found.err


def test_a_server_that_is_too_old_is_refused(milvus_address, monkeypatch):
    from pymilvus import MilvusClient  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(MilvusClient, "get_server_version", lambda *_, **__: "v2.2.16")
    with pytest.raises(StoreError, match=r"is a Milvus v2\.2\.16; expected 2\.3 or newer"):
        Server(milvus_address)


def test_a_collection_that_is_not_there_is_made_only_by_who_adds(address, diptych, scorer):
    for command in ("stats", "verify", "export"):
        found = diptych("index", command, "--store", address)
        assert (found.code, "holds no collection; make one with `diptych index add" in found.err) == (1, True)
    with pytest.raises(StoreError, match="holds no collection"):
        Collection.open(address, scorer)


def test_what_something_else_made_and_another_format_are_refused(address, milvus_address, scorer):
    Collection.open(address, scorer, create=True).close()
    server, name = Server(milvus_address), milvus_address.collection
    server.call("alter_collection_properties", name, properties={"diptych.format": "99"})
    with pytest.raises(StoreError, match="has the format version 99, and this Diptych reads version 1"):
        Collection.open(address, scorer)
    server.call("create_collection", f"{name}_other", dimension=4)
    with pytest.raises(StoreError, match="something else than Diptych"):
        Collection.open(address.replace("?", "_other?"), scorer)
    server.close()


def damage(collection: Collection, id: str, **changes: object) -> None:
    """Put another row in the place of a picture's, as a bad disk would."""
    table = collection.backend.table  # pyright: ignore[reportAttributeAccessIssue]
    (row,) = table.rows([id], table.layout.fields)
    table.write([{**row, **{name: change(row[name]) for name, change in changes.items()}}])  # pyright: ignore


def test_damage_is_left_out_of_searches_with_a_warning_found_by_verify_and_mended(
    address, scorer, gallery, warned, diptych, artifact
):
    with Collection.open(address, scorer, create=True) as collection:
        ids = [added.id for added in collection.add(sorted(gallery.rglob("*.jpg")))]
        damage(collection, ids[0], tokens_0=lambda text: ("B" if text[9] == "A" else "A").join((text[:9], text[10:])))
        damage(collection, ids[1], tokens_0=lambda text: "no base64 at all")
        damage(collection, ids[2], record=lambda text: text.replace('"width": 96', '"width": 97'))
        vector = collection.backend.table.layout.vector  # pyright: ignore[reportAttributeAccessIssue]
        damage(collection, ids[3], **{vector: lambda numbers: [*numbers[:-1], numbers[-1] + 0.125]})
        found = collection.search(gallery / "01.jpg", top=20)
        assert {match.id for match in found.matches} == set(ids) - set(ids[:3])
        assert f"the picture {ids[0]} of the collection is damaged: its list of tokens" in warned()
        for id in (ids[0], ids[3]):
            with pytest.raises(StoreError, match="embeds it anew"):
                collection.panel(id)
        with pytest.raises(StoreError, match="its record has another checksum"):
            collection.get(ids[2])
        problems = collection.verify().problems
        assert [sum(id in text for text in problems) > 0 for id in ids] == [True] * 4 + [False] * 8
    model = ("--model", artifact, "--threads", 1)
    found = diptych("index", "rebuild", "--store", address, *model, "--json")
    assert (found.code, found.json["embedded"], found.json["failed"]) == (1, 3, 1)
    assert [entry["id"] for entry in found.json["failures"]] == [ids[2]]
    found = diptych("index", "rebuild", "--store", address, "--drop-missing", *model, "--json")
    assert (found.code, found.json["pictures"]) == (0, 11)
    assert diptych("index", "verify", "--store", address, "--json").json["healthy"]


def test_another_model_embeds_all_anew_beside_it_and_what_was_left_running_gives_no_wrong_answer(
    address, scorer, gallery, photo_bytes, diptych, other, other_artifact
):
    old = Collection.open(address, scorer, create=True)
    ids = [added.id for added in old.add(sorted(gallery.rglob("*.jpg")))]
    lost = old.add(photo_bytes(50))[0].id
    command = ("index", "rebuild", "--store", address, "--model", other_artifact, "--threads", 1, "--json")
    found = diptych(*command)
    assert (found.code, found.json["embedded"], found.json["failed"]) == (1, 12, 1)
    assert old.search(photo_bytes(50), top=1, candidates=0).matches[0].id == lost, "until then nothing changes"
    old.remove(lost)
    found = diptych(*command)
    assert (found.code, found.json["embedded"], found.json["pictures"]) == (0, 0, 12)
    for ask in (lambda: old.search(gallery / "01.jpg"), lambda: old.add(photo_bytes(51)), old.backend.check):
        with pytest.raises(ModelMismatchError, match="was embedded anew by another model"):
            ask()
    old.close()
    with Collection.open(address, other) as new:
        assert {record.id for record in new.list(100)} == set(ids)
        assert new.search(gallery / "01.jpg", top=1, candidates=0).matches[0].path == str(gallery / "01.jpg")
        assert new.verify().healthy


@pytest.mark.parametrize(("at", "number"), [("rename_collection", 2), ("drop_collection", 1)])
def test_a_rebuild_that_ends_while_the_names_change_is_taken_up_by_the_next(
    address, milvus_address, scorer, gallery, other, cut, monkeypatch, at, number
):
    with Collection.open(address, scorer, create=True) as collection:
        count = len(collection.add(sorted(gallery.rglob("*.jpg"))))
    cut(at, number)
    with pytest.raises(UnreachableError, match="the line is cut"):
        rebuild_collection(milvus_address, other)
    monkeypatch.undo()
    if at == "rename_collection":
        with pytest.raises(StoreError, match="finish it with `diptych index rebuild"):
            Collection.open(address, other, create=True)
    report = rebuild_collection(milvus_address, other)
    assert (report.pictures, report.embedded, report.failed) == (count, 0, 0)
    with Collection.open(address, other) as collection:
        assert len(collection) == count


@pytest.mark.parametrize("ending", ["_rebuilding", "_replaced"])
def test_a_rebuild_touches_no_collection_that_only_has_a_name_of_its_own(
    address, milvus_address, scorer, photo_bytes, other, ending
):
    with Collection.open(address, scorer, create=True) as collection:
        collection.add(photo_bytes(0), keep_originals=True)
    server, name = Server(milvus_address), f"{milvus_address.collection}{ending}"
    make_collection(server, name, layout_of(server, milvus_address.collection))
    with pytest.raises(StoreError, match=f"expected {name} .* to be left by a rebuild"):
        rebuild_collection(milvus_address, other)
    assert name in server.list_names()
    server.call("drop_collection", name)
    assert rebuild_collection(milvus_address, other).embedded == 1
    server.close()


@pytest.mark.parametrize("ends_between", [False, True])
def test_what_changes_while_all_is_embedded_anew_is_as_it_was_last(
    address, milvus_address, scorer, photo_bytes, other, cut, ends_between
):
    """Removed and added again, completed, added and removed, between the first filling and the change of names."""
    with Collection.open(address, scorer, create=True) as collection:
        ids = [collection.add(photo_bytes(n), metadata={"n": n}, keep_originals=True)[0].id for n in range(4)]

        def change() -> None:
            collection.remove(ids[0])
            collection.add(photo_bytes(0), metadata={"n": 100}, keep_originals=True)
            collection.add(photo_bytes(1), path="/later.jpg")
            collection.add(photo_bytes(9), metadata={"n": 9}, keep_originals=True)
            collection.remove(ids[2])

        cut("rename_collection", 1, change, breaks=ends_between)
        if ends_between:
            with pytest.raises(UnreachableError, match="the line is cut"):
                rebuild_collection(milvus_address, other)
        report = rebuild_collection(milvus_address, other)
        assert (report.pictures, report.embedded, report.failed) == (4, 1 if ends_between else 5, 0)
    with Collection.open(address, other) as collection:
        records = {record.metadata["n"]: record for record in collection.list(10)}
        assert {n: record.path for n, record in records.items()} == {100: None, 1: "/later.jpg", 3: None, 9: None}
        tokens, embedding = collection.panel(records[100].id)
        fresh = other.panels([photo_bytes(0)])
        assert np.array_equal(tokens, fresh.tokens[0].astype("<f2"))
        assert np.array_equal(embedding, fresh.embeddings[0])
        assert collection.verify().healthy


def test_what_the_server_took_and_has_not_is_no_success(address, scorer, photo_bytes, monkeypatch):
    with Collection.open(address, scorer, create=True) as collection:
        call = Server.call

        def lossy(self: Server, method: str, *arguments: Any, **options: Any) -> Any:
            return None if method == "upsert" else call(self, method, *arguments, **options)

        with monkeypatch.context() as patched:
            patched.setattr(Server, "call", lossy)
            with pytest.raises(UnreachableError, match=r"took 1 picture and lacks 1 of them .*; try again"):
                collection.add(photo_bytes(0))
        assert collection.add(photo_bytes(0))[0].created


def test_every_call_of_a_check_is_bounded(address, scorer, monkeypatch):
    with Collection.open(address, scorer, create=True) as collection:
        call, given = Server.call, {}

        def watched(self: Server, method: str, *arguments: Any, **options: Any) -> Any:
            given[method] = options.get("timeout")
            return call(self, method, *arguments, **options)

        monkeypatch.setattr(Server, "call", watched)
        collection.backend.check()
        assert given == {"query": 2.0, "describe_collection": 2.0}


def test_metadata_that_milvus_cannot_hold_are_refused_with_their_size(address, scorer, photo_bytes, tmp_path):
    with Collection.open(address, scorer, create=True) as collection:
        collection.add(photo_bytes(0), metadata={"text": "x" * 60_000})
        with pytest.raises(PictureError, match="Milvus holds 65,535"):
            collection.add(photo_bytes(1), metadata={"text": "x" * 65_500})
        with pytest.raises(PictureError, match="Milvus holds 65,535"):
            collection.add(photo_bytes(2), metadata={"text": "x" * 65_500}, keep_originals=True)
        assert len(collection) == 1
        assert not [path for path in Path(tmp_path, "originals").rglob("*") if path.is_file()]


@pytest.mark.parametrize("late", [False, True])
def test_a_file_stays_if_its_picture_is_added_again_while_it_is_removed(
    address, scorer, photo_bytes, monkeypatch, late
):
    """One adds it just before the other looks at the files, or just before it drops them."""
    with Collection.open(address, scorer, create=True) as collection, Collection.open(address, scorer) as other:
        id = collection.add(photo_bytes(0), keep_originals=True)[0].id
        store = collection.backend
        assert isinstance(store, MilvusBackend)
        assert store.originals is not None
        owner, name = (store.table, "wait_until_visible") if late else (store.originals, "drop")
        step, seen = getattr(owner, name), []

        def meanwhile(*arguments: Any) -> Any:
            seen.append(arguments)
            if len(seen) == 1 + late:  # the first time that is asked, the row has just been taken away
                assert other.add(photo_bytes(0), keep_originals=True)[0].created
            return step(*arguments)

        monkeypatch.setattr(owner, name, meanwhile)
        assert collection.remove(id)
        assert len(seen) == 1 + late
        assert collection.content(id) == (photo_bytes(0), "image/jpeg")
        assert [path.name for path in store.originals.folder.rglob("*") if path.is_file()] == [id]
        monkeypatch.undo()
        assert collection.remove(id)
        assert not [path for path in store.originals.folder.rglob("*") if path.is_file()]


def test_kept_files_that_are_gone_or_changed_are_said_by_verify(address, scorer, photo_bytes, tmp_path):
    with Collection.open(address, scorer, create=True) as collection:
        ids = [collection.add(photo_bytes(seed), keep_originals=True)[0].id for seed in range(3)]
        kept = {path.name: path for path in Path(tmp_path, "originals").rglob("*") if path.is_file()}
        assert sorted(kept) == sorted(ids)
        kept[ids[0]].unlink()
        kept[ids[1]].write_bytes(b"other")
        problems = collection.verify().problems
        assert [[text for text in problems if id in text] != [] for id in ids] == [True, True, False]
