import numpy as np
import pytest

from diptych_studies.intervals import bootstrap, student_interval


def test_the_bootstrap_interval_holds_the_mean_and_narrows_with_more_queries() -> None:
    values = np.random.default_rng(0).random(400)
    low, high = bootstrap(lambda rows: float(values[rows].mean()), 400)
    few_low, few_high = bootstrap(lambda rows: float(values[:25][rows].mean()), 25)
    assert low < values.mean() < high
    assert high - low < (few_high - few_low) / 2


def test_the_interval_of_three_seeds_is_students_and_one_seed_has_none() -> None:
    # 4.303 * sqrt(0.01) / sqrt(3)
    assert student_interval([0.5, 0.6, 0.7]) == pytest.approx([0.6 - 0.24843, 0.6 + 0.24843], abs=1e-4)
    assert student_interval([0.5]) is None
    assert student_interval([1.0, 1.0]) == [1, 1]
