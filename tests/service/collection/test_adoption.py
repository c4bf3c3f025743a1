"""Another model for a collection: features stay where the panel graph is the same, and a kill changes nothing."""

import hashlib
import json
import shutil
from typing import cast

import pytest
from embedded import tamper

from diptych import Collection, Scorer
from diptych.collection.rebuild import adopt_model, rebuild_collection
from diptych.errors import StoreError, StoreInUseError
from diptych.store.sqlite.database import AdoptedModel, Store
from diptych.store.sqlite.verify import verify_store
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration, OwnQuestion, released_digest


@pytest.fixture
def store(collection):
    """The folder of a closed collection of 12 pictures, with a model adopted whose panel graph is known."""
    collection.close()
    adopt_model(collection.directory, collection.scorer, "tiny")
    return collection.directory


@pytest.fixture(scope="session")
def other(other_artifact) -> Scorer:
    """The scorer of another revision with the same panel graph."""
    return Scorer.load(str(other_artifact), provider="cpu", threads=1)


@pytest.fixture
def stranger(other_artifact, tmp_path) -> Scorer:
    """The scorer of another revision whose panel graph, by its digest, is another."""
    directory = shutil.copytree(other_artifact, tmp_path / "stranger")
    panel = (directory / "panel.onnx").read_bytes() + b"\x72\x00"  # an empty field, which changes nothing but bytes
    (directory / "panel.onnx").write_bytes(panel)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["digests"]["panel.onnx"] = hashlib.sha256(panel).hexdigest()
    manifest["revision"] = "ffffffffffff"
    (directory / "manifest.json").write_text(json.dumps(manifest))
    return Scorer.load(str(directory), provider="cpu", threads=1)


def test_with_the_same_panel_graph_nothing_is_embedded_and_everything_else_stays(store, other, scorer, caplog):
    before = features_of(store)
    with Collection.open(store, scorer) as collection:
        a, b = (record.id for record in collection.list(2))
        collection.label(a, b, "same")
    done = adopt_model(store, other, "better")
    assert (done.kept, done.rebuilt, done.calibration) == (12, None, False)
    assert features_of(store) == before
    caplog.clear()
    with Collection.open(store, other) as collection:
        assert not caplog.records, "the index is the one that was there"
        assert collection.store.adopted_model() == AdoptedModel(
            "better", other.runtime.revision, other.runtime.released.digests["panel.onnx"]
        )
        assert len(collection.labels()) == 1
        assert len(collection.search(str(collection.list(1)[0].path)).matches) == 10
        assert verify_store(collection.store).healthy, "checksums are of the new revision too"
    with pytest.raises(StoreError, match="embedded by another model"):
        Collection.open(store, scorer)


def test_with_another_panel_graph_every_picture_is_embedded_anew(store, stranger, scorer):
    seen = []
    done = adopt_model(store, stranger, "stranger", on_progress=seen.append)
    assert (done.kept, sum(seen)) == (0, 12)
    assert done.rebuilt is not None
    assert done.rebuilt.embedded == 12
    with Store.open(store, read_only=True) as opened:
        assert opened.count_revisions() == {"ffffffffffff": 12}
    with Store.open(store) as writer:
        with pytest.raises(StoreInUseError, match="is being written by process"):
            adopt_model(store, scorer, "tiny")
        assert writer.adopted_model() == AdoptedModel("stranger", "ffffffffffff", _panel(stranger))
    rebuild_collection(store, scorer)
    with Store.open(store, read_only=True) as opened:
        assert opened.adopted_model() is None, "the pictures are of another model since"


def test_a_fault_in_the_middle_leaves_the_model_before(store, other, scorer):
    # The last statement of the transaction fails: no JSON can be made of this name.
    nameless = AdoptedModel(cast(str, object()), other.runtime.revision, _panel(other))
    with Store.open(store) as opened:
        with pytest.raises(TypeError, match="not JSON serializable"):
            opened.adopt_model(nameless, {scorer.runtime.revision})
        assert opened.adopted_model() == AdoptedModel("tiny", scorer.runtime.revision, _panel(scorer))
        assert list(opened.count_revisions()) == [scorer.runtime.revision]
        assert verify_store(opened).healthy


def test_a_calibration_over_the_model_before_goes_and_one_over_the_new_one_stays(store, other):
    manifest = other.runtime.released
    questions = {name: OwnQuestion(2.0, 1.0, {"0.01": 0.9}) for name in manifest.questions}
    fitting = OwnCalibration("better", manifest.revision, released_digest(manifest), "2026-11-25", questions)
    fitting.save(store / CALIBRATION)
    assert not adopt_model(store, other, "better").calibration
    OwnCalibration("tiny", "0" * 12, released_digest(manifest), "2026-11-25", questions).save(store / CALIBRATION)
    assert adopt_model(store, other, "better").calibration
    assert not (store / CALIBRATION).exists()


@pytest.mark.parametrize("value", ["[]", "nope", '{"a": 1}', '{"model": 1, "revision": 2, "panel": 3}', "9" * 5000])
def test_an_adopted_model_that_diptych_did_not_write_is_none_and_can_be_replaced(store, scorer, value):
    with Store.open(store) as opened:
        tamper(opened, "UPDATE facts SET value=? WHERE key='model'", value)
        assert opened.adopted_model() is None
    adopt_model(store, scorer, "tiny")
    with Store.open(store, read_only=True) as opened:
        assert opened.adopted_model() == AdoptedModel("tiny", scorer.runtime.revision, _panel(scorer))


def features_of(folder) -> dict[str, tuple[bytes, bytes]]:
    with Store.open(folder, read_only=True) as store:
        return store.panels([record.id for record in store.page(100)])


def _panel(scorer: Scorer) -> str:
    return scorer.runtime.released.digests["panel.onnx"]
