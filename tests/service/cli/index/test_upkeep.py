"""`diptych index rebuild`: a collection brought to a model, and mended."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from folders import records

from diptych.store.sqlite import rebuild as rebuilding
from diptych.store.sqlite.database import Store
from diptych_runtime.models import models_by_name


def test_verify_and_rebuild(diptych, store, model, other_artifact, gallery):
    assert diptych("index", "verify", "--store", store).out.startswith("12 pictures checked, no problem found")
    other = ("--model", other_artifact)
    refused = diptych("search", gallery / "01.jpg", "--store", store, *other)
    assert refused.code == 1
    assert f"diptych index rebuild --store {store}" in refused.err
    (gallery / "01.jpg").unlink()
    partly = diptych("index", "rebuild", "--store", store, *other, "--json")
    assert partly.code == 1
    assert (partly.json["embedded"], partly.json["failed"]) == (11, 1)
    assert "01.jpg does not exist" in partly.json["failures"][0]["reason"]
    assert diptych("index", "rebuild", "--store", store, *other, "--drop-missing").code == 0
    assert diptych("search", gallery / "02.jpg", "--store", store, *other).code == 0


def test_rebuild_drops_nothing_of_a_disk_that_may_be_away_unless_told_to(diptych, store, model, gallery):
    gallery.rename(gallery.with_name("disk"))
    words = ("index", "rebuild", "--store", store, *model, "--all", "--drop-missing")
    refused = diptych(*words)
    assert refused.code == 1
    assert "12 could not be read (0 removed, 12 kept):" in refused.out
    assert "mount it, or add --allow-removal" in refused.out
    assert diptych(*words, "--json").json["spared"] == {
        f"{gallery} does not exist": 8,
        f"{gallery / 'more'} does not exist": 4,
    }
    gone = diptych(*words, "--allow-removal", "--json")
    assert (gone.code, gone.json["removed"], gone.json["pictures"], gone.json["spared"]) == (0, 12, 0, {})


def test_a_collection_that_one_model_here_embedded_is_opened_with_it_unnamed(diptych, gallery, tmp_path):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", "omniglot", "--threads", 1).code == 0
    picture = str(records(store)[0].path)
    for words in (("search", picture), ("index", "rebuild"), ("index", "add", gallery)):
        done = diptych(*words, "--store", store, "--threads", 1)
        assert done.code == 0, done.err
    assert {record.revision for record in records(store)} == {models_by_name()["omniglot"].revision}
    Path(picture).unlink()
    changed = diptych("index", "rebuild", "--store", store, "--model", "photo", "--threads", 1)
    assert changed.code == 1
    assert "1 picture still of another model" in changed.out
    mixed = diptych("search", records(store)[1].path, "--store", store, "--threads", 1)
    assert (mixed.code, "1 of the 12 pictures in" in mixed.err) == (1, True)
    assert diptych("index", "rebuild", "--store", store, "--drop-missing", "--threads", 1).code == 0
    assert diptych("search", records(store)[1].path, "--store", store, "--threads", 1).code == 0


def test_an_interrupted_change_of_model_goes_on_without_a_name(diptych, gallery, tmp_path, monkeypatch):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", "omniglot", "--threads", 1).code == 0
    with monkeypatch.context() as during:
        during.setattr(rebuilding, "BATCH", 4)
        during.setattr(Store, "replace_features", _first_batch_alone(Store.replace_features))
        assert diptych("index", "rebuild", "--store", store, "--model", "photo-small", "--threads", 1).code == 130
    assert len({record.revision for record in records(store)}) == 2
    assert "embedded by several models" in diptych("index", "verify", "--store", store).out
    assert diptych("index", "rebuild", "--store", store, "--threads", 1).code == 0
    assert {record.revision for record in records(store)} == {models_by_name()["photo-small"].revision}


def _first_batch_alone(replace):
    done = []

    def replace_once(*words):
        if done:
            raise KeyboardInterrupt
        done.append(replace(*words))

    return replace_once


@pytest.mark.parametrize("revisions", [["0123456789ab"], ["0123456789ab", "fedcba987654"]])
def test_pictures_of_a_model_that_is_not_here_are_not_embedded_by_one_that_nobody_named(diptych, store, revisions):
    with Store.open(store) as opened:
        for record, revision in zip(opened.page(100), itertools.cycle(revisions)):
            opened.replace_features([(record.id, *_features(opened, record.id))], revision)
    before = records(store)
    refused = diptych("index", "rebuild", "--store", store)
    assert refused.code == 2
    assert "name the model to embed them with (--model NAME)" in refused.err
    assert f"0123456789ab ({12 // len(revisions)}, none of the models here)" in refused.err
    assert records(store) == before


def test_pictures_of_an_earlier_release_are_embedded_by_the_present_one_without_its_name(diptych, store):
    with Store.open(store) as opened:
        for record in opened.page(100):
            opened.replace_features([(record.id, *_features(opened, record.id))], "890d5beb348c")
    told = diptych("index", "stats", "--store", store)
    assert "  model     an earlier release of photo (890d5beb348c), 12 pictures" in told.out
    made = diptych("index", "rebuild", "--store", store)
    assert made.code == 0, made.err
    with Store.open(store) as opened:
        assert list(opened.count_revisions()) == [models_by_name()["photo"].revision]


def _features(store: Store, id: str) -> tuple[bytes, bytes]:
    tokens, embedding = store.panels([id])[id]
    return embedding, tokens


def test_a_model_that_was_exchanged_in_its_place_stays_the_collections(diptych, gallery, tmp_path, artifact):
    store, model = tmp_path / "store", shutil.copytree(artifact, tmp_path / "model")
    assert diptych("index", "add", gallery, "--store", store, "--model", model, "--threads", 1).code == 0
    assert diptych("models", "use", model, "--store", store, "--threads", 1).code == 0
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "manifest.json").write_text(json.dumps({**manifest, "revision": "0123456789ab"}))
    picture = next(path for path in gallery.rglob("*") if path.is_file())
    refused = diptych("search", picture, "--store", store, "--threads", 1)
    assert (refused.code, "`diptych index rebuild" in refused.err) == (1, True), refused.err
    assert diptych("index", "rebuild", "--store", store, "--threads", 1).code == 0
    assert f"  adopted   {model}\n" in diptych("index", "stats", "--store", store).out
    found = diptych("search", picture, "--store", store, "--threads", 1)
    assert found.code == 0, found.err
