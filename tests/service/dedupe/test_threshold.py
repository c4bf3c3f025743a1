from dataclasses import replace

import numpy as np
import pytest

from diptych.dedupe.threshold import FALSE_PAIRS, REACHING, automatic, automatic_of, eased, expected_false, most_lenient
from diptych.errors import DedupeError
from diptych_runtime.calibration.evidence import FEATURES, Verification
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import find_artifact
from diptych_runtime.runtime import Runtime

STATED = {"0.01": 0.94, "0.001": 0.9988, "0.0001": 0.9997}


def test_ten_thousand_pictures_get_the_threshold_of_one_in_a_thousand():
    assert automatic(STATED, 10_001) == pytest.approx(0.9988, abs=1e-6)
    assert automatic(STATED, 100_001) == pytest.approx(0.9997, abs=1e-6)


def test_more_pictures_are_treated_more_strictly_up_to_any_number():
    found = [automatic(STATED, count) for count in (1_500, 5_000, 20_000, 100_000, 1_000_000, 10_000_000)]
    assert found == sorted(set(found))
    assert found[-1] < 1


@pytest.mark.parametrize("count", [0, 1, 2, 500, 1_000])
def test_few_pictures_are_treated_as_leniently_as_the_model_states_and_no_more(count):
    assert automatic(STATED, count) == pytest.approx(0.94)


@pytest.mark.parametrize("stated", [{}, {"0.01": 0.9}, {"0.01": 0.9, "0.001": 1.0}])
def test_a_model_without_rates_is_refused_with_the_way_out(stated):
    shown = ", ".join(f"{least:.4f} at {rate}" for rate, least in stated.items()) or "none"
    with pytest.raises(DedupeError, match=rf"the model states {shown}; give a number between 0 and 1"):
        automatic(stated, 1000)


def test_the_released_model_states_what_it_takes():
    assert 0.94 < automatic(Manifest.load(find_artifact("photo-small")).thresholds, 20_000) < 1


def test_a_report_begins_at_the_most_lenient_stated_threshold():
    assert most_lenient(STATED) == 0.94
    assert most_lenient({}) == 0.5


def test_after_a_closer_look_a_picture_has_its_near_look_alikes_however_many_others_there_are(artifact):
    runtime = Runtime.open(artifact, threads=1)
    (name,) = runtime.questions
    assert automatic_of(runtime, 2_000) == automatic(runtime.thresholds, 2_000)
    look = Verification(0.9, dict.fromkeys(FEATURES, 0.0), STATED)
    question = replace(runtime.manifest.questions[name], verification=look)
    runtime.manifest = replace(runtime.manifest, questions={name: question})
    runtime._answer(name)
    few, some, many = (automatic_of(runtime, count) for count in (10, 5_001, 200_000))
    assert few == pytest.approx(some) == pytest.approx(automatic(STATED, 5_001))
    assert some < many == automatic(STATED, 200_000)


def test_where_random_pairs_were_measured_a_picture_alarms_once_in_ten_at_most(artifact):
    runtime = Runtime.open(artifact, threads=1)
    (name,) = runtime.questions
    plain = automatic_of(runtime, 2_000)
    for random, stricter in (({"0.01": 0.2, "0.0001": 0.3}, False), ({"0.01": 0.9, "0.0001": 0.9999}, True)):
        question = replace(runtime.manifest.questions[name], negatives={"random": random})
        runtime.manifest = replace(runtime.manifest, questions={name: question})
        found = automatic_of(runtime, 2_000)
        assert (found > plain) == stricter
        assert (runtime.asked.alarm_rate(1_999, found) or 1) < 0.101


def test_a_reference_counts_twice_as_each_other_picture_is_in_a_whole_pair_with_it(artifact):
    runtime = Runtime.open(artifact, threads=1)
    assert automatic_of(runtime, 30_000, 20_000) == automatic_of(runtime, 50_000)
    assert automatic_of(runtime, 30_000, 20_000) > automatic_of(runtime, 30_000)


def scores(hard: int, others: int = 1000) -> np.ndarray:
    """Those of pairs of which so many are hard to tell, and the others surely no copies or surely some."""
    return np.concatenate([np.linspace(0.3, 0.849, hard), np.full(others, 0.01), np.full(50, 0.999)])


def test_a_collection_with_few_pairs_that_are_hard_to_tell_has_a_lower_threshold_and_no_lower_one_than_is_stated():
    found = [eased(0.985, scores(hard), 400, 0.876) for hard in (0, 3, 10, 20, 100, 500)]
    assert found == sorted(found)
    assert found[0] == found[1] == 0.876
    assert 0.88 < found[2] < found[3] < 0.95
    assert found[-2] == found[-1] == 0.985


def test_where_it_is_lower_no_more_false_pairs_are_expected_than_one_in_two_hundred_pictures():
    for hard, pictures in ((12, 400), (30, 400), (300, 4_000), (3_000, 40_000)):
        known = scores(hard)
        limit = eased(0.999, known, pictures, 0.5)
        assert limit < 0.999
        assert expected_false(known, limit) == pytest.approx(FALSE_PAIRS * pictures)


def test_the_higher_the_threshold_the_fewer_false_pairs_are_expected_of_whatever_is_hard_to_tell():
    assert expected_false(scores(20), 0.94) == pytest.approx(REACHING * 21)
    assert expected_false(scores(20), 0.99) < expected_false(scores(20), 0.94) < expected_false(scores(40), 0.94)


def test_more_pictures_of_the_same_kind_have_about_the_same_threshold_and_a_handful_none_of_its_own():
    few, many = (eased(0.999, scores(count // 20), count, 0.876) for count in (1_000, 100_000))
    assert few == pytest.approx(many, abs=2e-3)
    assert eased(0.985, scores(0), 4, 0.876) == eased(0.985, np.empty(0), 0, 0.876) == 0.985
