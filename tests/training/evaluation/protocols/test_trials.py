"""One-shot trials: what is won, and what a control is asked."""

from pathlib import Path

import numpy as np

from diptych_training.evaluation.estimates import Resampling
from diptych_training.evaluation.protocols.trials import Trials, measure, ranked
from diptych_training.evaluation.stages import Entrants


def test_a_tie_with_the_right_candidate_is_not_won() -> None:
    labels = np.array([[True, False, False], [True, False, False], [False, True, False]])
    ranking = ranked(np.array([[0.5, 0.5, 0.1], [0.5, 0.4, 0.4], [0.1, 0.9, 0.9]]), labels)
    assert ranking.relevant[:, 0].tolist() == [False, True, False]
    assert (np.diff(ranking.scores) <= 0).all()
    assert (ranking.relevant.sum(1) == 1).all()


def trials(photos: Path) -> Trials:
    """Each of three photos among three, itself being the right one; its place differs."""
    files = [photos / f"{i:02d}.jpg" for i in range(5)]
    candidates = np.array([[0, 1, 2], [4, 3, 1], [2, 4, 0]])
    return Trials(files, photos, np.array([0, 1, 4]), candidates, np.array([0, 2, 1]))


def test_every_method_answers_the_same_trials(entrants: Entrants, photos: Path, colour) -> None:
    asked = colour()
    everyone = Entrants(entrants.model, {"again": entrants.model}, [asked])
    comparison, scored = measure(everyone, trials(photos), Resampling("trials", np.arange(3)))
    assert comparison.ours.first.values == {"accuracy": 1}
    assert comparison.controls[0].values == {"accuracy": 1}
    assert asked.asked == [3, 3, 3]
    assert comparison.against["again"].reranked.values == comparison.ours.reranked.values
    assert comparison.beside()["against"]["again"]["gain"]["accuracy"][0] <= 0
    assert scored.pairs.tolist()[:4] == [[0, 0], [0, 1], [0, 2], [1, 4]]
    assert np.flatnonzero(scored.labels).tolist() == [0, 5, 7]


def test_the_pair_scorer_looks_at_the_pairs_of_the_trial_in_their_order(entrants: Entrants, photos: Path) -> None:
    given = trials(photos)
    _, scored = measure(entrants, given, Resampling("trials", np.arange(3)))
    again = entrants.model.encode(np.stack([_pixels(file, entrants.model.panel_size) for file in given.files])).tokens
    expected = [entrants.model.pair_logits(again[[a]], again[[b]])[0] for a, b in given.pairs]
    assert np.array_equal(scored.logits, expected)


def _pixels(file: Path, size: int) -> np.ndarray:
    from diptych_runtime.decoder import panel_pixels

    return panel_pixels(file, size)
