"""What probabilities and thresholds are worth on scored pairs."""

from pathlib import Path

import numpy as np
import pytest

from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.scored import Scored, Side


@pytest.fixture
def scored() -> Scored:
    rng = np.random.default_rng(5)
    labels = np.arange(200) < 20
    logits = rng.normal(np.where(labels, 2.0, -2.0), 1.5).astype(np.float32)
    side = Side([Path(f"{i}.jpg") for i in range(30)], Path())
    return Scored(side, side, rng.integers(0, 30, (200, 2)), logits, labels, 25)


def test_the_bins_hold_every_pair_and_give_the_calibration_error(scored: Scored, runtime: Runtime) -> None:
    measured = scored.calibration(runtime)
    assert sum(part["pairs"] for part in measured["bins"]) == measured["pairs"] == 200
    assert sum(part["weight"] for part in measured["bins"]) == pytest.approx(1)
    gaps = [part["weight"] * abs(part["confidence"] - part["frequency"]) for part in measured["bins"]]
    assert measured["ece"] == pytest.approx(sum(gaps))
    assert all(part["from"] <= part["confidence"] <= part["to"] for part in measured["bins"])


def test_a_threshold_is_worth_what_it_lets_through_here_and_misses_what_was_never_scored(
    scored: Scored, runtime: Runtime
) -> None:
    over = runtime.relevance(scored.logits) >= runtime.thresholds["0.01"]
    found = scored.calibration(runtime)["thresholds"]["0.01"]
    assert found["threshold"] == runtime.thresholds["0.01"]
    assert found["false_positive_rate"] == pytest.approx(over[20:].sum() / 180)
    assert found["recall"] == pytest.approx(over[:20].sum() / 25)


def test_no_pair_is_shown_twice_in_either_order(runtime: Runtime) -> None:
    side = Side([Path(f"{i}.jpg") for i in range(4)], Path())
    pairs = np.array([[0, 1], [1, 0], [0, 1], [2, 3], [3, 3]])
    logits, labels = np.array([3, 3, 3, 2, 1], np.float32), np.array([False] * 4 + [True])
    scored = Scored(side, side, pairs, logits, labels, 1)
    missed, mistaken = scored.judged(runtime)
    assert [(pair.caption_a, pair.caption_b, pair.raw) for pair in mistaken] == [
        ("0.jpg", "1.jpg", 3),
        ("2.jpg", "3.jpg", 2),
    ]
    assert [pair.relevance for pair in missed] == pytest.approx([float(runtime.relevance(np.array(1.0)))])
