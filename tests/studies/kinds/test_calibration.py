"""Kinds of pictures: probabilities that were fitted to other kinds."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.judgement import question_probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import Runtime
from diptych_studies.kinds import calibration as module
from diptych_studies.kinds import planted
from diptych_studies.kinds.calibration import (
    Kind,
    calibration_text,
    draw_calibration,
    measure_calibration,
    measure_left_out,
)
from diptych_training.errors import DataError


def kind(name: str, question: str = "thing", shift: float = 0.0, seed: int = 0, columns: int = 1) -> Kind:
    """Pairs whose logits are the log-odds of their matching, all of them moved by a shift."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 3, 6000)
    labels = rng.random(6000) < 1 / (1 + np.exp(-odds))
    nearest = rng.random(6000) < 0.7
    labels &= nearest
    seen = [
        Evidence(300, 90, 60, aligned_odds=4.0 if label else -4.0) if odd > 2 else None
        for odd, label in zip(odds, labels, strict=True)
    ]
    pairs = np.stack([np.arange(6000), np.arange(6000) + 1], 1)
    logits = np.repeat((odds + shift).astype(np.float32)[:, None], columns, 1)
    return Kind(name, question, 6001, pairs, logits, labels, nearest, seen)


# The line by which the pairs of `kind` got a look: from odds of 2 on.
RELEASED = {"copy": Question(1.0, math.log(9) - 2.0), "thing": Question()}


def test_a_kind_like_the_others_is_calibrated_and_one_that_is_moved_is_not():
    others = [kind("a", seed=1), kind("b", seed=2)]
    like, moved = (
        measure_left_out(one, {"thing": [*others, one]}, RELEASED) for one in (kind("c"), kind("c", shift=4.0))
    )
    assert like["ece"] < 0.03
    assert moved["ece"] > 0.1
    for name in ("nearest", "random"):
        for rate, found in like["rates"][name].items():
            assert found["measured"] == pytest.approx(float(rate), abs=1.5 * float(rate) + 1e-3)
        assert moved["rates"][name]["0.01"]["measured"] > 0.03


def test_copies_have_a_closer_look_that_was_fitted_to_the_others():
    kinds = [kind(name, "copy", seed=seed) for seed, name in enumerate("abc")]
    row = measure_left_out(kinds[0], {"copy": kinds}, RELEASED)
    things = [kind(name, seed=seed) for seed, name in enumerate("abc")]
    blind = measure_left_out(kind("a"), {"thing": things}, RELEASED)
    assert row["ece"] != blind["ece"]
    assert row["rates"]["nearest"]["0.01"]["measured"] < 0.05


def test_what_is_measured_of_things_is_what_is_shown_after_a_look_at_the_copy():
    measured = {
        question: [kind(name, question, seed=seed, columns=2) for seed, name in enumerate("abc")]
        for question in ("copy", "thing")
    }
    one = measured["thing"][0]
    fitted = module._fit_questions({question: found[1:] for question, found in measured.items()}, RELEASED)
    assert fitted["copy"].verification is not None
    shown = question_probabilities(fitted, one.logits, one.seen)["thing"][one.nearest]
    expected = module._measure_reliability(shown, one.labels[one.nearest]).error
    assert measure_left_out(one, measured, RELEASED)["ece"] == pytest.approx(expected)


def test_kinds_are_measured_worst_first_and_drawn(artifact_of_two, tmp_path, monkeypatch):
    monkeypatch.setattr(planted, "PICTURES", 16)
    monkeypatch.setattr(planted, "DRAWN", 16)
    monkeypatch.setattr(planted, "COPIES", 6)
    monkeypatch.setattr(planted, "SIDE", 96)
    monkeypatch.setattr(planted, "KINDS", ("pages", "more", "one class"))
    monkeypatch.setattr(
        planted.Planted,
        "is_unknown",
        lambda self, pairs, question: (
            ~self.is_match(pairs, question) & (question == "thing") & (self.kind == "one class")
        ),
    )
    real = planted._prepare_kind
    monkeypatch.setattr(planted, "_prepare_kind", lambda name, folder, sets: real("pages", folder, sets / name))
    monkeypatch.setattr(module, "fit_calibration", lambda *_: {"scale": 1.0, "offset": 0.0})  # it has learnt nothing
    runtime = Runtime.open(artifact_of_two)
    result = measure_calibration(runtime, tmp_path, tmp_path, kinds=["pages", "more", "one class"])
    rows = result["kinds"]
    assert {(row["kind"], row["question"]) for row in rows} == {
        *((name, question) for name in ("pages", "more") for question in ("copy", "thing")),
        ("one class", "copy"),
    }
    assert result["one_sided"] == [{"kind": "one class", "question": "thing"}]
    assert [row["ece"] for row in rows] == sorted((row["ece"] for row in rows), reverse=True)
    assert all(row["matches"] > 0 for row in rows)
    json.dumps(result)
    text = calibration_text(result)
    assert text.splitlines()[0].split()[:3] == ["kind", "question", "pairs"]
    assert text.endswith("one class, thing: not measured, for its known pairs all match or none does")
    draw_calibration(result, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")


def test_one_kind_has_no_others_to_be_fitted_to(artifact_of_two, tmp_path):
    with pytest.raises(DataError, match="name two kinds at least, got pages"):
        measure_calibration(Runtime.open(artifact_of_two), tmp_path, tmp_path, kinds=["pages"])


def test_kinds_that_say_nothing_cannot_be_measured_by_each_other(artifact_of_two, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "open_kinds", lambda kinds, *_: [SimpleNamespace(kind=kind) for kind in kinds])
    monkeypatch.setattr(module, "Examined", lambda *_: None)
    monkeypatch.setattr(module, "_known_pairs", lambda *_: None)
    with pytest.raises(DataError, match="0 of the 2 kinds have both matches and others to 'copy'"):
        measure_calibration(Runtime.open(artifact_of_two), tmp_path, tmp_path, kinds=["a", "b"])
