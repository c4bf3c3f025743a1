"""The line through released log-odds: what it finds, how sure it is, and how little few labels move it."""

import numpy as np
import pytest

from diptych_runtime.calibration.recalibration import (
    AS_RELEASED,
    fit_line,
    log_loss,
    log_odds,
    recalibrate_probabilities,
    sigmoid,
)


def drawn(count: int, scale: float, offset: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Released log-odds and labels, whose true log-odds are on a line, and one in a hundred a slip."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 3, count)
    same = rng.random(count) < 1 / (1 + np.exp(-(scale * odds + offset)))
    return odds, same ^ (rng.random(count) < 0.01)


def test_recalibrated_is_the_line_in_log_odds_and_as_released_the_very_same():
    known = np.array([1e-9, 0.2, 0.5, 0.97, 1.0])
    assert recalibrate_probabilities(known, *AS_RELEASED) is known
    assert log_odds(recalibrate_probabilities(known, 0.5, 1.0)) == pytest.approx(0.5 * log_odds(known) + 1.0)
    assert log_odds(np.array([0.0, 1.0])) == pytest.approx([-13.8, 13.8], abs=0.1)
    assert sigmoid(log_odds(known[1:4])) == pytest.approx(known[1:4])
    assert sigmoid(np.array([-1e6, 0.0, 1e6])).tolist() == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (0.6, -1.0), (1.6, 2.0)])
def test_of_many_labels_the_true_line_is_found_and_lies_within_its_spread(scale, offset):
    line = fit_line(*drawn(20_000, scale, offset))
    assert (line.scale, line.offset) == (pytest.approx(scale, abs=0.08), pytest.approx(offset, abs=0.08))
    assert np.sqrt(np.diag(line.covariance)) == pytest.approx([0.02, 0.03], abs=0.02)


def test_without_labels_it_is_the_released_calibration_and_few_labels_move_it_less_than_many():
    nothing = fit_line(np.empty(0), np.empty(0, bool))
    assert (nothing.scale, nothing.offset) == AS_RELEASED
    offsets = [fit_line(np.zeros(count), np.ones(count, bool)).offset for count in (1, 5, 25, 125)]
    assert offsets == sorted(offsets)
    assert 0 < offsets[0] < 1.5
    assert offsets[-1] > 3


def test_a_slip_of_the_labeller_moves_the_line_by_little():
    odds, labels = drawn(200, 1.0, 0.0)
    whole = fit_line(odds, labels)
    slipped = fit_line(np.append(odds, 13.0), np.append(labels, False))
    assert abs(slipped.scale - whole.scale) < 0.25
    assert log_loss(np.array([1.0]), np.array([False]))[0] == pytest.approx(-np.log(0.01))


def test_the_interval_of_a_threshold_holds_the_truth_as_often_as_it_says():
    level, held = 0.9, 0
    for seed in range(200):
        low, high = fit_line(*drawn(150, 0.8, 0.5, seed)).released_interval(level)
        truth = 1 / (1 + np.exp(-(np.log(9) - 0.5) / 0.8))
        held += low <= truth <= high
    assert 0.90 <= held / 200 <= 0.99


def test_labels_that_contradict_the_scores_are_refused():
    odds, labels = drawn(500, 1.0, 0.0)
    with pytest.raises(ValueError, match=r"likelier pairs match less often .* mixed up"):
        fit_line(odds, ~labels)
