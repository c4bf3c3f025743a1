"""The scores of pairs held against each other: a copy of a copy is a copy.

Of three pictures none may be copies of one another, or two, or all of them, but never just two of their three pairs. So
if one picture matches two others that do not match each other, at most one of the two matches is right: a damaged copy
that looks like all the pages of one layout is a copy of the one that it looks like most, and where two of them are as
near, it is uncertain of which.
"""

from __future__ import annotations

import numpy as np

UNSURE = 0.3  # the score from which on pairs are made consistent: what is less likely is proposed nowhere
_MOST = 1e7  # odds: scores have 7 decimals


def open_pairs(pairs: np.ndarray, scores: np.ndarray, least: float) -> np.ndarray:
    """Pairs int64 (Q, 2), first < second, sorted: those which no score is known of, and whose pictures both match a
    third one with a score of at least `least`, of pairs int64 (P, 2) with scores (P,).
    """
    beside: dict[int, set[int]] = {}
    for x, y in pairs[scores >= least].tolist():
        beside.setdefault(x, set()).add(y)
        beside.setdefault(y, set()).add(x)
    known = {(min(x, y), max(x, y)) for x, y in pairs.tolist()}
    wanted = {(x, y) for others in beside.values() for x in others for y in others if x < y}
    return np.array(sorted(wanted - known), np.int64).reshape(-1, 2)


class Transitivity:
    """The scores of pairs of `count` pictures, in [0, 1], each from the two pictures alone, and those that follow from
    all of them together.
    """

    def __init__(self, count: int, pairs: np.ndarray, scores: np.ndarray) -> None:
        """Remember scores (P,) of pairs int64 (P, 2), each pair once."""
        both = np.concatenate([pairs, pairs[:, ::-1]])
        order = np.argsort(both[:, 0] * count + both[:, 1])
        self._other, self._odds = both[order, 1], np.tile(_odds(scores), 2)[order]
        self._begin = np.searchsorted(both[order, 0], np.arange(count + 1))

    def consistent(self, pairs: np.ndarray, scores: np.ndarray, least: float = 0.0) -> np.ndarray:
        """The scores float64 (P,) of pairs int64 (P, 2), those from `least` on made consistent with those of
        every third picture z that was compared with both, x and y:

            P(x = y) = (o_xy + o_xyz) / (1 + o_xy + o_xz + o_yz + o_xyz)

        with the odds o of the three pairs, and those of all three being copies, o_xyz = o_xy o_xz o_yz / max(1, the
        least of them): of three likely pairs two already say that the third is one. The lowest over all z counts, and
        no score gets higher. 1 stays 1: the same pixels are copies, whatever else there is.
        """
        found = np.array(scores, np.float64)
        for place in np.flatnonzero((found >= least) & (found < 1)).tolist():
            x, y = pairs[place].tolist()
            near, far = (slice(self._begin[one], self._begin[one + 1]) for one in (x, y))
            _, first, second = np.intersect1d(
                self._other[near], self._other[far], assume_unique=True, return_indices=True
            )
            if len(first):
                own, one, other = _odds(found[place]), self._odds[near][first], self._odds[far][second]
                together = own * one * other / np.maximum(1, np.minimum(own, np.minimum(one, other)))
                likely = (own + together) / (1 + own + one + other + together)
                found[place] = min(found[place], round(float(likely.min()), 7))
        return found


def _odds(scores: np.ndarray | float) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    return scores / np.maximum(1 - scores, 1 / _MOST)
