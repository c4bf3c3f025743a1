"""Thresholds for defined negatives: which pairs they are of, and what passes them."""

from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.judgement import question_probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import negatives, planted
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.negatives import Others, fit_negatives, is_stranger, others_of, random_pairs
from diptych_studies.kinds.planted import Planted, open_planted

QUESTIONS = {"copy": Question(1.2, 0.1), "thing": Question(0.8, -0.3)}


@pytest.fixture
def small(monkeypatch):
    """Kinds of a few small pictures."""
    for name, value in {"DRAWN": 10, "COPIES": 4, "SIDE": 96}.items():
        monkeypatch.setattr(planted, name, value)


def test_each_threshold_lets_its_share_of_the_negatives_of_its_sort_pass():
    rng = np.random.default_rng(0)

    def drawn(question: str, sort, mean: float) -> Others:
        return Others(question, sort, rng.normal(mean, 1, (3000, 2)).astype(np.float32), [None] * 3000)

    sets = [[drawn(q, sort, mean) for q in QUESTIONS for sort, mean in (("random", -2), ("nearest", 1))] for _ in "ab"]
    fitted = fit_negatives(QUESTIONS, sets)
    assert list(fitted) == ["copy", "thing"]
    for question, sorts in fitted.items():
        assert set(sorts) == {"random", "nearest"}
        for sort, stated in sorts.items():
            assert list(stated) == ["0.01", "0.001"], "6,000 pairs do not support one in 10,000"
            shown = [
                question_probabilities(QUESTIONS, others.logits)[question]
                for found in sets
                for others in found
                if (others.question, others.sort) == (question, sort)
            ]
            for rate, bar in stated.items():
                assert (np.concatenate(shown) >= bar).mean() == pytest.approx(float(rate), abs=2e-4)
        assert sorts["random"]["0.01"] < sorts["nearest"]["0.01"]


def test_negatives_match_nothing_and_what_was_seen_of_a_pair_is_not_looked_for_again(
    artifact_that_looks, tmp_path, small, monkeypatch
):
    monkeypatch.setattr(planted, "DRAWN", 6)
    monkeypatch.setattr(planted, "COPIES", 2)
    runtime = Runtime.open(artifact_that_looks, threads=1)
    kind = open_planted("pages", tmp_path, tmp_path / "sets")
    told = []
    examined, questions = Examined(runtime, kind, told.append), runtime.manifest.questions
    found = others_of(examined, questions)
    assert [(one.question, one.sort) for one in found] == [
        (question, sort) for question in ("copy", "thing") for sort in ("random", "nearest")
    ]
    pairs = random_pairs(kind)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    pairs = pairs[is_stranger(kind, pairs, "copy")]
    assert not kind.is_match(pairs, "copy").any()
    tokens = examined.panels.tokens
    assert found[0].logits.tolist() == runtime.all_logits(tokens[pairs[:, 0]], tokens[pairs[:, 1]]).tolist()
    assert None not in found[0].seen, "this model looks at all"
    assert 0 < sum(told) <= 10 * 9 / 2


def test_pairs_drawn_at_random_are_of_all_pictures_alike():
    count = 400
    numbers = np.arange(count)
    kind = Planted("pages", Path(), [str(number) for number in numbers], numbers, numbers, numbers)
    pairs = random_pairs(kind)
    assert pairs.tolist() == random_pairs(kind).tolist()
    assert len(np.unique(pairs, axis=0)) == len(pairs) == negatives.RANDOM
    halves = np.bincount(pairs.ravel() // (count // 2))
    assert halves / halves.sum() == pytest.approx([0.5, 0.5], abs=0.03)
