"""Disjoint sets of pictures that pairs bring together (union-find, with path halving)."""

from __future__ import annotations


class DisjointSets:
    """Sets of numbers, each of which is one by itself until it is joined with another."""

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
