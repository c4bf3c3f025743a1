"""From scored pairs to groups that can be trusted: a keeper, and what matches the keeper itself.

Connected components would chain: A like B and B like C puts A and C together, however little they have in common. And a
keeper that took all that match it would tear a picture from its copy for the sake of a weaker match.
Everything here is numbers; what they stand for is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Pair = tuple[int, int]
Matches = dict[int, dict[int, float]]
Ask = Callable[[list[Pair]], Sequence[float]]


def matches_of(pairs: Sequence[Pair], scores: Sequence[float], threshold: float) -> Matches:
    """The matches of every item, both ways: {a: {b: score}} of the pairs whose score is at least the threshold."""
    matches: Matches = {}
    for (a, b), score in zip(pairs, scores, strict=True):
        if score >= threshold:
            matches.setdefault(a, {})[b] = score
            matches.setdefault(b, {})[a] = score
    return matches


def grouped(order: Sequence[int], matches: Matches, threshold: float, ask: Ask | None = None) -> list[list[int]]:
    """Groups of two or more, each with its keeper first and the others in `order`; sorted by their keepers.

    `order` has every item, the one to keep first. The surest match comes first: the groups of its two items, each of
    which is alone to begin with, become one if the one to keep of all matches every other. `ask` scores the pairs that
    decide this and were no candidates; what it finds to match is added to `matches`, so that the same groups come out
    of them without asking.
    """
    rank = {item: place for place, item in enumerate(order)}
    asked = set[Pair]()
    while True:
        groups, undecided = _joined(matches, rank)
        wanted = [pair for pair in undecided if pair not in asked]
        if ask is None or not wanted:
            return groups
        asked.update(wanted)
        for (keeper, other), score in zip(wanted, ask(wanted), strict=True):
            if score >= threshold:
                matches[keeper][other] = matches[other][keeper] = score


def _joined(matches: Matches, rank: Mapping[int, int]) -> tuple[list[list[int]], list[Pair]]:
    """The groups by these matches, and the pairs of a keeper and an item of another group that kept two apart."""
    group = {item: [item] for item in matches}
    apart: dict[Pair, None] = {}
    for first, second in _surest_first(matches, rank):
        one, other = sorted((group[first], group[second]), key=lambda items: rank[items[0]])
        if one is other:
            continue
        if missing := [item for item in other if item not in matches[one[0]]]:
            apart |= dict.fromkeys((one[0], item) for item in missing)
            continue
        one += other
        group |= dict.fromkeys(other, one)
    found = {items[0]: sorted(items, key=rank.__getitem__) for items in group.values() if len(items) > 1}
    return sorted(found.values(), key=lambda items: rank[items[0]]), list(apart)


def _surest_first(matches: Matches, rank: Mapping[int, int]) -> list[Pair]:
    """The matching pairs, the one to keep first in each; of those with the same score that of the first to keep."""
    pairs = [(a, b) for a, others in matches.items() for b in others if rank[a] < rank[b]]
    return sorted(pairs, key=lambda pair: (-matches[pair[0]][pair[1]], rank[pair[0]], rank[pair[1]]))
