"""What a report is given agrees with what is printed."""

from pathlib import Path

import numpy as np
import pytest

from diptych_training.evaluation.protocols.copies import evaluate_copies
from diptych_training.evaluation.series import SHOWN
from diptych_training.evaluation.stages import Entrants


def test_the_evidence_holds_the_series_the_pairs_and_the_worst_mistakes(entrants: Entrants, photos: Path) -> None:
    names = [f"{i:02d}.jpg" for i in range(14)]
    evidence = evaluate_copies(entrants, photos, photos, [(name, name) for name in names], candidates=5)
    assert [series.name for series in evidence.series] == ["first stage", "re-ranked"]
    assert evidence.series[1].ranking.summary()["micro_ap"] == pytest.approx(evidence.result["micro_ap"])
    assert (evidence.model, evidence.revision) == (entrants.model.name, entrants.model.revision)
    assert evidence.probabilities.shape == evidence.labels.shape == (14 * 5,)
    assert evidence.labels.sum() == 14
    assert len(evidence.missed) == len(evidence.mistaken) == SHOWN
    assert all(pair.match for pair in evidence.missed)
    assert not any(pair.match for pair in evidence.mistaken)


def test_the_pairs_shown_are_those_furthest_from_the_truth_worst_first(entrants: Entrants, photos: Path) -> None:
    names = [f"{i:02d}.jpg" for i in range(14)]
    evidence = evaluate_copies(entrants, photos, photos, [(name, name) for name in names], candidates=5)
    missed, mistaken = ([pair.relevance for pair in pairs] for pairs in (evidence.missed, evidence.mistaken))
    assert missed == pytest.approx(np.sort(evidence.probabilities[evidence.labels])[:SHOWN])
    assert mistaken == pytest.approx(-np.sort(-evidence.probabilities[~evidence.labels])[:SHOWN])
    first = evidence.mistaken[0]
    assert first.picture_a != first.picture_b
    assert first.picture_a == photos / first.caption_a
