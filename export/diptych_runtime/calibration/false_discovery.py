"""The expected number of false pairs among those that would be proposed as copies, and the threshold that bounds it.

After a closer look a score is the probability of a copy, so the scores themselves say how many of the pairs that reach
a threshold are expected to be wrong: the direct posterior probability approach to the false discovery rate (Newton et
al. 2004, doi:10.1093/biostatistics/5.2.155). Where much looks alike a score says too much, and how much does is seen in
the scores as well: in how many pairs are hard to tell. Of six copies of one picture fifteen pairs are right or wrong
together, so only the five that bring them together count (`joining_scores`).
"""

from __future__ import annotations

import math

import numpy as np

from diptych_runtime.calibration.folds import DisjointSets

FALSE_SHARE, FALSE_PAIRS = 0.08, 1 / 50  # of the pairs that are proposed, and for each picture
EVEN = 0.5  # a threshold that is no lower in any collection
# Scores are `too_sure` by so many times for each pair of a picture that is hard to tell, and at most by so many times,
# as measured on kinds of pictures that the look was not fitted to (docs/studies/2026-11-dedupe.md); a small collection
# counts as if it had so many pictures more.
HARD_TO_TELL = 0.3, 0.85
TOO_SURE, AT_MOST, MORE = 130.0, 8.0, 50


def joining_scores(pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The scores of the pairs that join pictures which no better pair has joined, float64 (J,).

    The highest come first. They are those of a maximum spanning forest (Kruskal 1956) of the pairs (P, 2) of places
    with scores (P,).
    """
    sets, order = DisjointSets(), np.argsort(-scores, kind="stable")
    best = zip(pairs[order].tolist(), scores[order].tolist(), strict=True)
    return np.array([score for (one, other), score in best if sets.join(one, other)], np.float64)


def doubts(scores: np.ndarray, pictures: int) -> np.ndarray:
    """The probabilities float64 (P,) that pairs with these scores (P,), all of a collection of so many pictures, are no
    copies: min(1, k (1 - p)), where the score p is `too_sure` by k.
    """
    return np.minimum(1, too_sure(scores, pictures) * (1 - scores.astype(np.float64)))


def too_sure(scores: np.ndarray, pictures: int) -> float:
    """The factor by which pairs are wrong more often than their scores say in a collection of so many pictures: k = 130
    (h + 1) / (n + 50), between 1 and 8, for h pairs that are hard to tell.
    """
    least, most = HARD_TO_TELL
    hard = np.count_nonzero((scores >= least) & (scores < most))
    return float(np.clip(TOO_SURE * (hard + 1) / (pictures + MORE), 1, AT_MOST))


def discovery_threshold(scores: np.ndarray, pictures: int, least: float = EVEN) -> float:
    """The threshold from `least` on that as many pairs reach as can, of these scores float64 (P,), while no more than
    `FALSE_SHARE` of them are expected to be wrong (`doubts`), and no more than `FALSE_PAIRS` for each picture. Where it
    lies between two scores it has five decimals, and a pair more that just reaches it would not be too many.
    """
    best = np.sort(scores)[::-1].astype(np.float64)
    wrong = np.cumsum(doubts(best, pictures))
    may = np.minimum(FALSE_SHARE * np.arange(1, len(best) + 2), max(FALSE_SHARE, FALSE_PAIRS * pictures))
    # Of equal scores all reach a threshold, or none.
    enough = np.flatnonzero((wrong <= may[:-1]) & (np.diff(best, append=-1.0) < 0))
    found = int(enough[-1]) + 1 if len(enough) else 0
    lowest, next_one = best[found - 1] if found else 1.0, best[found] if found < len(best) else 0.0
    left = may[found] - (wrong[found - 1] if found else 0.0)
    between = min(lowest, max(1 - left / too_sure(scores, pictures), np.nextafter(next_one, 1)))
    rounded = math.floor(between * 1e5) / 1e5
    return float(max(least, rounded if next_one < rounded <= between else between))
