"""The scores of pairs held against each other: a copy of a copy is a copy.

Of three pictures none may be copies of one another, or two, or all of them, but never just two of their three pairs. So
if one picture matches two others that do not match each other, at most one of the two matches is right: a damaged copy
that looks like all the pages of one layout is a copy of the one that it looks like most, and where two of them are as
near, it is uncertain of which.
"""

from __future__ import annotations

import numpy as np

UNSURE = 0.3  # the score from which on pairs are made consistent: what is less likely is proposed nowhere
OUTVOTED = 3  # pictures that match both, for one that matches one of the two
# What two scores of one picture have in common, such as how damaged it is, tells nothing of which of them is right: the
# difference of their log-odds says so many times as much, as measured (docs/studies/2026-11-dedupe.md).
SHARPER = 2.0
RIVALS = 3  # of the best matches of a picture, with which its other matches are compared
_MOST = 1e7  # odds: scores have 7 decimals


def open_pairs(pairs: np.ndarray, scores: np.ndarray, least: float) -> np.ndarray:
    """Pairs int64 (Q, 2), first < second, sorted: those which no score is known of, of a picture that matches a third
    one with a score of at least `least`, and one of the `RIVALS` that match that one best, of pairs int64 (P, 2) with
    scores (P,). There are no more than 2 `RIVALS` of them for each match.
    """
    beside: dict[int, list[tuple[float, int]]] = {}
    matches = scores >= least
    for (x, y), score in zip(pairs[matches].tolist(), scores[matches].tolist(), strict=True):
        beside.setdefault(x, []).append((-score, y))
        beside.setdefault(y, []).append((-score, x))
    wanted = {
        (min(x, y), max(x, y))
        for others in beside.values()
        for _, x in sorted(others)[:RIVALS]
        for _, y in others
        if x != y
    }
    found = np.array(sorted(wanted), np.int64).reshape(-1, 2)
    return found[~are_among(found, pairs)]


def are_among(pairs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which pairs int64 (P, 2) are among others (Q, 2), bool (P,), in whatever order the two of a pair are.

    There may be very many: they are compared as numbers.
    """
    place = np.array([max(pairs.max(initial=0), others.max(initial=0)) + 1, 1])
    return np.isin(np.sort(pairs, 1) @ place, np.sort(others, 1) @ place)


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

    def make_consistent(self, pairs: np.ndarray, scores: np.ndarray, least: float = 0.0) -> np.ndarray:
        """The scores float64 (P,) of pairs int64 (P, 2), those from `least` on made consistent with those of every
        third picture z that was compared with both, x and y, and is likely to be a copy of one and not of the other:

            P(x = y) = (o_xy + o_xy o_xz o_yz) / (1 + o_xy + o_xz + o_yz + o_xy o_xz o_yz)

        with the odds o of the three pairs; but for the higher of the two with z, the rival r, the difference of
        log-odds counts twice (`SHARPER`): it has o_r^2 / o_xy. The lowest over all such z counts, unless more than
        `OUTVOTED` times as many pictures are likely to be copies of both: then it was the pair with z that was
        misjudged. No score gets higher, and 1 stays 1: the same pixels are copies, whatever else there is.
        """
        found = np.array(scores, np.float64)
        for place in np.flatnonzero((found >= least) & (found < 1)).tolist():
            x, y = pairs[place].tolist()
            near, far = (slice(self._begin[one], self._begin[one + 1]) for one in (x, y))
            _, first, second = np.intersect1d(
                self._other[near], self._other[far], assume_unique=True, return_indices=True
            )
            own, one, other = _odds(found[place]), self._odds[near][first], self._odds[far][second]
            matched = np.maximum(one, other) > 1
            against, both = matched & (np.minimum(one, other) < 1), matched & (np.minimum(one, other) >= 1)
            if against.any() and OUTVOTED * np.count_nonzero(against) >= np.count_nonzero(both):
                one, other = one[against], other[against]
                less, rival = np.minimum(one, other), np.maximum(one, other)
                rival = rival * (rival / max(own, 1 / _MOST)) ** (SHARPER - 1)
                together = own * less * rival
                likely = (own + together) / (1 + own + less + rival + together)
                found[place] = min(found[place], round(float(likely.min()), 7))
        return found


def _odds(scores: np.ndarray | float) -> np.ndarray:
    scores = np.asarray(scores, np.float64)
    return scores / np.maximum(1 - scores, 1 / _MOST)
