"""The pairs that are asked about: unlabelled, near a threshold or in disagreement, of different pictures."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from diptych.labelling import choose
from diptych.labelling.choose import _choose_pairs, pairs_to_label


def named(found) -> list[frozenset[str]]:
    return [frozenset((one.a.id, one.b.id)) for one in found]


def test_each_pair_is_asked_about_once_until_none_is_left_and_the_same_are_chosen_again(collection):
    met = []
    used = Counter(id for pair in named(pairs_to_label(collection, 6)) for id in pair)
    assert len(used) >= 9, "of 12 pictures, six pairs have nearly all"
    while found := pairs_to_label(collection, 10):
        assert named(found) == named(pairs_to_label(collection, 10))
        assert [one.verdict for one in found] == [collection.scorer.verdict(one.relevance_score) for one in found]
        for one in found:
            collection.label(one.a.id, one.b.id, "cannot tell")
        met += named(found)
    assert len(met) == len(set(met)) > 25


def test_of_an_empty_collection_and_of_one_picture_there_is_nothing_to_ask(collection):
    for record in collection.list(100)[1:]:
        collection.remove(record.id)
    assert pairs_to_label(collection) == []
    with pytest.raises(ValueError, match="count must be at least 1, got 0"):
        pairs_to_label(collection, 0)


def test_the_worthiest_of_fresh_pictures_come_first_and_every_fourth_is_of_a_rare_probability():
    pairs = [("a", "b"), ("a", "c"), ("d", "e"), ("f", "g"), ("h", "i"), ("j", "k")]
    worth = np.array([1.0, 0.99, 0.9, 0.8, 0.7, 0.1])
    shown = np.array([0.55, 0.55, 0.55, 0.55, 0.55, 0.05])
    assert _choose_pairs(worth, shown, pairs, Counter(), 6) == [
        (0, False),
        (2, False),
        (3, False),
        (5, True),
        (4, False),
        (1, False),
    ]
    assert _choose_pairs(worth, shown, pairs, Counter({"a": 3, "b": 3}), 1) == [(2, False)]


def test_a_closer_look_that_contradicts_the_network_is_a_disagreement(collection, monkeypatch):
    class Contradicting:
        def __init__(self, *_: object) -> None: ...

        def adjust_scores(self, pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
            return np.where(np.arange(len(scores)) == 7, 0.999_999, 1e-6)

    monkeypatch.setattr(choose, "CloserLook", Contradicting)
    monkeypatch.setattr(
        choose,
        "PairScores",
        lambda *_, **__: SimpleNamespace(
            count_missing=len, tick=None, score_pairs=lambda pairs: np.full(len(pairs), 1e-6)
        ),
    )
    first = pairs_to_label(collection, 1)[0]
    assert (first.reason, first.relevance_score) == ("disagreement", 0.999_999)
