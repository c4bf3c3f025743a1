from dataclasses import replace

import numpy as np
import pytest

from diptych.dedupe.threshold import (
    alarm_rate,
    by_rates,
    check_threshold,
    threshold_of,
)
from diptych.errors import DedupeError
from diptych_runtime.calibration.evidence import NUMBERS, Verification
from diptych_runtime.calibration.false_discovery import discovery_threshold, doubts
from diptych_runtime.manifest import Manifest
from diptych_runtime.models import find_artifact
from diptych_runtime.runtime import Runtime

NONE = np.empty(0)
STATED = {"0.01": 0.94, "0.001": 0.9988, "0.0001": 0.9997}


def test_more_pictures_are_treated_more_strictly_and_ten_thousand_as_one_in_a_thousand():
    found = [by_rates(STATED, count) for count in (1_500, 5_000, 20_000, 100_000, 1_000_000, 10_000_000)]
    assert found == sorted(set(found))
    assert found[-1] < 1
    assert by_rates(STATED, 10_001) == pytest.approx(0.9988, abs=1e-6)
    assert by_rates(STATED, 100_001) == pytest.approx(0.9997, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 2, 500, 1_000])
def test_few_pictures_are_treated_as_leniently_as_the_model_states_and_no_more(count):
    assert by_rates(STATED, count) == pytest.approx(0.94)


@pytest.mark.parametrize("stated", [{}, {"0.01": 0.9}, {"0.01": 0.9, "0.001": 1.0}])
def test_a_model_without_rates_is_refused_with_the_way_out(stated):
    shown = ", ".join(f"{least:.4f} at {rate}" for rate, least in stated.items()) or "none"
    with pytest.raises(DedupeError, match=rf"the model states {shown}; give a number between 0 and 1"):
        by_rates(stated, 1000)


def test_after_a_closer_look_the_scores_say_how_strict_to_be_and_how_often_it_is_wrong(artifact):
    runtime = looking(Runtime.open(artifact, threads=1))
    known = scores(hard=20)
    limit = threshold_of(runtime, known, 400)
    assert limit == discovery_threshold(known, 400)
    assert alarm_rate(runtime, known, limit, 400) == pytest.approx(2 * doubts(known, 400)[known >= limit].sum() / 400)
    assert alarm_rate(runtime, known, 1e-9, 4) == 1.0
    assert threshold_of(runtime, known, 1_000, 600) == limit, "references are not asked for"
    with_references = alarm_rate(runtime, known, limit, 1_000, 600)
    assert with_references == pytest.approx(2 * doubts(known, 400)[known >= limit].sum() / 1_000)


def test_only_a_model_that_takes_no_closer_look_needs_rates(artifact):
    runtime = Runtime.open(artifact, threads=1)
    check_threshold("auto", runtime)
    (name,) = runtime.questions
    question = replace(runtime.manifest.questions[name], thresholds={})
    runtime.manifest = replace(runtime.manifest, questions={name: question})
    runtime._set_question(name)
    check_threshold(0.9, runtime)
    with pytest.raises(DedupeError, match="the model states none; give a number"):
        check_threshold("auto", runtime)
    check_threshold("auto", looking(runtime))


def looking(runtime: Runtime) -> Runtime:
    """The model, as if it took a closer look."""
    (name,) = runtime.questions
    look = Verification(0.9, dict.fromkeys(NUMBERS, 0.0), STATED)
    question = replace(runtime.manifest.questions[name], verification=look)
    runtime.manifest = replace(runtime.manifest, questions={name: question})
    runtime._set_question(name)
    return runtime


def test_where_random_pairs_were_measured_a_picture_alarms_once_in_ten_at_most(artifact):
    runtime = Runtime.open(artifact, threads=1)
    (name,) = runtime.questions
    plain = threshold_of(runtime, NONE, 2_000)
    for random, stricter in (({"0.01": 0.2, "0.0001": 0.3}, False), ({"0.01": 0.9, "0.0001": 0.9999}, True)):
        question = replace(runtime.manifest.questions[name], negatives={"random": random})
        runtime.manifest = replace(runtime.manifest, questions={name: question})
        found = threshold_of(runtime, NONE, 2_000)
        assert (found > plain) == stricter
        assert (alarm_rate(runtime, NONE, found, 2_000) or 1) < 0.101


def test_a_reference_counts_twice_as_each_other_picture_is_in_a_whole_pair_with_it(artifact):
    runtime = Runtime.open(artifact, threads=1)
    assert threshold_of(runtime, NONE, 30_000, 20_000) == threshold_of(runtime, NONE, 50_000)
    assert threshold_of(runtime, NONE, 30_000, 20_000) > threshold_of(runtime, NONE, 30_000)


def scores(hard: int, others: int = 1000) -> np.ndarray:
    """Those of pairs of which so many are hard to tell, and the others surely no copies or surely some."""
    return np.concatenate([np.linspace(0.3, 0.849, hard), np.full(others, 0.01), np.full(50, 0.999)])


def test_the_released_model_states_what_it_takes():
    assert 0.94 < by_rates(Manifest.load(find_artifact("photo-small")).thresholds, 20_000) < 1
