"""Pictures that pairs bring together, and folds of pairs for cross-validation, of which those stay together."""

from __future__ import annotations

import numpy as np


class DisjointSets:
    """Sets of numbers, each of which is one by itself until it is joined with another (union-find, path halving)."""

    def __init__(self) -> None:
        """Begin with no number."""
        self._above: dict[int, int] = {}

    def root(self, number: int) -> int:
        """The number that stands for the set of this one."""
        above = self._above
        while above.setdefault(number, number) != number:
            above[number] = number = above[above[number]]
        return number

    def join(self, one: int, other: int) -> bool:
        """Make one set of those of two numbers; False where they are in one already."""
        one, other = self.root(one), self.root(other)
        self._above[other] = one
        return one != other


def group_by_picture(sides: np.ndarray) -> np.ndarray:
    """A group number (P,) for every pair (P, 2), the same for pairs that share a picture.

    They may share it by way of others; the largest groups have the lowest numbers. Where most pairs are of one such
    group, each is one by itself.
    """
    if not len(sides):
        return np.empty(0, np.int64)
    sets = DisjointSets()
    for a, b in sides.tolist():
        sets.join(a, b)
    _, which, sizes = np.unique([sets.root(a) for a in sides[:, 0].tolist()], return_inverse=True, return_counts=True)
    if sizes.max() > len(sides) / 2:
        return np.arange(len(sides))
    order = np.argsort(-sizes, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[which]


def are_among(pairs: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which pairs int64 (P, 2) are among others (Q, 2), bool (P,), in whatever order the two of a pair are.

    There may be very many: they are compared as numbers.
    """
    place = np.array([max(pairs.max(initial=0), others.max(initial=0)) + 1, 1])
    return np.isin(np.sort(pairs, 1) @ place, np.sort(others, 1) @ place)
