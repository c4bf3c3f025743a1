"""`diptych models`: those that are here, and another one for a collection."""

import json
import shutil

import pytest

from diptych import Collection
from diptych.store.sqlite.database import Store
from diptych_runtime.models import bundled_models, find_artifact, own_models, own_models_folder


@pytest.fixture
def own(other_artifact, data_home):
    """A model of one's own by the name *better*, of another revision than the collection's."""
    return shutil.copytree(other_artifact, data_home / "diptych-models" / "better")


WAY = ("--provider", "cpu", "--threads", 1)


def test_the_list_has_bundled_models_and_ones_own_with_revision_size_and_questions(diptych, own):
    found = {one["name"]: one for one in diptych("models", "list", "--json").json}
    assert list(found) == [*bundled_models(), "better"]
    assert found["photo"]["questions"] == ["copy", "thing"]
    assert found["photo"]["bundled"]
    assert (found["better"]["path"], found["better"]["revision"]) == (str(own), "0123456789ab")
    assert found["better"]["bytes"] == sum(file.stat().st_size for file in own.iterdir())
    shown = diptych("models", "list").out
    assert "better       0123456789ab  match" in shown
    (own / "manifest.json").write_text("{")
    assert "cannot be read as JSON" in diptych("models", "list").out, "a damaged one is listed with its fault"


def test_a_model_of_ones_own_is_found_by_name_unless_a_folder_here_or_a_bundled_one_has_it(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_artifact("better") == own
    shutil.copytree(own, tmp_path / "better")
    assert str(find_artifact("better")) == "better"
    shutil.copytree(own, own.parent / "photo")
    assert own_models() == ["better"]
    assert find_artifact("photo").parent.name == "models"
    monkeypatch.setenv("DIPTYCH_MODELS", str(tmp_path))
    assert own_models_folder() == tmp_path


def test_from_then_on_commands_open_the_collection_with_it_unless_one_is_named(
    diptych, store, own, artifact, gallery, monkeypatch
):
    assert diptych("models", "use", artifact, "--store", store, *WAY).code == 0
    used = diptych("models", "use", "better", "--store", store, *WAY)
    assert (used.code, used.err) == (0, "")
    kept, scored = used.out.splitlines()
    assert kept == f"{store}: model better (0123456789ab); 12 pictures keep their features, 0 embedded anew"
    assert scored.startswith("pairs are scored in float32: ")
    picture = next(gallery.glob("*.jpg"))
    assert len(diptych("search", picture, "--store", store, "--threads", 1, "--json").json["matches"]) == 10
    stats = diptych("index", "stats", "--store", store).out
    assert "  model     better (0123456789ab), 12 pictures\n  adopted   better\n" in stats
    named = diptych("search", picture, "--store", store, "--model", artifact, "--threads", 1)
    assert (named.code, "embedded by another model (0123456789ab)" in named.err) == (1, True)
    back = diptych("models", "use", artifact, "--store", store, *WAY, "--json").json
    assert (back["kept"], back["rebuilt"], back["model"]) == (12, None, str(artifact))


def test_a_collection_that_is_being_written_or_is_none_is_left_alone(diptych, store, scorer, own, tmp_path):
    with Collection.open(store, scorer):
        refused = diptych("models", "use", "better", "--store", store, *WAY)
        (tmp_path / "config.json").write_text("{}")
        early = diptych("models", "use", tmp_path, "--store", store, *WAY)
    assert early.err == refused.err, "before anything is exported"
    assert refused.code == 1
    assert "is being written by process" in refused.err
    with Store.open(store, read_only=True) as opened:
        assert opened.adopted_model() is None
    nowhere = diptych("models", "use", "better", "--store", tmp_path / "none", *WAY)
    assert "holds no collection" in nowhere.err
    unknown = diptych("models", "use", "bettr", "--store", store, *WAY)
    assert unknown.code == 2
    assert "nor one of your own (better)" in unknown.err


def test_a_run_is_exported_among_ones_own_models_and_another_of_its_name_gets_a_number(
    diptych, store, artifact, other_artifact, own, tmp_path, monkeypatch
):
    made, lines = {"from": artifact}, []

    class Done:
        returncode, stdout, stderr = 0, "", ""

    def run(line, **options):
        lines.append(line[line.index("export") :])
        shutil.copytree(made["from"], line[line.index("-o") + 1])
        return Done

    monkeypatch.setattr("diptych.cli.models.subprocess.run", run)
    (tmp_path / "better" / "best").mkdir(parents=True)
    (tmp_path / "better/best/config.json").write_text("{}")
    used = diptych("models", "use", tmp_path / "better", "--store", store, *WAY, "--json")
    assert used.json["model"] == "better-2", "better is of another revision"
    assert lines[0][:2] == ["export", str(tmp_path / "better/best")]
    assert "--weights" in lines[0]
    again = diptych("models", "use", tmp_path / "better", "--store", store, *WAY, "--json")
    assert again.json["model"] == "better-2", "the same revision is not kept twice"
    named = diptych("models", "use", tmp_path / "better", "--name", "mine", "--store", store, *WAY, "--json")
    assert named.json["model"] == "mine"
    assert sorted(own_models()) == ["better", "better-2", "mine"]
    Done.returncode, Done.stderr = 1, "error: the gate did not open\n"
    failed = diptych("models", "use", tmp_path / "better", "--store", store, *WAY)
    assert (failed.code, "could not be exported: the gate did not open" in failed.err) == (1, True)
    assert not list(own_models_folder().glob(".*")), "nothing half made is left"
    assert json.loads((own / "manifest.json").read_text())["revision"] == "0123456789ab"


def test_a_model_that_was_moved_away_is_named_with_the_ways_to_bring_it_back(
    diptych, store, other_artifact, own, gallery, tmp_path
):
    moved = shutil.copytree(other_artifact, tmp_path / "mine")
    assert diptych("models", "use", moved, "--store", store, *WAY).code == 0
    shutil.rmtree(moved)
    picture = next(gallery.glob("*.jpg"))
    assert diptych("search", picture, "--store", store, "--threads", 1).code == 0, "better is of the same revision"
    shutil.rmtree(own)
    gone = diptych("search", picture, "--store", store, "--threads", 1)
    assert gone.code == 1
    assert f"has the model {moved} (0123456789ab), which is not there any more: put it back" in gone.err
    assert "diptych models use PATH" in gone.err
