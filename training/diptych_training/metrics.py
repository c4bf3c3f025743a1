"""Ranking metrics and their intervals, on plain arrays."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


class Pool:
    """All pairs of all queries in one list, sorted once, so that queries drawn anew cost a pass and not a sort.

    `scores` and `relevant` (P,): one entry a scored pair; `owner` int (P,): the query each belongs to, whose count
    weighs it. Pairs of equal score are one place of the list, so that ties cannot flatter.
    """

    def __init__(self, scores: ArrayLike, relevant: ArrayLike, owner: np.ndarray | None = None) -> None:
        scores, relevant = np.asarray(scores, float), np.asarray(relevant, bool)
        order = np.argsort(-scores, kind="stable")
        self._relevant = relevant[order]
        self._owner = None if owner is None else owner[order]
        self.ends = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)
        self.places = scores[order][self.ends]

    def curve(self, counts: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Matches and others down to each distinct score, best first; `counts` (Q,) says how often a query counts."""
        if counts is None or self._owner is None:
            found = np.cumsum(self._relevant)[self.ends]
            return found, self.ends + 1 - found
        weight = counts[self._owner]
        found = np.cumsum(weight * self._relevant)[self.ends]
        return found, np.cumsum(weight)[self.ends] - found

    def average_precision(self, positives: int, counts: np.ndarray | None = None) -> float:
        """Average precision with `positives` matches to find, found or not; NaN where there are none."""
        found, others = self.curve(counts)
        precision = found / np.maximum(found + others, 1)
        return float(np.sum(np.diff(found, prepend=0) * precision) / positives) if positives else float("nan")

    def recall_at_precision(self, positives: int, precision: float = 0.9, counts: np.ndarray | None = None) -> float:
        """The largest share of matches found by any threshold at which the precision is at least as stated; NaN where
        there are none.
        """
        found, others = self.curve(counts)
        reached = found / np.maximum(found + others, 1) >= precision
        if not positives:
            return float("nan")
        return float(found[reached].max() / positives) if reached.any() else 0.0

    def auc(self, counts: np.ndarray | None = None) -> float:
        """Chance that a match scores above another pair, ties counting half; NaN where one of the kinds is missing."""
        found, others = self.curve(counts)
        if not found[-1] or not others[-1]:
            return float("nan")
        above = found - np.diff(found, prepend=0) / 2
        return float(np.sum(np.diff(others, prepend=0) * above) / (found[-1] * others[-1]))


def micro_average_precision(scores: ArrayLike, relevant: ArrayLike, positives: int) -> float:
    """Average precision over all pairs of all queries in one list, as in the image similarity challenge (DISC21).

    `scores` and `relevant` (P,): one entry a scored pair; `positives`: how many matches exist, found or not.
    """
    if positives < 1:
        raise ValueError(f"micro-AP needs at least one match to find, got {positives}")
    return Pool(scores, relevant).average_precision(positives)


def wilson_interval(successes: float, trials: int) -> list[float]:
    """95 % interval of a share counted in independent trials (Wilson's score interval); holds up at 0 and at 1."""
    if trials < 1:
        raise ValueError(f"an interval needs at least one trial, got {trials}")
    z, share = 1.959964, successes / trials
    middle, reach = share + z * z / (2 * trials), z * np.sqrt((share * (1 - share) + z * z / (4 * trials)) / trials)
    low, high = ((middle + side * reach) / (1 + z * z / trials) for side in (-1, 1))
    return [max(0.0, float(low)), min(1.0, float(high))]


@dataclass(frozen=True)
class Ranking:
    """Scored candidates of every query: `scores` and `relevant` (Q, K), best first; `positives` (Q,) says how many
    matches each query has, found or not (bool will do where that is one at most).
    """

    scores: np.ndarray
    relevant: np.ndarray
    positives: np.ndarray

    @property
    def ranks(self) -> np.ndarray:
        """Place of the first match of each query that has one, 0-based; infinite where it is not among the
        candidates.
        """
        hits = self.relevant[np.asarray(self.positives, bool)]
        return np.where(hits.any(1), hits.argmax(1), np.inf)

    def summary(self) -> dict[str, float]:
        """Return micro-AP, recall at 90 % precision, recall@1 and mAP (over queries with a match; a match that is not
        among the candidates counts as never found).
        """
        scores, relevant, positives = self.scores.ravel(), self.relevant.ravel(), int(self.positives.sum())
        return {
            "micro_ap": micro_average_precision(scores, relevant, positives),
            "recall_at_p90": Pool(scores, relevant).recall_at_precision(positives),
            "recall@1": float(np.mean(self.ranks < 1)),
            "map": float(self._average_precisions().mean()),
        }

    def _average_precisions(self) -> np.ndarray:
        """Average precision of each query that has a match."""
        asked = np.asarray(self.positives, bool)
        found = np.cumsum(self.relevant[asked], axis=1)
        precision = found / np.arange(1, self.relevant.shape[1] + 1)
        return (precision * self.relevant[asked]).sum(1) / np.asarray(self.positives)[asked]


def two_stages(
    cosines: np.ndarray, logits: np.ndarray, relevant: np.ndarray, positives: np.ndarray
) -> tuple[Ranking, Ranking]:
    """The first stage's candidates (Q, K), best first, and the same permuted by the pair scorer's logits."""
    order = np.argsort(-logits, axis=1, kind="stable")
    after = Ranking(np.take_along_axis(logits, order, 1), np.take_along_axis(relevant, order, 1), positives)
    return Ranking(cosines, relevant, positives), after
