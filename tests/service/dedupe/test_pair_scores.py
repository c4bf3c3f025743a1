import numpy as np
import pytest

from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.errors import UnknownPictureError


@pytest.fixture
def ids(collection):
    return [record.id for record in collection.list(100)]


@pytest.fixture
def pair_cache(tmp_path, scorer):
    with PairCache(tmp_path / "dedupe.sqlite", scorer.runtime.revision) as pair_cache:
        yield pair_cache


def test_scores_are_those_of_predict_in_either_order_of_the_two(collection, ids, pair_cache, scorer, gallery):
    pairs = [(0, 5), (7, 2), (3, 4)]
    paths = [collection.get(id).path for id in ids]
    expected = scorer.predict([(paths[a], paths[b]) for a, b in pairs])
    scores = PairScores(collection, ids, pair_cache)
    np.testing.assert_allclose(scores.score_pairs(np.array(pairs)), expected, atol=1e-7)
    assert (scores.score_pairs(np.array(pairs)[:, ::-1]) == scores.score_pairs(np.array(pairs))).all()


def test_a_pair_is_computed_once_in_all_runs(collection, ids, pair_cache):
    told = []
    first = PairScores(collection, ids, pair_cache, told.append)
    assert first.count_missing(np.array([(0, 1), (1, 0), (2, 3)])) == 2
    found = first.score_pairs(np.array([(0, 1), (1, 0), (2, 3)]))
    assert (first.computed, first.requested_count, sum(told)) == (2, 2, 2)
    second = PairScores(collection, ids[::-1], pair_cache)
    last = len(ids) - 1
    again = second.score_pairs(np.array([(last, last - 1), (last - 2, last - 3), (0, 1)]))
    assert again[:2].tolist() == found[[0, 2]].tolist()
    assert (second.computed, second.requested_count) == (1, 3)


def test_what_was_computed_before_a_stop_is_kept(collection, ids, pair_cache, monkeypatch):
    monkeypatch.setattr("diptych.dedupe.pair_scores.BATCH", 2)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (0, 4)])

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PairScores(collection, ids, pair_cache, stop).score_pairs(pairs)
    rest = PairScores(collection, ids, pair_cache)
    rest.score_pairs(pairs)
    assert rest.computed == 2


def test_few_pictures_in_memory_give_the_same_scores(collection, ids, tmp_path, scorer, monkeypatch):
    pairs = np.array([(a, b) for a in range(12) for b in range(a)])
    with PairCache(None, "x") as one, PairCache(None, "x") as other:
        expected = PairScores(collection, ids, one).score_pairs(pairs)
        monkeypatch.setattr("diptych.dedupe.pair_scores._KEPT", 1)
        monkeypatch.setattr("diptych.dedupe.pair_scores.BATCH", 5)
        small = PairScores(collection, ids, other)
        assert (small.score_pairs(pairs) == expected).all()
        assert len(small._tokens) <= 10


def test_a_picture_that_was_removed_meanwhile_is_named(collection, ids, pair_cache):
    collection.remove(ids[3])
    with pytest.raises(UnknownPictureError, match=f"{ids[3]} was removed .* meanwhile; start again"):
        PairScores(collection, ids, pair_cache).score_pairs(np.array([(0, 3)]))


def test_scores_are_held_against_the_rivals_of_both_pictures(collection, pair_cache):
    ids = [record.id for record in collection.list(100)]
    pairs = np.array([(a, b) for a in range(len(ids)) for b in range(a + 1, len(ids))])
    scores = PairScores(collection, ids, pair_cache)
    plain, logits = scores.score_pairs(pairs), scores.get_logits(pairs)
    scores.hold_against(pairs)
    assert (scores.score_pairs(pairs) == plain).all()
    scores._shifts = np.linspace(-1, 1, len(ids)).astype(np.float32)
    lowered = logits - (scores._shifts[pairs[:, 0]] + scores._shifts[pairs[:, 1]]) / 2
    np.testing.assert_allclose(scores.score_pairs(pairs), collection.scorer.relevance(lowered), atol=1e-7)
    assert (scores.score_pairs(pairs[:, ::-1]) == scores.score_pairs(pairs)).all()
    assert (scores.get_logits(pairs) == logits).all()
