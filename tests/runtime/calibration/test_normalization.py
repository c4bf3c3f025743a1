import numpy as np
import pytest

from diptych_runtime.calibration.normalization import (
    COHORT,
    MATCHES,
    cohort_mean,
    normalize_logits,
    shifts_of_pairs,
)


def test_the_cohort_are_the_candidates_behind_those_that_may_match():
    scores = np.random.default_rng(0).permutation(np.arange(40.0))
    assert cohort_mean(scores, 7.0) == np.arange(40.0)[::-1][MATCHES : MATCHES + COHORT].mean()
    assert cohort_mean(scores[: MATCHES + COHORT - 1], 7.0) == 7.0
    both = np.stack([scores, scores + 3])
    assert np.diff(cohort_mean(both, 7.0)).tolist() == [3.0]


def test_a_list_keeps_its_order_and_its_gaps_and_what_has_high_rivals_sinks():
    rng = np.random.default_rng(1)
    plain, crowded = rng.normal(-2, 0.5, 100), rng.normal(0, 0.5, 100)
    held = normalize_logits(np.stack([plain, crowded]), 1.0, -1.5)
    for before, after in zip((plain, crowded), held, strict=True):
        np.testing.assert_allclose(np.diff(after), np.diff(before), atol=1e-5)
    assert (crowded - held[1])[0] == pytest.approx((cohort_mean(crowded, 0) + 1.5), abs=1e-5)
    assert (crowded - held[1]).mean() > 1 > (plain - held[0]).mean()
    assert normalize_logits(plain, 0.0, -1.5) is plain


def test_a_pair_of_pictures_is_held_against_the_rivals_of_both():
    rng = np.random.default_rng(2)
    count = 30
    pairs = np.array([(a, b) for a in range(count) for b in range(a + 1, count)])
    logits = rng.normal(size=len(pairs)).astype(np.float32)
    shifts = shifts_of_pairs(pairs, logits, count, 0.5, 0.2)
    for picture in range(count):
        own = logits[(pairs == picture).any(1)]
        assert shifts[picture] == pytest.approx(0.5 * (cohort_mean(own, 0.2) - 0.2), abs=1e-6)
    few = pairs[pairs[:, 0] == 0][: MATCHES + COHORT - 1]
    assert not shifts_of_pairs(few, logits[: len(few)], count, 0.5, 0.2).any()
    assert not shifts_of_pairs(pairs, logits, count, 0.0, 0.2).any()
