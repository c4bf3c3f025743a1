"""What is said of a pair: laws over random logits and evidence, with the manifests of the released models."""

from dataclasses import replace

import numpy as np
import pytest
from judged import QUESTIONS, drawn, evidence

from diptych_runtime.calibration.evidence import FEWEST, Evidence
from diptych_runtime.calibration.verdicts import VERDICTS, verdict_thresholds
from diptych_runtime.judgement import (
    MORE_LOOKS,
    judge_pairs,
    needs_closer_look,
    question_probabilities,
    select_competing,
)
from diptych_runtime.manifest import Manifest, Question
from diptych_runtime.models import bundled_models, find_artifact


def released(name: str) -> dict[str, Question]:
    return Manifest.load(find_artifact(name)).questions


ALL, NAMES = [QUESTIONS, *map(released, bundled_models())], ["made", *bundled_models()]


@pytest.mark.parametrize("questions", ALL, ids=NAMES)
@pytest.mark.parametrize("seen", [None, evidence()], ids=["not looked", "looked"])
def test_a_copy_is_never_surer_than_the_thing(questions, seen):
    logits = drawn(questions)
    shown = question_probabilities(questions, logits, seen)
    assert set(shown) == set(questions)
    for found in shown.values():
        assert ((found >= 0) & (found <= 1)).all()
    if len(questions) == 2:
        assert (shown["copy"] <= shown["thing"]).all()
        alone = questions["thing"].relevance(logits[:, [*questions].index("thing")])
        assert (shown["thing"] > alone).any(), "where the network contradicts itself, the copy counts"


@pytest.mark.parametrize("asked", ["copy", "thing", None])
def test_of_many_pairs_the_likeliest_get_a_closer_look(asked):
    logits = drawn(QUESTIONS)
    every, some = needs_closer_look(QUESTIONS, logits, asked), needs_closer_look(QUESTIONS, logits, asked, 20)
    by = logits[:, [*QUESTIONS].index(asked)] if asked else logits.max(1)
    assert some.sum() == 20 < every.sum()
    assert not (some & ~every).any()
    assert by[some].min() >= by[every & ~some].max()
    assert (needs_closer_look(QUESTIONS, logits, asked, len(logits)) == every).all()


@pytest.mark.parametrize("asked", ["copy", "thing"])
def test_what_competes_for_the_best_are_the_likeliest_that_need_no_look_and_more_of_those_that_do(asked):
    logits = drawn(QUESTIONS)
    worth, own = needs_closer_look(QUESTIONS, logits, asked), logits[:, [*QUESTIONS].index(asked)]
    assert worth.sum() > 50 + MORE_LOOKS
    for top in (1, 10, 50):
        judged = select_competing(QUESTIONS, logits, asked, top)
        for sort, count in ((worth, top + MORE_LOOKS), (~worth, top)):
            assert (judged & sort).sum() == count
            assert own[judged & sort].min() >= own[sort & ~judged].max()
    assert select_competing(QUESTIONS, logits, asked, len(logits)).all()


@pytest.mark.parametrize("questions", ALL, ids=NAMES)
def test_a_judgement_is_the_probability_and_its_verdict_and_leaves_raw_scores_alone(questions):
    logits, seen = drawn(questions), evidence()
    shown, judged = question_probabilities(questions, logits, seen), judge_pairs(questions, logits, seen)
    for place, (name, question) in enumerate(questions.items()):
        scores = np.array([one.relevance_score for one in judged[name]])
        raised = scores > shown[name]
        assert (scores >= shown[name]).all()
        assert name == "thing" or not raised.any(), "a thing alone is raised, by a copy that is called the same"
        assert [one.raw_score for one in judged[name]] == logits[:, place].tolist()
        verdicts = [(one.verdict, question.verdict(one.relevance_score)) for one in judged[name]]
        assert all(said == by_score for said, by_score in verdicts)


def test_what_is_called_a_copy_after_a_closer_look_is_called_the_same_thing():
    judged = judge_pairs(QUESTIONS, drawn(QUESTIONS), evidence())
    both = list(zip(judged["copy"], judged["thing"], strict=True))
    shown = question_probabilities(QUESTIONS, drawn(QUESTIONS), evidence())["thing"]
    raised = [pair for pair, alone in zip(both, shown, strict=True) if pair[1].relevance_score > alone]
    assert raised
    assert {copy.closer_look for copy, _ in raised} == {"taken"}
    least = verdict_thresholds(QUESTIONS["thing"].effective_thresholds)
    assert all(0 <= thing.relevance_score - least[thing.verdict] < 1.01e-7 for _, thing in raised)
    looked = [(copy.verdict, thing.verdict) for copy, thing in both if copy.closer_look != "not taken"]
    assert all(VERDICTS.index(thing) <= VERDICTS.index(copy) for copy, thing in looked)


def test_a_closer_look_is_deserved_by_what_may_be_a_copy_whatever_is_asked():
    odds = np.array([[-3.0, 9.0], [4.0, 9.0], [4.0, 1.0]], np.float32)
    for asked in ("copy", "thing", None):
        assert needs_closer_look(QUESTIONS, odds, asked).tolist() == [False, True, True]
    plain = {name: replace(one, verification=None) for name, one in QUESTIONS.items()}
    assert not needs_closer_look(plain, odds).any()


def test_a_look_says_nothing_against_the_thing():
    logits, seen = drawn(QUESTIONS), evidence()
    copies, things = (question_probabilities(QUESTIONS, logits, seen)[name] for name in ("copy", "thing"))
    alone = QUESTIONS["thing"].relevance(logits[:, 1]).astype(float)
    assert things.tolist() == np.maximum(alone, copies).tolist()
    assert (things > alone).any()


@pytest.mark.parametrize(
    "questions", [QUESTIONS, released("photo"), released("photo-small")], ids=["made", "photo", "small"]
)
def test_two_blank_pictures_have_even_odds_at_most(questions):
    logits = np.repeat([[9.0, 30.0]], 3, 0).astype(np.float32)
    seen = [Evidence(0), Evidence(FEWEST - 1), Evidence(FEWEST)]
    assert needs_closer_look(questions, logits, "thing").all()
    shown, judged = question_probabilities(questions, logits, seen), judge_pairs(questions, logits, seen)
    for name, found in shown.items():
        assert (found[:2] <= 0.5).all()
        assert found[2] > 0.5
        assert {one.verdict for one in judged[name][:2]} <= {"unsure", "different"}


def test_scores_that_were_held_against_their_rivals_decide_and_the_raw_ones_are_told():
    logits = drawn(QUESTIONS, count=50)
    held = logits - np.float32(3)
    judged = judge_pairs(QUESTIONS, logits, held=held)
    assert [one.raw_score for one in judged["copy"]] == logits[:, 0].tolist()
    expected = [one.relevance_score for one in judge_pairs(QUESTIONS, held)["copy"]]
    assert [one.relevance_score for one in judged["copy"]] == expected
