"""A calibration of one's own over a released artifact: what it changes, what it leaves, and when it is refused."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from judged import LOOK, QUESTIONS, drawn, evidence

from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.calibration.thresholds import Negatives
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.errors import ArtifactError
from diptych_runtime.judgement import judge_pairs, question_probabilities
from diptych_runtime.manifest import Manifest, Question
from diptych_runtime.models import bundled_models, find_artifact
from diptych_runtime.own_calibration import OwnCalibration, OwnQuestion, released_digest
from diptych_runtime.runtime import Runtime

OWN = OwnQuestion(0.7, -0.4, {"0.01": 0.7, "0.001": 0.96}, 30, 40)


def over(questions, *names: str):
    return dict(questions) | {name: OWN.apply_to(questions[name]) for name in names}


def test_of_a_question_that_takes_no_closer_look_every_probability_is_on_the_line():
    released = {"match": Question(1.3, 0.4, {"0.01": 0.8})}
    logits = np.linspace(-8, 8, 101)[:, None]
    before, after = (question_probabilities(each, logits)["match"] for each in (released, over(released, "match")))
    assert log_odds(after) == pytest.approx(0.7 * log_odds(before) - 0.4, abs=1e-3)
    assert over(released, "match")["match"].effective_thresholds == OWN.thresholds


def test_of_a_question_with_a_closer_look_what_was_looked_at_is_on_the_line_and_the_rest_below_its_thresholds():
    look, questions = LOOK, QUESTIONS
    logits, seen = drawn(questions), evidence()
    own = over(questions, "copy")
    before, after = (question_probabilities(each, logits, seen)["copy"] for each in (questions, own))
    worth = look.needs_look(questions["copy"].relevance(logits[:, 0]))
    looked = worth & np.array([one is not None and one.is_registered for one in seen])
    unlooked = worth & np.array([one is None for one in seen])
    sure = looked & (before > 1e-5) & (before < 1 - 1e-5)
    assert sure.sum() > 50
    assert log_odds(after[sure]) == pytest.approx(0.7 * log_odds(before[sure]) - 0.4, abs=0.02)
    least = verdict_thresholds(OWN.thresholds)
    assert unlooked.any()
    assert (after[unlooked] < least["same"]).all()
    assert (after[~worth] < least["likely"]).all()
    free = ~worth & (before > 1e-5) & (before < look.limit_without_look) & (after < 0.69)
    assert free.sum() > 50
    assert log_odds(after[free]) == pytest.approx(0.7 * log_odds(before[free]) - 0.4, abs=0.02)
    said = [one.verdict for one, chosen in zip(judge_pairs(own, logits, seen)["copy"], unlooked, strict=True) if chosen]
    assert "same" not in said


def test_a_copy_is_no_surer_than_the_thing_and_verdicts_follow_the_probability_that_is_shown():
    questions = QUESTIONS
    logits, seen = drawn(questions), evidence()
    own = over(questions, "copy", "thing")
    shown, judged = question_probabilities(own, logits, seen), judge_pairs(own, logits, seen)
    assert (shown["copy"] <= shown["thing"]).all()
    assert [one.verdict for one in judged["copy"]] == [own["copy"].verdict(one) for one in shown["copy"]]
    assert own["thing"].effective_thresholds == OWN.thresholds


def test_a_thing_after_a_closer_look_is_on_the_line_where_the_copy_says_less():
    logits, seen = drawn(QUESTIONS), evidence()
    before, after = (question_probabilities(each, logits, seen) for each in (QUESTIONS, over(QUESTIONS, "thing")))
    thing = (before["thing"] > before["copy"]) & (after["thing"] > after["copy"]) & (before["thing"] > 1e-5)
    thing &= before["thing"] < 1 - 1e-5
    assert thing.sum() > 100
    assert log_odds(after["thing"][thing]) == pytest.approx(0.7 * log_odds(before["thing"][thing]) - 0.4, abs=0.02)


def test_as_many_pairs_that_do_not_match_pass_a_moved_threshold():
    negatives: dict[Negatives, dict[str, float]] = {"random": {"0.01": 0.6, "0.001": 0.99}}
    released = Question(1.3, 0.4, {"0.01": 0.8}, negatives=negatives)
    own = OWN.apply_to(released)
    logits = np.linspace(-8, 8, 2001)
    for rate, least in negatives["random"].items():
        passed = released.relevance(logits) >= least
        assert (own.relevance(logits) >= own.negatives["random"][rate]).tolist() == pytest.approx(passed.tolist())


@pytest.fixture
def own(artifact):
    manifest = Manifest.load(artifact)
    (name,) = manifest.questions
    return OwnCalibration(str(artifact), manifest.revision, released_digest(manifest), "2026-11-25", {name: OWN})


def test_a_file_comes_back_as_it_was_saved_and_opens_its_model_with_itself_over_it(own, artifact, tmp_path):
    own.save(tmp_path / "own.json")
    assert OwnCalibration.load(tmp_path / "own.json") == own
    assert find_artifact(tmp_path / "own.json") == artifact
    released = Runtime.open(artifact, provider="cpu", threads=1)
    runtime = Runtime.open(tmp_path / "own.json", provider="cpu", threads=1)
    assert (runtime.name, runtime.revision, runtime.own) == (released.name, released.revision, own)
    logits = np.linspace(-3, 3, 7)
    expected = 0.7 * log_odds(released.relevance(logits)) - 0.4
    assert log_odds(runtime.relevance(logits)) == pytest.approx(expected, abs=1e-4)
    assert runtime.thresholds == OWN.thresholds
    assert runtime.with_calibration(None).relevance(logits).tolist() == released.relevance(logits).tolist()
    assert released.own is None


def test_a_calibration_over_another_model_or_another_release_of_it_is_refused(own, artifact):
    manifest = Manifest.load(artifact)
    (name,) = manifest.questions
    others = [
        replace(manifest, revision="0123456789ab"),
        replace(manifest, questions={name: replace(manifest.questions[name], offset=9.0)}),
    ]
    assert own.fits(manifest)
    for other in others:
        assert not own.fits(other)
        with pytest.raises(ArtifactError, match=r"was made over the model .* and not over .*; make it again with"):
            own.apply_to(other)
    for released in map(Manifest.load, map(find_artifact, bundled_models())):
        assert not own.fits(released)


def test_a_question_that_the_model_does_not_answer_is_named(own, artifact):
    with pytest.raises(ArtifactError, match=r"has the question 'hat', which the model .* \(it answers match\)"):
        replace(own, questions={**own.questions, "hat": OWN}).apply_to(Manifest.load(artifact))


def test_a_calibration_over_a_file_is_refused(own, tmp_path):
    replace(own, model=str(tmp_path / "own.json")).save(tmp_path / "own.json")
    with pytest.raises(ArtifactError, match=r"own\.json, which is a file and no model; make it again"):
        find_artifact(tmp_path / "own.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "has format 2, this version of diptych reads 1; make it again"),
        *(
            ({"questions": {"match": {"scale": 1, "offset": 0, "thresholds": {}} | wrong}}, words)
            for wrong, words in (
                ({"scale": -1}, "match: .*expected a 'scale' from 0.001 to 1000, got -1"),
                ({"scale": 10**400}, r"questions\.match\.scale: "),
                ({"offset": float("inf")}, "match: .*expected an 'offset' from -1000 to 1000, got inf"),
                ({"thresholds": {"0.01": 1.5}}, r"match\.thresholds: .*from 0 to 1, got 1.5 for the rate 0.01"),
                ({"thresholds": {"often": 0.5}}, "rates above 0 and below 1, got 'often'"),
                ({"thresholds": {"0.01": 0.5, "0.010": 0.6}}, "rate once, got '0.01' and '0.010'"),
                ({"thresholds": {"0.01": 0.9, "0.001": 0.8}}, "no lower threshold for the rate 0.001 than for 0.01"),
            )
        ),
        ({"questions": {"\ud800": {}}}, "cannot be read as JSON .*surrogates not allowed"),
        ({"more": 1}, "is not valid: more"),
    ],
)
def test_a_damaged_file_is_refused_with_what_to_do(own, tmp_path, change, words):
    (tmp_path / "own.json").write_text(json.dumps(asdict(own) | change))
    with pytest.raises(ArtifactError, match=words):
        OwnCalibration.load(tmp_path / "own.json")
    for text in ("", "[]", "{", "[" * 100_000):
        (tmp_path / "own.json").write_text(text)
        with pytest.raises(ArtifactError, match=r"own.json (cannot be read as JSON|has format None)"):
            OwnCalibration.load(tmp_path / "own.json")
