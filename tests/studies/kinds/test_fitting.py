"""The study of the closer look: collections with planted copies, what is fitted to them and what it is worth."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from looked_at import ABOVE, pairs

from diptych_runtime.calibration.evidence import NUMBERS, Evidence, Verification
from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import planted
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import (
    fit_verification,
    look_closer,
)
from diptych_studies.kinds.planted import open_planted
from diptych_training import looks
from diptych_training.data.documents import draw_documents
from diptych_training.learning.calibration import even_weights


def test_what_is_fitted_tells_copies_that_agree_from_others():
    sets = [pairs("one"), pairs("two", seed=1)]
    fitted = fit_verification(sets, ABOVE)
    relevance, looked = fitted.shown_relevance(sets[0].relevance, sets[0].seen), sets[0].has_look
    assert relevance[looked & sets[0].copies].mean() > 0.8 > 0.6 > relevance[looked & ~sets[0].copies].mean()
    assert list(fitted.thresholds) == ["0.01", "0.005", "0.001"]
    assert 0.5 == fitted.thresholds["0.01"] <= fitted.thresholds["0.005"] <= fitted.thresholds["0.001"] < 1


def test_what_got_no_look_is_held_against_what_did_and_could_not_be_laid_over_each_other():
    one = pairs("one", 200, 300)
    fitted = fit_verification([one, pairs("two", 200, 300, seed=1)], ABOVE)
    shown = fitted.shown_relevance(one.relevance, one.seen)
    assert expected_calibration_error(shown, one.copies, even_weights(one.copies)) < 0.06
    apart = ~one.has_look
    # Ten copies without a look and 940 others: by the network alone they came before copies that were looked at.
    assert shown[apart].mean() < one.relevance[apart].mean()
    order = np.argsort(one.relevance[apart])
    assert (np.diff(shown[apart][order]) >= 0).all()


def test_a_threshold_lets_its_share_of_all_candidates_pass_on_the_mean_over_kinds():
    sets = [pairs("one"), pairs("two", others=120, rest=380, seed=1)]
    fitted = fit_verification(sets, ABOVE)
    for rate, bar in fitted.thresholds.items():
        shares = []
        for one in sets:
            shares.append((fitted.shown_relevance(one.relevance, one.seen)[~one.copies] >= bar).mean())
        assert np.mean(shares) <= float(rate)


def test_a_kind_without_copies_and_one_without_others_are_learnt_from_too():
    sets = [pairs("one"), pairs("two", copies=0), pairs("three", others=0, rest=0)]
    assert fit_verification(sets, ABOVE).weights["aligned_odds"] > 0


@pytest.mark.slow
def test_copies_are_planted_looked_at_and_found(artifact, tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "DRAWN", 8)
    monkeypatch.setattr(planted, "COPIES", 3)
    monkeypatch.setattr(planted, "SIDE", 160)
    told = []
    opened = open_planted("pages", tmp_path, tmp_path / "sets")
    found = look_closer(Examined(Runtime.open(artifact), opened, told.append), above=1e-9)
    assert found.pictures == 8 + 2 * 3
    assert len(found.seen) == len(found.copies) == len(found.relevance) == sum(told)
    assert None not in found.seen
    assert found.copies.sum() + found.missed >= 6
    copies = [evidence for evidence, copy in zip(found.seen, found.copies, strict=True) if copy and evidence]
    assert np.mean([evidence.is_registered for evidence in copies]) > 0.2


def test_what_local_features_vote_for_is_looked_at_whatever_the_network_says():
    """Five pictures, of which the last is a copy of the first and no candidate; the network takes it for another."""
    original, told = np.array([0, 1, 2, 3, 0]), []
    kind = SimpleNamespace(
        kind="pages",
        names=list("abcde"),
        is_match=lambda pairs, question: original[pairs[:, 0]] == original[pairs[:, 1]],
        count_copies=lambda: 1,
    )
    runtime = SimpleNamespace(column=0, relevance=lambda logits: 1 / (1 + np.exp(-logits)))
    runtime.asking = lambda question: runtime

    def normalized_logits(pairs, question):
        return np.where(pairs[:, :1] == 0, -2.0, 2.0) * np.where(pairs[:, 1:] == 4, 2, 1)

    def elect_pairs(pairs, worth):
        told.append((pairs.tolist(), worth.tolist()))
        return np.array([[0, 4], [1, 2]])

    one: Any = SimpleNamespace(
        planted=kind,
        runtime=runtime,
        find_nearest=lambda question: np.array([[0, 1], [1, 2], [2, 3]]),
        normalized_logits=normalized_logits,
        elect_pairs=elect_pairs,
        evidence=lambda pairs: [Evidence(int(a + b)) for a, b in pairs],
    )
    found = look_closer(one)
    assert told == [([[0, 1], [1, 2], [2, 3]], [False, True, True])]
    assert found.found.tolist() == [[0, 1], [0, 4], [1, 2], [2, 3]]
    assert [evidence and evidence.keypoints for evidence in found.seen] == [None, 4, 3, 5]
    assert found.copies.tolist() == [False, True, False, False]
    assert found.missed == 0
    assert found.relevance[1] < 0.05
    sure = Verification(0.5, dict.fromkeys(NUMBERS, 0.0) | {"bias": 3.0}, {"0.01": 0.6, "0.001": 0.9})
    one = replace(found, seen=[None, Evidence(300, 100, 60), None, None])
    assert one.judge_pairs(sure)[1] > 0.9 > sure.shown_relevance(one.relevance, one.seen)[1], "it was looked at"


def test_a_pair_is_looked_at_once_whatever_the_model_and_half_a_line_is_passed_over(
    artifact, artifact_of_two, tmp_path, monkeypatch
):
    monkeypatch.setattr(planted, "DRAWN", 6)
    monkeypatch.setattr(planted, "COPIES", 2)
    monkeypatch.setattr(planted, "SIDE", 160)
    opened = open_planted("pages", tmp_path, tmp_path / "sets")
    told = []
    first = Examined(Runtime.open(artifact), opened, told.append)
    pairs = first.find_nearest("match", 3)
    seen = first.evidence(pairs)
    assert sum(told) == len(pairs) == len(seen)
    (file,) = opened.folder.glob("looks-*.jsonl")
    lines = file.read_text("utf-8")
    with file.open("w", encoding="utf-8") as half:
        half.write(lines[: len(lines) - 20])
    again = Examined(Runtime.open(artifact_of_two), opened, told.append)
    assert again.evidence(pairs) == seen
    assert sum(told) == len(pairs) + 1
    monkeypatch.setattr(looks, "verify", pytest.fail)
    assert Examined(Runtime.open(artifact), opened).evidence(pairs) == seen


def test_a_pair_is_scored_once(artifact_of_two, tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "DRAWN", 8)
    monkeypatch.setattr(planted, "COPIES", 2)
    monkeypatch.setattr(planted, "SIDE", 64)
    runtime, scored = Runtime.open(artifact_of_two), []
    every = runtime.all_logits
    monkeypatch.setattr(runtime, "all_logits", lambda a, b: scored.append(len(a)) or every(a, b))
    kind = Examined(runtime, open_planted("codes", tmp_path, tmp_path / "sets"))
    pairs = kind.find_nearest("copy", 4)
    tokens = kind.panels.tokens
    expected = every(tokens[pairs[:, 0]], tokens[pairs[:, 1]])
    assert kind.logits(pairs[::2]).tolist() == expected[::2].tolist()
    assert kind.logits(pairs[::-1]).tolist() == expected[::-1].tolist()
    assert kind.normalized_logits(pairs, "thing").tolist() == expected.tolist()
    assert sum(scored) == len(pairs)


def test_the_drawn_documents_are_not_those_of_training():
    assert (draw_documents(4, 32, planted.SEED) != draw_documents(4, 32)).any()
