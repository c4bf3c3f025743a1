"""`diptych index stats`: the model of a collection, and the calibration in force."""

from dataclasses import replace
from pathlib import Path

import pytest

from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration, OwnQuestion, released_digest


@pytest.fixture
def store(collection) -> Path:
    """The folder of a collection of the gallery's 12 pictures that nobody has open."""
    collection.close()
    return collection.directory


def test_stats_name_the_model_that_the_pictures_are_of(diptych, store, monkeypatch, artifact):
    (revision,) = diptych("index", "stats", "--store", store, "--json").json["revisions"]
    strange = diptych("index", "stats", "--store", store)
    assert f"  model     not here by name ({revision}), " in strange.out
    monkeypatch.setenv("DIPTYCH_MODELS", str(artifact.parent))
    known = diptych("index", "stats", "--store", store)
    assert f"  model     {artifact.name} ({revision}), " in known.out
    assert diptych("index", "stats", "--store", store, "--json").json["models"] == {revision: artifact.name}


def test_stats_name_the_calibration_in_force_and_why_one_is_not(diptych, store, scorer, artifact, monkeypatch):
    assert "  verdicts  as released\n" in diptych("index", "stats", "--store", store).out
    assert diptych("index", "stats", "--store", store, "--json").json["calibration"] is None
    manifest = scorer.runtime.released
    own = OwnQuestion(0.5, -1.0, {"0.01": 0.6}, same=30, different=40)
    made = OwnCalibration("tiny", manifest.revision, released_digest(manifest), "2026-11-25", {"match": own})
    made.save(store / CALIBRATION)
    monkeypatch.setenv("DIPTYCH_MODELS", str(artifact.parent))
    words = "  verdicts  by the collection's own calibration of 2026-11-25 (match: 30 labels same, 40 different)\n"
    assert words in diptych("index", "stats", "--store", store).out
    found = diptych("index", "stats", "--store", store, "--json").json["calibration"]
    assert (found["made"], found["in_force"], found["questions"]) == (
        "2026-11-25",
        True,
        {"match": {"same": 30, "different": 40}},
    )
    for other in (replace(made, revision="0" * 12), replace(made, released="0" * 12)):
        other.save(store / CALIBRATION)
        assert not diptych("index", "stats", "--store", store, "--json").json["calibration"]["in_force"]
        rebuilt = diptych("index", "rebuild", "--store", store, "--model", artifact)
        assert f"`diptych calibrate --store {store}` makes it anew from the same labels" in rebuilt.out
        assert "was made over another model" in diptych("index", "stats", "--store", store).out
    replace(made, questions={"hat": own}).save(store / CALIBRATION)
    strange = diptych("index", "stats", "--store", store, "--json").json["calibration"]
    assert (strange["in_force"], "the question 'hat', which the model" in strange["error"]) == (False, True)
    (store / CALIBRATION).write_text("{")
    assert "cannot be read as JSON" in diptych("index", "stats", "--store", store).out
