import numpy as np
import pytest

from diptych_training.metrics import (
    Pool,
    Ranking,
    micro_average_precision,
    two_stages,
    wilson_interval,
)


def test_micro_average_precision_of_a_hand_counted_list() -> None:
    # Hits at places 1 and 3 of the list, one more match never found: (1/1 + 2/3) / 3.
    value = micro_average_precision([0.9, 0.8, 0.7, 0.1], [True, False, True, False], 3)
    assert value == pytest.approx((1 + 2 / 3) / 3)
    # Equal scores are one place of the list, whatever their order.
    assert micro_average_precision([1, 1], [True, False], 1) == micro_average_precision([1, 1], [False, True], 1) == 0.5
    with pytest.raises(ValueError, match="at least one match to find, got 0"):
        micro_average_precision([1.0], [False], 0)


def test_recall_at_precision_takes_the_longest_list_that_is_precise_enough() -> None:
    relevant = [True] * 9 + [False] + [True]
    assert Pool(-np.arange(11.0), relevant).recall_at_precision(20, 0.9) == 0.5
    assert Pool([1.0], [False]).recall_at_precision(1) == 0


def test_re_ranking_permutes_each_querys_candidates_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    cosines, logits, relevant = -np.sort(-rng.random((5, 7))), rng.random((5, 7)), rng.random((5, 7)) < 0.3
    first, after = two_stages(cosines, logits, relevant, np.asarray(relevant.any(axis=1)))
    assert (first.relevant.sum(1) == after.relevant.sum(1)).all()
    assert (np.diff(after.scores) <= 0).all()
    assert np.array_equal(np.sort(after.scores), np.sort(logits))


def test_a_pool_in_which_queries_count_otherwise_is_the_list_with_those_queries_repeated_or_left_out() -> None:
    rng = np.random.default_rng(4)
    owner, scores, relevant = np.repeat(np.arange(11), 7), rng.integers(0, 9, 77) / 9, rng.random(77) < 0.3
    counts, pool = rng.integers(0, 4, 11), Pool(scores, relevant, owner)
    rows = np.concatenate([np.flatnonzero(owner == query) for query in range(11) for _ in range(counts[query])])
    listed = Pool(scores[rows], relevant[rows])
    assert pool.average_precision(50, counts) == pytest.approx(
        micro_average_precision(scores[rows], relevant[rows], 50)
    )
    assert pool.recall_at_precision(50, 0.4, counts) == pytest.approx(listed.recall_at_precision(50, 0.4))
    assert pool.auc(counts) == pytest.approx(listed.auc())


def test_auc_is_the_share_of_pairs_of_pairs_in_the_right_order_ties_counting_half() -> None:
    rng = np.random.default_rng(2)
    scores, relevant = rng.integers(0, 6, 53).astype(float), rng.random(53) < 0.4
    above = scores[relevant][:, None] - scores[~relevant][None, :]
    assert Pool(scores, relevant).auc() == pytest.approx(((above > 0) + 0.5 * (above == 0)).mean())
    assert np.isnan(Pool([1.0, 2.0], [True, True]).auc())


def test_wilsons_interval_is_that_of_the_textbook_and_has_width_at_the_ends() -> None:
    assert wilson_interval(394, 400) == pytest.approx([0.96763, 0.99311], abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx([0, 0.16113], abs=1e-4)
    assert wilson_interval(20, 20) == pytest.approx([1 - 0.16113, 1], abs=1e-4)
    with pytest.raises(ValueError, match="at least one trial, got 0"):
        wilson_interval(0, 0)


def test_only_queries_with_a_match_count_but_for_micro_ap_and_each_of_several_matches_does() -> None:
    ranking = Ranking(
        np.array([[0.5, 0.4], [0.9, 0.1]]), np.array([[True, False], [False, False]]), np.array([True, False])
    )
    assert ranking.summary() == {"micro_ap": 0.5, "recall_at_p90": 0.0, "recall@1": 1.0, "map": 1.0}
    ranking = Ranking(np.array([[0.9, 0.8, 0.1]]), np.array([[True, True, False]]), np.array([4]))
    assert ranking.summary() == {"micro_ap": 0.5, "recall_at_p90": 0.5, "recall@1": 1.0, "map": 0.5}
    relevant = np.array([[False, True, True], [True, False, False], [False, False, False]])
    ranking = Ranking(np.zeros((3, 3)), relevant, np.array([2, 4, 0]))
    assert ranking.summary()["map"] == pytest.approx(((1 / 2 + 2 / 3) / 2 + 1 / 4) / 2)
