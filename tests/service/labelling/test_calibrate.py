"""Calibrations of one's own: fitted to labels, cross-validated, and laid over the model wherever it answers."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from diptych.errors import LabellingError, NotBetterError
from diptych.labelling.calibrate import Observed, fit_calibration, observe_pairs, observe_stored
from diptych.labelling.table import LabelledRow
from diptych.store.records import Label
from diptych_runtime.calibration.recalibration import recalibrate_probabilities
from diptych_runtime.manifest import Question

TWO = {name: Question(1.0, 0.0, {"0.01": 0.8, "0.001": 0.97}) for name in ("copy", "thing")}
ONE = {"match": Question(1.0, 0.0, {"0.01": 0.8, "0.001": 0.97})}


def scorer_of(questions) -> Any:
    released = SimpleNamespace(questions=questions, name="made", revision="0" * 12)
    return cast(Any, SimpleNamespace(runtime=SimpleNamespace(released=released)))


def observed(count: int, scale: float = 0.5, offset: float = -1.0, question: str = "copy", seed: int = 0) -> Observed:
    """Pairs of different pictures, whose true log-odds are on a line through the logit."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (count, 1)).astype(np.float32)
    same = rng.random(count) < 1 / (1 + np.exp(-(scale * logits[:, 0] + offset)))
    pairs = [Label(f"a{n}", f"b{n}", question, "same" if one else "different", "") for n, one in enumerate(same)]
    sides = np.arange(2 * count).reshape(-1, 2)
    return Observed(pairs, logits, [None] * count, sides)


def test_on_pictures_that_the_release_errs_about_the_error_falls_and_the_thresholds_move():
    fitted = fit_calibration(scorer_of(ONE), observed(1000), model="made")
    own, fit = fitted.calibration.questions["match"], fitted.questions["match"]
    assert (own.scale, own.offset) == (pytest.approx(0.5, abs=0.1), pytest.approx(-1.0, abs=0.25))
    assert (own.same + own.different, own.thresholds) == (1000, ONE["match"].thresholds)
    assert fit.reliability_after.error < 0.05 < 0.1 < fit.reliability_before.error
    gain, low, high = fit.gain
    assert 0 < low < gain < high
    for verdict, level in fit.levels.items():
        assert level.level < level.released, f"{verdict} takes more than the release says"
        low, high = level.interval
        assert low < level.released < high
        assert recalibrate_probabilities(np.array([level.released]), own.scale, own.offset)[0] == pytest.approx(
            level.level
        )


def test_a_fit_that_is_no_better_is_taken_if_it_is_forced():
    with pytest.raises(
        NotBetterError, match=r"do not show that a calibration is better .* --force \(force=True"
    ) as error:
        fit_calibration(scorer_of(ONE), observed(200, 1.0, 0.0), model="made")
    assert error.value.fitted.calibration.questions == {}
    fit = error.value.fitted.questions["match"]
    gain, low, _ = fit.gain
    assert (low < 0.01, abs(gain) < 0.02) == (True, True), "where the release is right nothing is gained"
    assert (fit.own.scale, fit.own.offset) == (pytest.approx(1.0, abs=0.3), pytest.approx(0.0, abs=0.5))
    forced = fit_calibration(scorer_of(ONE), observed(200, 1.0, 0.0), model="made", force=True)
    assert forced.calibration.questions["match"] == error.value.fitted.questions["match"].own
    assert not forced.questions["match"].is_better


def test_of_two_questions_only_the_one_whose_fit_is_better_is_calibrated():
    copies, things = observed(300), observed(300, 1.0, 0.0, "thing", seed=1)
    logits = np.concatenate([copies.logits, things.logits], 0).repeat(2, 1)
    sides = np.arange(1200).reshape(-1, 2)
    both = Observed([*copies.labels, *things.labels], logits, [None] * 600, sides)
    fitted = fit_calibration(scorer_of(TWO), both, model="made")
    assert list(fitted.questions) == ["copy", "thing"]
    assert list(fitted.calibration.questions) == ["copy"]
    assert (fitted.questions["copy"].is_better, fitted.questions["thing"].is_better) == (True, False)
    assert list(fit_calibration(scorer_of(TWO), both, model="made", force=True).calibration.questions) == [
        "copy",
        "thing",
    ]


def test_too_few_or_one_sided_labels_and_those_that_contradict_the_scores_are_refused():
    all_same = observed(300, 1.0, 30.0)
    unsure = replace(all_same, labels=[replace(label, answer="cannot tell") for label in all_same.labels])
    for given, told in (
        (observed(12), r"too few labels .*'match' needs at least 20 answers and 5 each .*, and has \d+ same"),
        (all_same, "has 300 same and 0 different. Label more"),
        (unsure, "has 0 same and 0 different"),
        (observed(300, -1.0, 0.0), r"no calibration of 'match' can be made: .* mixed up"),
    ):
        with pytest.raises(LabellingError, match=told):
            fit_calibration(scorer_of(ONE), given, model="made")


def test_a_pair_is_cross_validated_without_its_pictures():
    """Twins of every pair, with its very pictures, would give the answer away."""
    one = observed(61)
    twins = Observed([*one.labels, *one.labels], np.tile(one.logits, (2, 1)), [None] * 122, np.tile(one.sides, (2, 1)))
    fit = fit_calibration(scorer_of(ONE), twins, model="made").questions["match"]
    assert fit.after[:61].tolist() == fit.after[61:].tolist()
    alone = fit_calibration(scorer_of(ONE), replace(twins, sides=np.arange(244).reshape(-1, 2)), model="made")
    assert alone.questions["match"].after[:61].tolist() != alone.questions["match"].after[61:].tolist()


def test_stored_pictures_and_their_files_look_the_same_and_removed_ones_are_left_out(collection, label_every_pair):
    label_every_pair(collection)
    labels = collection.labels()
    stored = observe_stored(collection, labels)
    rows = [LabelledRow(0, one.path_a, one.path_b, "", "", one.question, one.answer, None) for one in labels]
    assert np.array_equal(stored.logits, observe_pairs(collection.scorer, rows).logits)
    collection.remove(labels[0].a)
    assert len(observe_stored(collection, labels).labels) == len(labels) - 11
