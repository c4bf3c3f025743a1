"""Thresholds for defined negatives: which pairs they are of, and what passes them."""

import numpy as np
import pytest

from diptych_runtime.closer_look.evidence import Evidence
from diptych_runtime.judgement import probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import Runtime
from diptych_training.data import planted
from diptych_training.data.planted import open_planted
from diptych_training.learning.fitting import negatives
from diptych_training.learning.fitting.negatives import Others, fit_negatives, others_of, random_pairs, strangers
from diptych_training.learning.fitting.verification import encode
from diptych_training.studies.verification import study_verification

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
                probabilities(QUESTIONS, others.logits)[question]
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
    runtime = Runtime.open(artifact_that_looks, threads=1)
    kind = open_planted("pages", tmp_path, tmp_path / "sets")
    panels, told = encode(runtime, kind), []
    questions = runtime.manifest.questions
    found = others_of(runtime, questions, kind, panels, {}, told.append)
    assert [(one.question, one.sort) for one in found] == [
        (question, sort) for question in ("copy", "thing") for sort in ("random", "nearest")
    ]
    pairs = random_pairs(kind)
    assert (pairs[:, 0] < pairs[:, 1]).all()
    pairs = pairs[strangers(kind, pairs, "copy")]
    assert not kind.matches(pairs, "copy").any()
    plain = runtime.all_logits(panels.tokens[pairs[:, 0]], panels.tokens[pairs[:, 1]])
    assert found[0].logits.tolist() == plain.tolist()
    assert None not in found[0].seen, "this model looks at all"
    assert sum(told) > 0
    monkeypatch.setattr(
        negatives, "evidence_of", lambda kind, pairs, threads, tick: [pytest.fail("again") for _ in pairs]
    )
    count = len(panels.tokens)
    every = {(a, b): Evidence(0) for a in range(count) for b in range(a + 1, count)}
    others_of(runtime, questions, kind, panels, every)


def test_the_study_fits_both_sorts_for_every_question(artifact_of_two, tmp_path, small, monkeypatch):
    real = planted._prepare
    monkeypatch.setattr(planted, "KINDS", ("pages", "more"))
    monkeypatch.setattr(planted, "_prepare", lambda name, folder, sets: real("pages", folder, sets / name))
    result = study_verification(Runtime.open(artifact_of_two), tmp_path, tmp_path, kinds=["pages", "more"])
    assert {question: set(sorts) for question, sorts in result["negatives"].items()} == {
        question: {"random", "nearest"} for question in ("copy", "thing")
    }
    stated = result["negatives"]["thing"]
    assert 0 < stated["random"]["0.01"] < 1
    assert 0 < stated["nearest"]["0.01"] < 1
