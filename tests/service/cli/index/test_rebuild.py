"""A collection brought to a model, and the one that commands open it with afterwards."""

import json
import shutil


def test_a_model_that_was_exchanged_in_its_place_stays_the_collections(diptych, gallery, tmp_path, artifact):
    store, model = tmp_path / "store", shutil.copytree(artifact, tmp_path / "model")
    assert diptych("index", "add", gallery, "--store", store, "--model", model, "--threads", 1).code == 0
    assert diptych("models", "use", model, "--store", store, "--threads", 1).code == 0
    manifest = json.loads((model / "manifest.json").read_text())
    (model / "manifest.json").write_text(json.dumps({**manifest, "revision": "0123456789ab"}))
    remark = f"its model {model} is another one now (0123456789ab) than that which embedded it ({manifest['revision']})"
    for words in (("index", "verify"), ("doctor",)):
        assert f"{remark}; `diptych index rebuild` embeds it anew" in diptych(*words, "--store", store).out
    assert diptych("index", "rebuild", "--store", store, "--threads", 1).code == 0
    assert f"  adopted   {model}\n" in diptych("index", "stats", "--store", store).out
    picture = next(path for path in gallery.rglob("*") if path.is_file())
    found = diptych("search", picture, "--store", store, "--threads", 1)
    assert found.code == 0, found.err
    assert remark not in diptych("index", "verify", "--store", store).out


def test_a_new_collection_keeps_the_model_that_it_was_filled_by_if_only_its_path_tells_it(
    diptych, gallery, tmp_path, artifact
):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", artifact, "--threads", 1).code == 0
    stats = diptych("index", "stats", "--store", store).out
    assert f"  model     {artifact.name} (" in stats
    assert f"  adopted   {artifact}\n" in stats
    picture = next(path for path in gallery.rglob("*") if path.is_file())
    found = diptych("search", picture, "--store", store, "--threads", 1)
    assert found.code == 0, found.err
    other = tmp_path / "other"
    assert diptych("index", "sync", gallery, "--store", other, "--model", artifact, "--threads", 1).code == 0
    assert diptych("search", picture, "--store", other, "--threads", 1).code == 0
