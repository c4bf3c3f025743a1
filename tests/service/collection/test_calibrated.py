"""The calibration beside a collection: laid over its scorer, left out over another model, refused if damaged."""

from dataclasses import replace

import pytest

from diptych import Collection, Scorer
from diptych.collection.collection import with_own_calibration
from diptych_runtime.errors import ArtifactError
from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration, OwnQuestion, released_digest


def own(scorer: Scorer, **changes) -> OwnCalibration:
    manifest = scorer.runtime.released
    questions = {name: OwnQuestion(2.0, 1.0, {"0.01": 0.9}) for name in manifest.questions}
    made = OwnCalibration("tiny", manifest.revision, released_digest(manifest), "2026-11-25", questions)
    return replace(made, **changes)


def test_it_is_laid_over_the_scorer_of_the_collection_and_over_no_other(scorer, collection):
    own(scorer).save(collection.directory / CALIBRATION)
    collection.close()
    with Collection.open(collection.directory, scorer, read_only=True) as again:
        assert again.scorer.runtime.own == own(scorer)
        assert again.scorer.runtime.thresholds == {"0.01": 0.9}
        assert again.scorer.scheduler is scorer.scheduler
    assert scorer.runtime.own is None


def test_one_over_another_model_is_left_out_with_a_warning_and_a_scorer_with_its_own_keeps_that(
    scorer, tmp_path, caplog
):
    assert with_own_calibration(scorer, tmp_path) is with_own_calibration(scorer, None) is scorer
    own(scorer).save(tmp_path / CALIBRATION)
    chosen = scorer.with_calibration(own(scorer, made="2020-01-01"))
    assert with_own_calibration(chosen, tmp_path) is chosen
    own(scorer, revision="0123456789ab").save(tmp_path / CALIBRATION)
    assert with_own_calibration(scorer, tmp_path) is scorer
    assert "made over another model or calibration (tiny 0123456789ab)" in caplog.text


def test_a_damaged_one_is_refused_and_lets_the_next_writer_in(scorer, collection):
    (collection.directory / CALIBRATION).write_text("{")
    collection.close()
    with pytest.raises(ArtifactError, match="cannot be read as JSON"):
        Collection.open(collection.directory, scorer)
    (collection.directory / CALIBRATION).unlink()
    Collection.open(collection.directory, scorer).close()
