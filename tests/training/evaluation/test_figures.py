"""The table of all methods' figures, whichever the protocol."""

from pathlib import Path

import numpy as np
import pytest

from diptych_training.evaluation.figures import format_figures
from diptych_training.evaluation.galleries import Labelled, evaluate_copies, evaluate_retrieval
from diptych_training.evaluation.stages import Entrants, Evidence
from diptych_training.evaluation.trials import Trials, evaluate_episodes, evaluate_pairs, open_drawings


@pytest.fixture
def everyone(entrants: Entrants) -> Entrants:
    return Entrants(entrants.model, {"other": entrants.model})


def copies(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    names = [f"{i:02d}.jpg" for i in range(14)]
    return evaluate_copies(everyone, photos, photos, [(name, name) for name in names], candidates=5)


def retrieval(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = [photos / f"{i:02d}.jpg" for i in range(14)]
    queries, gallery = Labelled(tuple(files[:4]), tuple("abax")), Labelled(tuple(files[4:]), tuple("ab" * 5))
    return evaluate_retrieval(everyone, queries, gallery, candidates=5)


def pairs(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    files = tuple(photos / f"{i:02d}.jpg" for i in range(14))
    rows = np.array([[i, i if i % 2 else i + 1] for i in range(13)])
    labels = (rows[:, 0] == rows[:, 1])[:, None]
    return evaluate_pairs(everyone, Trials(files, rows[:, 0], rows[:, 1:], labels))


def episodes(everyone: Entrants, photos: Path, omniglot: Path) -> Evidence:
    with open_drawings(omniglot / "omniglot.zip", "validation") as folder:
        return evaluate_episodes(everyone, folder, episodes=3, ways=3)


@pytest.mark.parametrize(
    ("protocol", "said"),
    [
        (copies, "re-ranked, first 5"),
        (retrieval, "queries 3, gallery 10, 1 queries without a match in the gallery"),
        (pairs, "for a false-positive rate of 0.10%: here"),
        (episodes, "trials 9, episodes 3, ways 3"),
    ],
)
def test_every_method_has_a_row_and_every_other_a_gain(
    protocol, said: str, everyone: Entrants, photos: Path, omniglot: Path
) -> None:
    evidence = protocol(everyone, photos, omniglot)
    result, shown = evidence.result, format_figures(evidence.protocol, evidence.result)
    lines = shown.splitlines()
    names = ("other, first stage", "other, re-ranked", "first stage", "re-ranked")
    assert all(line.startswith(name) for line, name in zip(lines[1:5], names, strict=True))
    for name in ("by looking at both", "over other"):
        assert f"gain {name}, " in shown
    assert f"{result['resampled']} drawn anew" in shown
    assert "expected calibration error" in shown
    assert said in shown
    assert f"threshold {result.get('threshold', 0):.5f}: the model's for 1%" in shown or "threshold" not in result
    # The same model is no better than itself at its best.
    assert lines[1].split("  ")[-1].strip() == lines[3].split("  ")[-1].strip()


def test_a_figure_is_shown_with_the_interval_of_its_own_stage(everyone: Entrants, photos: Path, omniglot: Path) -> None:
    result = copies(everyone, photos, omniglot).result
    shown = format_figures("copies", result).splitlines()
    for line, values, intervals in (
        (shown[3], result["first_stage"], result["interval"]["first_stage"]),
        (shown[4], result, result["interval"]),
    ):
        low, high = intervals["micro_ap"]
        assert f"{values['micro_ap']:.3f} ({low:.3f} to {high:.3f})" in line
