"""Rates, thresholds and false alarms: one is the other's inverse, and alarms are what drawing says."""

import numpy as np
import pytest

from diptych_runtime.calibration.thresholds import alarm_rate, rate_at, threshold_at
from diptych_runtime.manifest import Question

STATED = {"0.01": 0.8, "0.001": 0.95, "0.0001": 0.99}


@pytest.mark.parametrize("rate", STATED)
def test_a_stated_rate_has_its_threshold_and_the_threshold_its_rate(rate):
    assert threshold_at(STATED, float(rate)) == pytest.approx(STATED[rate])
    assert rate_at(STATED, STATED[rate]) == pytest.approx(float(rate))


def test_one_is_the_inverse_of_the_other_beyond_what_is_stated_too():
    powers = np.linspace(2, 9, 40)
    thresholds = [threshold_at(STATED, 10.0**-power) or 0.0 for power in powers]
    assert thresholds == sorted(set(thresholds))
    for power, bar in zip(powers, thresholds, strict=True):
        assert rate_at(STATED, bar) == pytest.approx(10.0**-power)


def test_nothing_is_more_lenient_than_what_is_stated():
    assert threshold_at(STATED, 0.3) == pytest.approx(0.8)
    assert rate_at(STATED, 0.1) == pytest.approx(0.01)


@pytest.mark.parametrize("stated", [{}, {"0.01": 0.9}, {"0.01": 0.9, "0.001": 1.0}, {"0.01": 0.9, "0.001": 0.9}])
def test_too_few_thresholds_say_nothing(stated):
    assert rate_at(stated, 0.9) is None
    assert alarm_rate(stated, 0.9, 100) is None
    assert Question(negatives={"random": stated}).alarm_rate(100) is None
    assert threshold_at({"0.01": 0.9}, 0.01) is None


def test_alarms_are_as_many_as_drawing_that_many_strangers_gives():
    """A search alarms unless all of N strangers stay below the threshold."""
    rng, threshold = np.random.default_rng(0), 0.97
    rate = rate_at(STATED, threshold)
    assert rate is not None
    for pictures in (1, 30, 1000, 10_000):
        alarmed = (rng.binomial(pictures, rate, 20_000) > 0).mean()
        assert alarm_rate(STATED, threshold, pictures) == pytest.approx(alarmed, abs=0.012)
    assert alarm_rate(STATED, threshold, 0) == 0
    assert alarm_rate(STATED, threshold, 10**9) == pytest.approx(1)


def test_a_question_counts_its_alarms_from_random_negatives_and_its_strictest_threshold():
    question = Question(thresholds={"0.01": 0.7, "0.001": 0.97}, negatives={"random": STATED})
    assert question.alarm_rate(500) == alarm_rate(STATED, 0.97, 500)
    assert question.alarm_rate(500, 0.9) == alarm_rate(STATED, 0.9, 500)
    assert Question(thresholds=STATED).alarm_rate(500) is None
