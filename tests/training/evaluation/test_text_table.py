"""Tables for people say what the JSON holds."""

from pathlib import Path

import numpy as np
import pytest

from diptych_training.evaluation.figures import text
from diptych_training.evaluation.protocols.copies import evaluate_copies
from diptych_training.evaluation.protocols.episodes import evaluate_episodes, open_drawings
from diptych_training.evaluation.protocols.pairs import LabelledPairs, evaluate_pairs
from diptych_training.evaluation.protocols.retrieval import Labelled, evaluate_retrieval
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants


@pytest.fixture
def everyone(entrants: Entrants, colour) -> Entrants:
    return Entrants(entrants.model, {"other": entrants.model}, [colour()])


def copies(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    names = [f"{i:02d}.jpg" for i in range(14)]
    return evaluate_copies(everyone, photos, photos, [(name, name) for name in names], candidates=5)


def retrieval(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = [photos / f"{i:02d}.jpg" for i in range(14)]
    queries, gallery = Labelled(tuple(files[:4]), tuple("abax")), Labelled(tuple(files[4:]), tuple("ab" * 5))
    return evaluate_retrieval(everyone, queries, gallery, photos, candidates=5)


def pairs(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = tuple(photos / f"{i:02d}.jpg" for i in range(14))
    rows = np.array([[i, i if i % 2 else i + 1] for i in range(13)])
    return evaluate_pairs(everyone, LabelledPairs(files, rows, rows[:, 0] == rows[:, 1]), photos)


def episodes(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        return evaluate_episodes(everyone, folder, episodes=3, ways=3)


@pytest.mark.parametrize("protocol", [copies, retrieval, pairs, episodes])
def test_every_method_has_a_row_and_every_other_a_gain(
    protocol, everyone: Entrants, photos: Path, omniglot: Path
) -> None:
    evidence = protocol(everyone, photos, omniglot)
    shown = text(evidence.protocol, evidence.result)
    lines = shown.splitlines()
    names = ("colour", "other, first stage", "other, re-ranked", "first stage", "re-ranked")
    assert all(line.startswith(name) for line, name in zip(lines[1:6], names, strict=True))
    for name in ("by looking at both", "over colour", "over other"):
        assert f"gain {name}, " in shown
    assert f"{evidence.result['resampled']} drawn anew" in shown
    assert "expected calibration error" in shown
    assert "for a false-positive rate of 0.10%: here" in shown
    # The same model is no better than itself at its best.
    assert lines[2].split("  ")[-1].strip() == lines[4].split("  ")[-1].strip()


def test_what_does_not_count_is_said(everyone: Entrants, photos: Path, omniglot: Path) -> None:
    shown = text("retrieval", retrieval(everyone, photos, omniglot).result)
    assert "3 queries" in shown
    assert "1 queries without a match in the gallery, which do not count" in shown


def test_where_a_threshold_is_from_is_said(everyone: Entrants, photos: Path, omniglot: Path) -> None:
    evidence = pairs(everyone, photos, omniglot)
    assert f"threshold {evidence.result['threshold']:.5f}: the model's for 1%" in text("pairs", evidence.result)
