import numpy as np
import pytest

from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.errors import UnknownPictureError


@pytest.fixture
def ids(collection):
    return [record.id for record in collection.list(100)]


@pytest.fixture
def ledger(tmp_path, scorer):
    with PairCache(tmp_path / "dedupe.sqlite", scorer.runtime.revision) as ledger:
        yield ledger


def test_scores_are_those_of_predict_in_either_order_of_the_two(collection, ids, ledger, scorer, gallery):
    pairs = [(0, 5), (7, 2), (3, 4)]
    paths = [collection.get(id).path for id in ids]
    expected = scorer.predict([(paths[a], paths[b]) for a, b in pairs])
    scores = PairScores(collection, ids, ledger)
    np.testing.assert_allclose(scores.of(np.array(pairs)), expected, atol=1e-7)
    assert (scores.of(np.array(pairs)[:, ::-1]) == scores.of(np.array(pairs))).all()


def test_a_pair_is_computed_once_in_all_runs(collection, ids, ledger):
    told = []
    first = PairScores(collection, ids, ledger, told.append)
    assert first.missing(np.array([(0, 1), (1, 0), (2, 3)])) == 2
    found = first.of(np.array([(0, 1), (1, 0), (2, 3)]))
    assert (first.computed, first.scored, sum(told)) == (2, 2, 2)
    second = PairScores(collection, ids[::-1], ledger)
    last = len(ids) - 1
    again = second.of(np.array([(last, last - 1), (last - 2, last - 3), (0, 1)]))
    assert again[:2].tolist() == found[[0, 2]].tolist()
    assert (second.computed, second.scored) == (1, 3)


def test_no_pair_has_no_score(collection, ids, ledger):
    assert PairScores(collection, ids, ledger).of(np.empty((0, 2), np.int64)).shape == (0,)


def test_what_was_computed_before_a_stop_is_kept(collection, ids, ledger, monkeypatch):
    monkeypatch.setattr("diptych.dedupe.pair_scores.BATCH", 2)
    pairs = np.array([(0, 1), (0, 2), (0, 3), (0, 4)])

    def stop(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PairScores(collection, ids, ledger, stop).of(pairs)
    rest = PairScores(collection, ids, ledger)
    rest.of(pairs)
    assert rest.computed == 2


def test_few_pictures_in_memory_give_the_same_scores(collection, ids, tmp_path, scorer, monkeypatch):
    pairs = np.array([(a, b) for a in range(12) for b in range(a)])
    with PairCache(None, "x") as one, PairCache(None, "x") as other:
        expected = PairScores(collection, ids, one).of(pairs)
        monkeypatch.setattr("diptych.dedupe.pair_scores._KEPT", 1)
        monkeypatch.setattr("diptych.dedupe.pair_scores.BATCH", 5)
        small = PairScores(collection, ids, other)
        assert (small.of(pairs) == expected).all()
        assert len(small._tokens) <= 10


def test_a_picture_that_was_removed_meanwhile_is_named(collection, ids, ledger):
    collection.remove(ids[3])
    with pytest.raises(UnknownPictureError, match=f"{ids[3]} was removed .* meanwhile; start again"):
        PairScores(collection, ids, ledger).of(np.array([(0, 3)]))


def test_scores_are_held_against_the_rivals_of_both_pictures(collection, ledger):
    ids = [record.id for record in collection.list(100)]
    pairs = np.array([(a, b) for a in range(len(ids)) for b in range(a + 1, len(ids))])
    scores = PairScores(collection, ids, ledger)
    plain, logits = scores.of(pairs), scores.logits(pairs)
    scores.hold_against(pairs)
    assert (scores.of(pairs) == plain).all()
    scores._shifts = np.linspace(-1, 1, len(ids)).astype(np.float32)
    lowered = logits - (scores._shifts[pairs[:, 0]] + scores._shifts[pairs[:, 1]]) / 2
    np.testing.assert_allclose(scores.of(pairs), collection.scorer.relevance(lowered), atol=1e-7)
    assert (scores.of(pairs[:, ::-1]) == scores.of(pairs)).all()
    assert (scores.logits(pairs) == logits).all()
