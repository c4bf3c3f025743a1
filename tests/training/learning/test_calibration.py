import numpy as np
import pytest

from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_training.learning.calibration import (
    even_weights,
    fit_calibration,
    fit_thresholds,
)


def sample(count: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Logits whose true log-odds are 2.5 x - 1, at even odds of matches and others."""
    rng = np.random.default_rng(0)
    x = rng.normal(0.4, 1.2, count)
    return x, rng.random(count) < 1 / (1 + np.exp(-(2.5 * x - 1)))


def test_the_true_scale_is_found_and_the_probabilities_come_true_at_even_odds() -> None:
    x, labels = sample()
    fitted = fit_calibration(x, labels)
    assert fitted["scale"] == pytest.approx(2.5, rel=0.03)
    matches, others = x[labels], x[~labels]
    even = min(len(matches), len(others))
    probabilities = 1 / (1 + np.exp(-(fitted["scale"] * np.r_[matches[:even], others[:even]] + fitted["offset"])))
    assert expected_calibration_error(probabilities, np.r_[np.ones(even), np.zeros(even)]) < 0.01


def test_separable_pairs_do_not_send_the_scale_to_infinity() -> None:
    fitted = fit_calibration(np.array([-1.0, -0.5, 0.5, 1.0]), np.array([0, 0, 1, 1], bool))
    assert 1 < fitted["scale"] < 100


def test_a_threshold_lets_through_no_more_than_its_rate() -> None:
    probabilities = np.random.default_rng(1).random(5_000)
    labels = np.zeros(5_000, bool)
    thresholds = fit_thresholds(probabilities, labels)
    assert set(thresholds) == {"0.01", "0.001"}  # 5,000 pairs cannot support 0.01 %
    for rate, threshold in thresholds.items():
        passed = (probabilities >= threshold).mean()
        assert float(rate) * 0.9 <= passed <= float(rate)


def test_even_weights_let_few_matches_count_as_much_as_many_others() -> None:
    labels = np.r_[np.ones(2, bool), np.zeros(98, bool)]
    weights = even_weights(labels)
    assert weights[labels].sum() == pytest.approx(weights[~labels].sum())
    # Always "as likely as not" is right on average at even odds, however rare matches are among the pairs.
    assert expected_calibration_error(np.full(100, 0.5), labels, weights) == pytest.approx(0)
    assert expected_calibration_error(np.full(100, 0.5), labels) == pytest.approx(0.48)


@pytest.mark.parametrize(
    ("logits", "labels", "message"),
    [
        ([1.0, 2.0], [True, True], "got 100 matches of 100 pairs"),
        ([1.0, -1.0], [False, True], "rank others above matches"),
    ],
)
def test_pairs_that_cannot_calibrate_are_refused(logits: list[float], labels: list[bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_calibration(np.array(logits * 50), np.array(labels * 50))
