import numpy as np
import pytest

from diptych_runtime.calibration.reliability import expected_calibration_error, measure_reliability


def test_reliability_counts_every_pair_in_the_bin_of_its_confidence() -> None:
    probabilities, labels = np.array([0.05, 0.15, 0.16, 0.95, 1.0]), np.array([0, 1, 0, 1, 1], bool)
    counted = measure_reliability(probabilities, labels, bins=10)
    assert counted.pairs.tolist() == [1, 2, 0, 0, 0, 0, 0, 0, 0, 2]
    assert counted.frequency[[0, 1, 9]].tolist() == [0, 0.5, 1]
    assert counted.confidence[[0, 1, 9]] == pytest.approx([0.05, 0.155, 0.975])
    assert np.isnan(counted.frequency[2])
    assert counted.error == pytest.approx((0.05 + 2 * 0.345 + 2 * 0.025) / 5)
    assert counted.error == expected_calibration_error(probabilities, labels, bins=10)
