"""What a collection promises, wherever its pictures are: in a folder, on a light Milvus server and on a real one."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from diptych import Collection, find_duplicates
from diptych.collection.ingest import Incoming
from diptych.errors import ModelMismatchError, StoreError, UnknownPictureError
from diptych.store.open import export_lines
from diptych_runtime.errors import PictureError

COUNT = 37


@pytest.fixture
def collection(place, scorer):
    with Collection.open(place, scorer, create=True) as collection:
        yield collection


@pytest.fixture
def filled(collection, photo_bytes):
    """37 pictures with numbers, every third of a kind."""
    received = collection.read_new([(photo_bytes(seed), None) for seed in range(COUNT)])
    collection.commit(
        [
            Incoming(content, f"/shelf/{seed:02d}.jpg", {"n": seed, "kind": "abc"[seed % 3]})
            for seed, content in enumerate(received)
            if not isinstance(content, PictureError)
        ]
    )
    return collection


def everything(collection) -> list[str]:
    ids, after = [], None
    while page := collection.list(10, after):
        ids += [record.id for record in page]
        after = ids[-1]
    return ids


def test_the_same_picture_twice_is_one_with_the_first_path_and_the_last_metadata(collection, photo_bytes, tmp_path):
    (first,) = collection.add(photo_bytes(0), metadata={"n": 1})
    (again,) = collection.add(photo_bytes(0), path="/later.jpg", metadata={"n": 2})
    assert (first.created, again.created, first.id) == (True, False, again.id)
    assert len(collection) == 1
    record = collection.get(first.id)
    assert (record.metadata, record.path) == ({"n": 2}, "/later.jpg")
    assert collection.add(photo_bytes(0), path="/other.jpg")[0].id == first.id
    assert collection.get(first.id) == record
    assert [[one.id for one in collection.list(5, filter={"n": n})] for n in (1, 2)] == [[], [first.id]]
    collection.add(photo_bytes(0), metadata={})
    assert collection.get(first.id).metadata == {}
    for name, seed in (("a.jpg", 1), ("b.jpg", 1), ("c.jpg", 2)):
        (tmp_path / name).write_bytes(photo_bytes(seed))
    added = collection.add(sorted(tmp_path.glob("*.jpg")))
    assert [one.created for one in added] == [True, False, True], "in one batch too"
    assert collection.get(added[0].id).path == str(tmp_path / "a.jpg")
    assert collection.verify().healthy


def test_a_picture_knows_whether_its_file_is_as_it_was(collection, photo_bytes, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(photo_bytes(0))
    (added,) = collection.add(path)
    collection.add(photo_bytes(1), path=str(tmp_path / "named.jpg"))
    states = {match.path: match.file_state for match in collection.search(path).matches}
    assert states == {str(path): "unchanged", str(tmp_path / "named.jpg"): None}
    path.write_bytes(photo_bytes(2))
    assert collection.get(added.id).file_state == "changed"
    path.write_bytes(photo_bytes(0))
    os.utime(path, (1, 1))
    assert collection.get(added.id).file_state == "changed"
    collection.add(path)
    assert collection.get(added.id).file_state == "unchanged", "the same content was read again"
    path.unlink()
    assert collection.get(added.id).file_state == "missing"
    assert collection.verify().healthy


def test_a_record_comes_back_as_it_was_given(collection, photo_bytes):
    metadata = {"a": [1, {"b": None}], "ü": 'é"\\\n', "big": 2**70, "x.y": 1.5, "deep": {"er": {"est": True}}}
    id = collection.add(photo_bytes(0, (90, 70)), path='/ü "x"\\.jpg', metadata=metadata)[0].id
    record = collection.get(id)
    assert (record.id, record.metadata, record.path) == (id, metadata, '/ü "x"\\.jpg')
    assert (record.width, record.height, record.media_type, record.original_kept) == (90, 70, "image/jpeg", False)
    assert record.revision == collection.scorer.runtime.revision
    assert (record.sha256, id) == (digest := hashlib.sha256(photo_bytes(0, (90, 70))).hexdigest(), digest[:32])


def test_what_is_removed_is_gone_and_may_come_again(filled, photo_bytes):
    id = filled.add(photo_bytes(5))[0].id
    assert filled.remove(id)
    assert not filled.remove(id)
    with pytest.raises(UnknownPictureError, match="has no picture"):
        filled.get(id)
    assert id not in [match.id for match in filled.search(photo_bytes(5), top=COUNT).matches]
    assert len(filled) == COUNT - 1
    assert filled.add(photo_bytes(5))[0].created
    assert filled.search(photo_bytes(5), top=1, candidates=0).matches[0].id == id


@pytest.mark.parametrize("id", ["", "x", "f" * 32, '" or id != "', "F" * 32, "a" * 5000])
def test_what_is_no_id_of_a_picture_finds_none(filled, id):
    with pytest.raises(UnknownPictureError):
        filled.get(id)
    assert not filled.remove(id)
    assert filled.panels([id]) == {}


def test_pages_have_every_picture_once_in_a_fixed_order(filled):
    ids = everything(filled)
    assert len(ids) == len(set(ids)) == COUNT
    assert ids == [record.id for record in filled.list(1000)] == everything(filled)
    assert [record.id for record in filled.list(1, ids[3])] == [ids[4]]
    assert filled.list(5, ids[-1]) == []


def test_a_search_is_what_comparing_with_every_picture_gives(filled, photo_bytes):
    panels = filled.panels(everything(filled))
    query = photo_bytes(3, (60, 90))
    encoded = filled.scorer.panels([query])
    cosines = {id: float(np.frombuffer(e, "<f4") @ encoded.embeddings[0]) for id, (_, e) in panels.items()}
    found = filled.search(query, top=COUNT, candidates=10)
    assert {match.id: match.similarity for match in found.candidates} == pytest.approx(cosines, abs=1e-5)
    similar = [match.similarity for match in found.candidates]
    assert similar == sorted(similar, reverse=True)
    first = [match.id for match in found.candidates[:10]]
    logits = filled.scorer.logits(encoded.tokens, np.stack([panels[id][0] for id in first]))
    assert {match.id: match.raw_score for match in found.matches[:10]} == dict(zip(first, logits.tolist(), strict=True))
    assert found.reranked == 10


def test_another_handle_finds_at_once_what_one_added_and_no_more_what_it_removed(filled, place, scorer, photo_bytes):
    with Collection.open(place, scorer, read_only=True) as reader:
        for seed in range(100, 110):
            id = filled.add(photo_bytes(seed))[0].id
            assert reader.search(photo_bytes(seed), top=1, candidates=0).matches[0].id == id
            filled.remove(id)
            assert id not in [match.id for match in reader.search(photo_bytes(seed), top=COUNT, candidates=0).matches]
        with pytest.raises(StoreError, match="opened for reading only"):
            reader.remove(filled.list(1)[0].id)


def test_pictures_of_another_model_are_refused_with_the_command_that_embeds_them_anew(filled, place, other):
    before = [(r.id, r.metadata) for r in filled.list(1000)]
    filled.close()
    with Collection.open(place, filled.scorer) as again:
        assert [(r.id, r.metadata) for r in again.list(1000)] == before
        assert again.verify().healthy
    with pytest.raises(ModelMismatchError, match=r"diptych index rebuild --store "):
        Collection.open(place, other)


def test_files_are_kept_where_that_was_asked_for_and_go_with_their_picture(collection, photo_bytes, tmp_path):
    id = collection.add(photo_bytes(0), keep_originals=True)[0].id
    assert collection.content(id) == (photo_bytes(0), "image/jpeg")
    assert collection.get(id).original_kept
    bare = collection.add(photo_bytes(1))[0].id
    with pytest.raises(UnknownPictureError, match="without a file"):
        collection.content(bare)
    collection.add(photo_bytes(1), keep_originals=True)
    assert collection.content(bare) == (photo_bytes(1), "image/jpeg")
    collection.remove(id)
    assert not list((tmp_path / "originals").rglob(id))


def test_export_stats_and_duplicates_say_what_there_is(filled, photo_bytes):
    copy = filled.add(photo_bytes(4, format="PNG"), path="/shelf/copy.png", metadata={"n": 99})[0].id
    exported = list(export_lines(filled.backend, {"n": {"$gte": 30}}, embeddings=True))
    assert sorted(line["metadata"]["n"] for line in exported) == [*range(30, COUNT), 99]
    for line in exported:
        embedding = np.frombuffer(base64.b64decode(line["embedding"]), "<f4")
        assert np.array_equal(embedding, filled.panel(line["id"])[1])
    stats = json.loads(json.dumps(filled.stats()))
    assert (stats["pictures"], stats["kept"]) == (COUNT + 1, 0)
    assert stats["revisions"] == {filled.scorer.runtime.revision: COUNT + 1}
    assert stats["index"]["count"] == COUNT + 1
    assert stats["model"]["revision"] == filled.scorer.runtime.revision
    found = find_duplicates(filled, threshold=0.9)
    assert found.scored > COUNT
    assert len(found.pictures) == COUNT + 1
    assert copy in {picture.id for picture in found.pictures}


def test_pictures_are_found_by_their_path_and_by_the_folder_they_lie_in(collection, photo_bytes):
    paths = ["/a/1.jpg", "/a/b/2.jpg", "/ab/3.jpg", '/ü"/4.jpg', "/a.jpg", "/a0"]
    ids = {path: collection.add(photo_bytes(seed), path=path)[0].id for seed, path in enumerate(paths)}
    for asked, wanted in [("/a", 2), ("/a/", 2), ("/a/1.jpg", 1), ('/ü"', 1), ("/b", 0)]:
        found = collection.backend.under(asked)
        assert sorted(found) == sorted(ids[path] for path in paths if (path + "/").startswith(asked.rstrip("/") + "/"))
        assert len(found) == wanted


def test_many_threads_may_add_search_and_remove_at_once(collection, photo_bytes):
    rng = random.Random(1)
    for seed in range(8):
        collection.add(photo_bytes(seed), metadata={"n": seed})

    def work(number: int) -> None:
        for seed in rng.sample(range(8, 16), 4):
            collection.add(photo_bytes(seed), metadata={"n": seed})
        found = collection.search(photo_bytes(number), top=30, candidates=0)
        assert found.matches[0].metadata["n"] == number
        assert len({match.id for match in found.matches}) == len(found.matches)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))
    ids = everything(collection)
    assert len(ids) == len(set(ids)) == len(collection) >= 12
    assert collection.verify().healthy


def test_a_picture_file_that_is_taken_away_is_said_by_verify_and_is_no_damage(collection, photo_bytes, tmp_path):
    path = Path(tmp_path, "x.jpg")
    path.write_bytes(photo_bytes(0))
    collection.add(path)
    path.unlink()
    verdict = collection.verify()
    assert verdict.healthy
    assert any("nor a file, which cannot be embedded again: 1" in remark for remark in verdict.remarks)
