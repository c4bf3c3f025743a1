import numpy as np
import pytest

from diptych_runtime.calibration.false_discovery import (
    FALSE_PAIRS,
    FALSE_SHARE,
    discovery_threshold,
    doubts,
    joining_scores,
)


def scores(hard: int, others: int = 1000) -> np.ndarray:
    """Those of pairs of which so many are hard to tell, and the others surely no copies or surely some."""
    return np.concatenate([np.linspace(0.3, 0.849, hard), np.full(others, 0.01), np.full(50, 0.999)])


def test_a_collection_with_few_pairs_that_are_hard_to_tell_has_a_lower_threshold_and_no_lower_one_than_is_stated():
    between = 1 - np.geomspace(1e-4, 0.124, 150)
    found = [
        discovery_threshold(np.concatenate([scores(hard), between]), 400, 0.876) for hard in (0, 3, 10, 30, 100, 500)
    ]
    assert found == sorted(found)
    assert found[0] == 0.876
    assert 0.88 < found[3] <= found[-1] < 0.99
    assert found[-2] == found[-1], "a score is at most eight times too sure"


@pytest.mark.parametrize("hard", [0, 5, 30, 300])
@pytest.mark.parametrize("pictures", [20, 400, 4_000])
def test_of_what_is_proposed_no_more_is_expected_to_be_wrong_than_may_be_and_with_one_pair_more_it_would_be(
    hard, pictures
):
    known = np.concatenate([scores(hard), 1 - np.geomspace(1e-5, 0.2, 100)])
    limit = discovery_threshold(known, pictures, 1e-6)
    reaching = known >= limit
    may = min(FALSE_SHARE * reaching.sum(), max(FALSE_SHARE, FALSE_PAIRS * pictures))
    assert 0 < doubts(known, pictures)[reaching].sum() <= may
    more = known >= known[~reaching].max()
    assert doubts(known, pictures)[more].sum() > min(FALSE_SHARE * more.sum(), max(FALSE_SHARE, FALSE_PAIRS * pictures))


def test_the_more_pairs_are_hard_to_tell_for_each_picture_the_less_a_score_is_worth_within_bounds():
    one, sure = np.array([0.99]), np.array([0.999, 0.2])
    assert doubts(one, 400)[0] == pytest.approx(0.01), "among photos as it says"
    assert doubts(np.concatenate([one, scores(10_000)]), 400)[0] == pytest.approx(0.08)
    assert doubts(np.concatenate([one, scores(17)]), 400)[0] == pytest.approx(0.052)
    assert doubts(np.concatenate([one, scores(17)]), 40_000)[0] == pytest.approx(0.01), "of many pictures few"
    assert doubts(sure, 10**6).tolist() == pytest.approx([0.001, 0.8])


def test_pairs_of_one_score_are_proposed_together_or_not_at_all():
    known = np.array([0.9999] * 3 + [0.9] * 40)
    limit = discovery_threshold(known, 400, 0.5)
    assert 0.9 < limit <= 0.9999
    assert discovery_threshold(np.concatenate([known, np.full(400, 0.9999)]), 4_000, 0.5) <= 0.9


def test_what_joins_is_a_maximum_spanning_forest_in_whatever_order_the_pairs_come():
    rng = np.random.default_rng(3)
    pairs = np.array([(a, b) for a in range(12) for b in range(a + 1, 12)])
    scores = rng.uniform(0.3, 1, len(pairs)).round(7)
    best, order = joining_scores(pairs, scores), rng.permutation(len(pairs))
    assert joining_scores(pairs[order], scores[order]).tolist() == best.tolist()
    assert len(best) == 11
    # Every pair left out is no better than the worst of those that join what it would.
    for pair, score in zip(pairs, scores, strict=True):
        without = joining_scores(np.concatenate([pairs, [pair]]), np.append(scores, score))
        assert without.sum() == pytest.approx(best.sum())
