import pytest

from diptych_runtime.calibration.verdicts import VERDICTS, verdict, verdict_thresholds

THRESHOLDS = {"0.01": 0.8, "0.001": 0.95, "0.0001": 0.99}


@pytest.mark.parametrize(
    ("relevance", "expected"),
    [
        (1, "same"),
        (0.99, "same"),
        (0.98, "likely"),
        (0.95, "likely"),
        (0.9, "unsure"),
        (0.5, "unsure"),
        (0.4, "different"),
    ],
)
def test_a_verdict_follows_from_the_two_strictest_thresholds_and_even_odds(relevance, expected):
    assert verdict(relevance, THRESHOLDS) == expected


def test_a_higher_probability_never_has_a_weaker_verdict():
    for thresholds in ({}, {"0.01": 0.3}, THRESHOLDS):
        found = [VERDICTS.index(verdict(step / 1000, thresholds)) for step in range(1001)]
        assert found == sorted(found, reverse=True)
        assert set(found) >= {0, 3}


def test_of_one_threshold_same_is_not_said_more_lightly_than_without_any():
    assert verdict_thresholds({"0.001": 0.96}) == {"same": 0.99, "likely": 0.96, "unsure": 0.5}
    assert verdict_thresholds({"0.001": 0.999}) == {"same": 0.999, "likely": 0.999, "unsure": 0.5}
    assert verdict_thresholds({})["same"] == 0.99
