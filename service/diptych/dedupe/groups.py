"""From scored pairs to groups that can be trusted: a keeper, and what matches the keeper itself.

Connected components would chain: A like B and B like C puts A and C together, however little they have in common.
Everything here is numbers; what they stand for is the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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

    `order` has every item, the one to keep first. The first item of it keeps all that match it, the first of the rest
    keeps what is left of those that match that, and so on. `ask` scores pairs that were no candidates: a keeper with
    those that share a match with it; what it finds to match is added to `matches`, so that the same groups come out of
    them without asking. Pairs further apart count as no match.
    """
    rank = {item: place for place, item in enumerate(order)}
    groups = []
    rest = _components(set(matches), matches)
    while rest:
        keepers = [min(component, key=rank.__getitem__) for component in rest]
        if ask is not None:
            _ask(ask, keepers, rest, matches, threshold, rank)
        left: list[set[int]] = []
        for keeper, component in zip(keepers, rest, strict=True):
            members = component & matches[keeper].keys()
            if members:
                groups.append([keeper, *sorted(members, key=rank.__getitem__)])
            left += _components(component - members - {keeper}, matches)
        rest = left
    return sorted(groups, key=lambda group: rank[group[0]])


def _ask(
    ask: Ask, keepers: Sequence[int], components: Sequence[set[int]], matches: Matches, threshold: float, rank: dict
) -> None:
    """Score the keepers of a round with the items two steps away, in one call."""
    wanted = [
        (keeper, other)
        for keeper, component in zip(keepers, components, strict=True)
        for other in sorted(_two_steps(keeper, component, matches), key=rank.__getitem__)
    ]
    if not wanted:
        return
    for (keeper, other), score in zip(wanted, ask(wanted), strict=True):
        if score >= threshold:
            matches[keeper][other] = matches[other][keeper] = score


def _two_steps(start: int, component: set[int], matches: Matches) -> set[int]:
    near = component & matches[start].keys()
    return {far for item in near for far in matches[item] if far in component} - near - {start}


def _components(items: set[int], matches: Matches) -> list[set[int]]:
    """The connected components of two or more items, walking among these items only."""
    found, left = [], set(items)
    while left:
        component = {left.pop()}
        waiting = list(component)
        while waiting:
            near = left & matches[waiting.pop()].keys()
            left -= near
            component |= near
            waiting += near
        if len(component) > 1:
            found.append(component)
    return found
