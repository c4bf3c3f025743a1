from hashlib import sha256

import numpy as np
import pytest

from diptych import Collection, Scorer
from diptych.collection.rebuild import rebuild_collection
from diptych.errors import ModelMismatchError, UnknownPictureError
from diptych.store.records import NewPicture
from diptych_runtime.errors import PictureError


def ids(collection: Collection) -> list[str]:
    return [record.id for record in collection.list(1000)]


def found(collection: Collection, query) -> list[str]:
    return [match.id for match in collection.search(query, top=1000).matches]


def test_adding_is_done_when_the_call_returns(tmp_path, scorer, gallery, photo_bytes, terminal):
    stderr = terminal()
    with Collection.open(tmp_path / "store", scorer, create=True) as collection:
        collection.add(gallery)
        assert (len(collection), stderr.getvalue()) == (12, "")
        collection.add(gallery, show_progress_bar=True)
        assert "12/12 picture" in stderr.getvalue()
        assert collection.add(str(gallery), dry_run=True)[0].path == str(gallery / "01.jpg")
        added = collection.add([gallery, photo_bytes(70), gallery / "01.jpg"], metadata={"n": 1})
        assert [one.created for one in added] == [False] * 12 + [True] + [False]
        assert collection.get(added[12].id).metadata == {"n": 1}
        with pytest.raises(ValueError, match="`path` says where one picture can be found again"):
            collection.add([photo_bytes(71)], path="/a.jpg")
        (tmp_path / "empty").mkdir()
        with pytest.raises(PictureError, match=r"there is no picture .* in .*empty$"):
            collection.add(tmp_path / "empty")


def test_embeddings_come_as_an_array_in_the_order_of_the_ids(collection, scorer, gallery):
    names, vectors = collection.embeddings()
    assert names == ids(collection)
    assert (vectors.shape, vectors.dtype) == ((12, scorer.runtime.embedding_dim), np.float32)
    assert np.array_equal(vectors[3], collection.panel(names[3])[1])
    some = [names[5], names[2], names[5]]
    assert collection.embeddings(some)[0] == some
    assert np.array_equal(collection.embeddings(some)[1], vectors[[5, 2, 5]])
    with pytest.raises(UnknownPictureError, match=r"1 of the pictures are not in .*, 00 for one"):
        collection.embeddings([names[0], "00"])


def test_rebuilding_embeds_from_files_and_kept_bytes_and_reports_what_is_missing(
    collection, gallery, other_artifact, photo_bytes
):
    kept = collection.add(photo_bytes(60), keep_originals=True)[0].id
    lost = collection.add(photo_bytes(61))[0].id
    (gallery / "01.jpg").unlink()
    (gallery / "02.jpg").write_bytes(photo_bytes(62))
    collection.close()
    other = Scorer.load(str(other_artifact), provider="cpu", threads=1)
    failures = {}
    report = rebuild_collection(
        collection.directory, other, on_error=lambda record, error: failures.update({record.id: str(error)})
    )
    assert (report.embedded, report.failed, report.pictures) == (11, 3, 14)
    assert "01.jpg does not exist" in " ".join(failures.values())
    assert "02.jpg has changed since it was added" in " ".join(failures.values())
    assert "added without a file or its bytes" in failures[lost]
    with pytest.raises(ModelMismatchError, match="3 of the 14 pictures"):
        Collection.open(collection.directory, other)
    rebuild_collection(collection.directory, other, drop=True)
    with Collection.open(collection.directory, other) as again:
        assert len(again) == 11
        assert kept in found(again, photo_bytes(60))


def test_rebuilding_everything_with_the_same_model_changes_no_answer(collection, gallery):
    before = collection.search(gallery / "01.jpg", top=12).matches
    report = collection.rebuild(everything=True)
    assert (report.embedded, report.failed) == (12, 0)
    assert collection.search(gallery / "01.jpg", top=12).matches == before


def test_a_disk_that_does_not_take_the_cache_costs_no_picture(collection, scorer, photo_bytes, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("diptych.store.sqlite.index_cache.write_atomic", full)
    id = collection.add(photo_bytes(80))[0].id
    collection.close()
    assert "the index cache was not written: No space left on device" in caplog.text
    monkeypatch.undo()
    with Collection.open(collection.directory, scorer) as again:
        assert id in found(again, photo_bytes(80))


def test_what_a_store_says_of_a_file_makes_no_page_of_it(collection):
    page, known = b"<script src=/v1/images/x/content></script>", collection.list(1)[0]
    digest, (tokens, embedding) = sha256(page).hexdigest(), collection.store.panels([known.id])[known.id]
    facts = {"path": None, "media_type": "text/html", "width": 9, "height": 9, "metadata": {}, "data": page}
    features = {"revision": known.revision, "embedding": embedding, "tokens": tokens}
    collection.store.insert([NewPicture(id=digest[:32], sha256=digest, **facts, **features)])
    assert collection.content(digest[:32]) == (page, "application/octet-stream")
    assert collection.content(known.id)[1] == "image/jpeg"
