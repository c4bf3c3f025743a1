"""Intervals by drawing units anew, and differences that are paired."""

import numpy as np
import pytest

from diptych_training.evaluation.estimates import Resampling


def test_the_mean_has_the_interval_of_the_normal_approximation() -> None:
    values = np.random.default_rng(1).random(900)
    estimate = Resampling("queries", np.arange(900)).mean(values)
    low, high = estimate.interval
    reach = 1.96 * values.std() / 30
    assert estimate.value == pytest.approx(values.mean())
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach), abs=reach / 5)


def test_a_gain_of_the_same_on_every_query_has_no_width_however_much_queries_differ() -> None:
    values, resampling = np.random.default_rng(1).random(50), Resampling("queries", np.arange(50))
    value, low, high = resampling.mean(values + 0.25).gain_over(resampling.mean(values))
    assert (value, low, high) == pytest.approx((0.25, 0.25, 0.25))
    assert np.ptp(resampling.mean(values).interval) > 0.1


def test_trials_that_are_all_alike_within_their_run_are_worth_one_each() -> None:
    won, runs = np.repeat(np.random.default_rng(3).random(12) < 0.5, 25), np.repeat(np.arange(12), 25)
    by_run = np.ptp(Resampling("runs", runs).mean(won).interval)
    by_trial = np.ptp(Resampling("trials", np.arange(300)).mean(won).interval)
    assert by_run > 3 * by_trial


def test_what_is_not_counted_leaves_the_mean_alone() -> None:
    values, counted = np.array([1.0, 0.0, 9.0]), np.array([True, True, False])
    assert Resampling("queries", np.arange(3)).mean(values, counted).value == 0.5


def test_draws_in_which_nothing_counts_are_left_out() -> None:
    estimate = Resampling("queries", np.arange(3)).mean(np.ones(3), np.array([True, False, False]))
    assert np.isnan(estimate.draws).any()
    assert estimate.interval == [1, 1]


def test_a_statistic_is_given_how_often_each_unit_was_drawn() -> None:
    seen: list[np.ndarray] = []
    resampling = Resampling("queries", np.arange(7))
    resampling.estimate(lambda counts: float(seen.append(counts) or 0))
    assert seen[0].tolist() == [1] * 7
    assert all(counts.sum() == 7 for counts in seen)
    assert all(np.array_equal(a, b) for a, b in zip(seen[1:], resampling.counts(), strict=True))
