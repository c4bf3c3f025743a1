"""From scored pairs to groups that can be trusted: a keeper, and what matches the keeper itself.

Connected components would chain: A like B and B like C puts A and C together, however little they have in common. And a
keeper that took all that match it would tear a picture from its copy for the sake of a weaker match.
Everything here is numbers; what they stand for is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

Pair = tuple[int, int]
Matches = dict[int, dict[int, float]]
Ask = Callable[[list[Pair]], Sequence[float]]

_ROUNDS = 8  # of asking: in each, most groups that can become one do


def matches_of(pairs: Sequence[Pair], scores: Sequence[float], threshold: float) -> Matches:
    """The matches of every item, both ways: {a: {b: score}} of the pairs whose score is at least the threshold."""
    matches: Matches = {}
    for (a, b), score in zip(pairs, scores, strict=True):
        if score >= threshold:
            matches.setdefault(a, {})[b] = score
            matches.setdefault(b, {})[a] = score
    return matches


def group_items(order: Sequence[int], matches: Matches, threshold: float, ask: Ask | None = None) -> list[list[int]]:
    """Groups of two or more, each with its keeper first and the others in `order`; sorted by their keepers.

    `order` has every item, the one to keep first. The surest match comes first: the groups of its two items, each of
    which is alone to begin with, become one if the one to keep of all matches every other. `ask` scores pairs that
    decide this and were no candidates, in a few calls; what it finds to match is added to `matches`, so that the same
    groups come out of them without asking. What is not asked about counts as no match.
    """
    rank = {item: place for place, item in enumerate(order)}
    asked = set[Pair]()
    for _ in range(_ROUNDS):
        if ask is None or not (wanted := _join_groups(matches, rank, asked)[1]):
            break
        asked.update(wanted)
        for (keeper, other), score in zip(wanted, ask(wanted), strict=True):
            if score >= threshold:
                matches[keeper][other] = matches[other][keeper] = score
    groups = [sorted(group, key=rank.__getitem__) for group in _join_groups(matches, rank, asked)[0]]
    return sorted(groups, key=lambda group: rank[group[0]])


def _join_groups(matches: Matches, rank: Mapping[int, int], asked: Set[Pair]) -> tuple[list[list[int]], list[Pair]]:
    """The groups by these matches, their keepers first, and the pairs of a keeper and an item of another group that
    alone keep two apart, each once: of that other group those of its surest match. What was `asked` is no match.
    """
    group = {item: [item] for item in matches}
    wanted: dict[Pair, None] = {}  # each once: a group that has grown may bring an item again
    apart = set[Pair]()
    waiting = set[int]()
    for first, second in _surest_first(matches, rank):
        one, other = sorted((group[first], group[second]), key=lambda items: rank[items[0]])
        keepers, own = (one[0], other[0]), matches[one[0]]
        if one is other or keepers in apart:
            continue
        if all(item in own for item in other):
            one += other
            group |= dict.fromkeys(other, one)
        elif other[0] not in waiting:
            missing = [(one[0], item) for item in other if item not in own]
            if asked.isdisjoint(missing):
                wanted |= dict.fromkeys(missing)
                waiting.add(other[0])
            else:
                apart.add(keepers)
    return [items for item, items in group.items() if item == items[0] and len(items) > 1], list(wanted)


def _surest_first(matches: Matches, rank: Mapping[int, int]) -> list[Pair]:
    """The matching pairs, the one to keep first in each; of those with the same score that of the first to keep."""
    pairs = [(a, b) for a, others in matches.items() for b in others if rank[a] < rank[b]]
    return sorted(pairs, key=lambda pair: (-matches[pair[0]][pair[1]], rank[pair[0]], rank[pair[1]]))
