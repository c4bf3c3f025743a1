"""Which pictures of a group may go, and which one stands for each: decided by looking at both in full."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from diptych.dedupe.closer import CloserLook
from diptych.dedupe.keeper import DEFAULT, preferred_reason
from diptych.dedupe.labelled import NONE, IdPairs
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.replacement import ENOUGH, UNKNOWN, better_because, can_replace, is_likelier_original, name_edits
from diptych.pictures.file_info import Picture
from diptych_runtime.closer_look.comparison import Comparison, compare_pixels
from diptych_runtime.decoder import open_picture
from diptych_runtime.errors import PictureError

Compare = Callable[[Picture, Picture], Comparison | None]

_BYTES = 256 * 1024 * 1024  # of decoded pictures in memory
_STAYING = 5  # pictures of a group that stay with which a further one is compared


@dataclass(frozen=True)
class Settled:
    """What was decided of a group of contents: those that stay, the one to keep first, and for each of the others the
    one that stands for it. `reasons` has the reason for which that one is kept, or for which the one to keep
    cannot stand for this one; `edits` what distinguishes it from the one that stands for it, or from the one to keep.
    """

    stays: list[str]
    replaced: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    edits: dict[str, str] = field(default_factory=dict)


class PixelComparisons:
    """Comparisons of pictures in full size, each made once in all runs; None where a file is not to be had."""

    def __init__(
        self,
        closer: CloserLook,
        pair_cache: PairCache,
        tick: Callable[[int], object] = lambda done: None,
        apart: IdPairs = NONE,
    ) -> None:
        """`tick` is told of 0 more pairs after each comparison; pairs of ids that are `apart` are not compared."""
        self._closer, self._pair_cache, self._tick = closer, pair_cache, tick
        self._apart = {frozenset(pair) for pair in apart}
        self._pixels: OrderedDict[str, np.ndarray | None] = OrderedDict()

    def compare(self, a: Picture, b: Picture) -> Comparison | None:
        """The comparison of two pictures of different content."""
        if frozenset((a.id, b.id)) in self._apart:
            return None
        low, high = sorted((a.id, b.id))
        found = self._pair_cache.get_comparison(low, high)
        if found is None:
            found = self._compare_files(low, high)
            if found is not None:
                self._pair_cache.add_comparison(low, high, found)
                self._tick(0)
        return found if found is None or low == a.id else found.with_sides_swapped

    def _compare_files(self, a: str, b: str) -> Comparison | None:
        seen, first, second = self._closer.look_at_pair(a, b), self._pixels_of(a), self._pixels_of(b)
        if seen is None or first is None or second is None:
            return None
        return compare_pixels(first, second, np.array(seen.corners) if seen.corners else None)

    def _pixels_of(self, id: str) -> np.ndarray | None:
        if id not in self._pixels:
            source = self._closer.find_source(id)
            try:
                self._pixels[id] = None if source is None else np.asarray(open_picture(source, self._closer.limits))
            except PictureError:
                self._pixels[id] = None
        self._pixels.move_to_end(id)
        while len(self._pixels) > 2 and sum(one.nbytes for one in self._pixels.values() if one is not None) > _BYTES:
            self._pixels.popitem(last=False)
        return self._pixels[id]


def settle_group(members: Sequence[Picture], compare: Compare, rules: Sequence[str] = DEFAULT) -> Settled:
    """Decide of pictures of different contents, the preferred first, which stand for which.

    A picture goes where another that stays can stand for it (`replacement.can_replace`). By the rules that are the
    default a better one takes the place of one that was preferred; rules that a person chose are followed, and what
    the preferred ones cannot stand for stays. References stay, and come first.
    """
    stays: list[Picture] = []
    replaced: dict[str, tuple[Picture, Picture]] = {}
    for one in members:
        for kept in stays[:_STAYING]:
            seen = compare(kept, one)
            if can_replace(kept, one, seen) is None and not (_is_default(rules) and _is_better(one, kept, seen)):
                replaced[one.id] = one, kept
                break
        else:
            if _is_default(rules):
                for kept in [other for other in stays[:_STAYING] if not other.reference]:
                    if can_replace(one, kept, compare(one, kept)) is None:
                        stays.remove(kept)
                        replaced[kept.id] = kept, one
            stays.append(one)
    _follow_replacements(replaced, stays, compare)
    _put_first(stays, replaced, compare, rules)
    reasons, edits = dict[str, str](), dict[str, str]()
    for one in members:
        kept = replaced[one.id][1] if one.id in replaced else stays[0]
        seen = compare(kept, one) if kept.id != one.id else None
        edits[one.id] = ", ".join(name_edits(kept, one, seen))
        if one.id in replaced:
            preferred = preferred_reason(kept, one, _rules_for_tie(rules, kept, one, seen))
            reasons[one.id] = better_because(kept, one, seen) or preferred or ENOUGH
        elif one is not kept:
            reasons[one.id] = can_replace(kept, one, seen) or preferred_reason(one, kept, rules) or UNKNOWN
    return Settled([one.id for one in stays], {id: kept.id for id, (_, kept) in replaced.items()}, reasons, edits)


def _put_first(
    stays: list[Picture], replaced: dict[str, tuple[Picture, Picture]], compare: Compare, rules: Sequence[str]
) -> None:
    """Put references first, then those that stand for most others, and by the default rules the likeliest original."""
    stands_for = Counter(kept.id for _, kept in replaced.values())
    stays.sort(key=lambda one: (not one.reference, -stands_for[one.id]))
    if _is_default(rules) and not stays[0].reference:
        equal = [one for one in stays[:_STAYING] if stands_for[one.id] == stands_for[stays[0].id]]
        first = reduce(lambda best, one: one if is_likelier_original(one, best, compare(one, best)) else best, equal)
        stays.insert(0, stays.pop(stays.index(first)))


def _follow_replacements(replaced: dict[str, tuple[Picture, Picture]], stays: list[Picture], compare: Compare) -> None:
    """Have one that stays stand for each that goes: where its own went, the one that stands for that, or it stays."""
    for id, (one, kept) in list(replaced.items()):
        while kept.id in replaced:
            kept = replaced[kept.id][1]
        if can_replace(kept, one, compare(kept, one)) is None:
            replaced[id] = one, kept
        else:
            del replaced[id]
            stays.append(one)


def _is_default(rules: Sequence[str]) -> bool:
    return tuple(rules) == DEFAULT


def _is_better(one: Picture, kept: Picture, seen: Comparison | None) -> bool:
    """True if the first of two that can stand for each other is to be kept."""
    if kept.reference or can_replace(one, kept, None if seen is None else seen.with_sides_swapped) is not None:
        return False
    if better_because(one, kept, None if seen is None else seen.with_sides_swapped):
        return True
    if better_because(kept, one, seen):
        return False
    return preferred_reason(one, kept, _rules_for_tie(DEFAULT, one, kept, seen)) is not None


def _rules_for_tie(rules: Sequence[str], one: Picture, other: Picture, seen: Comparison | None) -> Sequence[str]:
    """The rules for two that show as much: formats, and their bytes, say nothing of pixels that differ."""
    if not _is_default(rules) or (seen is not None and seen.equal):
        return rules
    silent = {"format"} if one.format == other.format else {"format", "largest"}
    return [rule for rule in rules if rule not in silent]
