"""From hashed pictures to groups, each with the one to keep."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from numbers import Integral

import numpy as np

from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.find import make_groups
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.hashes import near
from diptych.dedupe.hashes.near import BITS, check_count, close_pairs
from diptych.dedupe.keeper import DEFAULT, preference_order
from diptych.dedupe.labelled import NONE, IdPairs, places_of
from diptych.dedupe.settling import Settled
from diptych.pictures.file_info import Picture
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.transitivity import are_among
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.errors import ArgumentError

MAX_DISTANCE = 4  # bits that differ; it is always an even number
FURTHEST = 10  # of which the search for a million hashes still takes minutes, and as far as others go by default
# Contents that share their hashes are all in pairs with each other up to so many pairs; beyond, and where all of them
# are more than `near.MOST_PAIRS`, with the best alone, so that ten thousand copies of one picture do not make fifty
# million. No group changes by that: its keeper is the best of its hash.
_PAIRS = 1024


def check_distance(max_distance: int) -> None:
    """Raise ArgumentError for a Hamming distance that is no whole number or out of its range."""
    if not isinstance(max_distance, Integral) or not 0 <= max_distance <= FURTHEST:
        raise ArgumentError(f"max_distance must be 0 to {FURTHEST} bits, a whole number, got {max_distance!r}")


def score_of(distance: int) -> float:
    """The similarity of two hashes that differ in so many bits, in [0, 1): 1 is that of the very same bytes."""
    return round((BITS - distance) / (BITS + 1), 7)


def duplicates_by_hash(
    pictures: Iterable[Picture],
    hashes: Mapping[str, int | None],
    *,
    max_distance: int = MAX_DISTANCE,
    keep: Sequence[str] = DEFAULT,
    apart: IdPairs = NONE,
) -> Duplicates:
    """Group pictures with the same bytes, and those whose hashes differ in at most `max_distance` bits; `hashes` has
    the hash of each content, or None for one that only exact copies match, as those of several frames do: a hash is of
    the first one.

    Groups are made as those of `duplicates_among`, and two pictures in reference folders are not compared. A hash tells
    copies from look-alikes less surely than a closer look, so that its matches are *likely* at most. Pairs of the ids
    `apart` do not match. Raises DedupeError for unknown rules.
    """
    found = sorted(pictures, key=lambda picture: picture.path)
    order = preference_order(found, keep)
    ids = list(dict.fromkeys(found[number].id for number in order))
    several = {picture.id for picture in found if picture.frames > 1}
    hashes = {id: None if id in several else phash for id, phash in hashes.items()}
    kept = {picture.id for picture in found if picture.reference}
    # Contents with one hash match the same others, so they are one item, the best first; those in references, which are
    # not compared with each other, are another, and so is each that is labelled.
    labelled = {id for pair in apart for id in pair}
    items: dict[tuple[int, bool, str], list[int]] = {}
    for place, id in enumerate(ids):
        if (phash := hashes[id]) is not None:
            items.setdefault((phash, id in kept, id if id in labelled else ""), []).append(place)
    contents = list(items.values())
    pairs, distances = close_pairs(
        np.array([phash for phash, *_ in items], np.uint64),
        max_distance,
        asking=np.array([not reference for _, reference, _ in items], bool),
    )
    matching_pairs = ~are_among(pairs, places_of(apart, [id for *_, id in items]))
    pairs, distances = pairs[matching_pairs], distances[matching_pairs]
    most = _listed_at_most(np.array([len(same) for same in contents], np.int64), pairs, max_distance)
    limit = score_of(max_distance)
    close, scores = [(a, b) for a, b in pairs.tolist()], [score_of(distance) for distance in distances.tolist()]
    matches = matches_of(close, scores, limit)
    groups = group_items(range(len(contents)), matches, limit)
    taken = {item for group in groups for item in group}
    groups += [[item] for item, same in enumerate(contents) if item not in taken and len(same) > 1]
    matching: dict[int, dict[int, float]] = {}
    for item, *others in groups:
        keeper, *same = contents[item]
        alike = {} if ids[keeper] in kept else dict.fromkeys(same, score_of(0))
        matching[keeper] = alike | {place: matches[item][other] for other in others for place in contents[other]}
    least = verdict_thresholds({"exact": 1.0, "near": limit})
    listed = [(ids[a], ids[b], score) for a, b, score in _matching_pairs(contents, close, scores, ids, kept, most)]
    undecided = []
    for keeper, alike in matching.items():
        if alike:
            stays = [ids[place] for place in (keeper, *sorted(alike))]
            undecided.append(Settled(stays, reasons=dict.fromkeys(stays[1:], "only a hash takes it for a copy")))
    return Duplicates(
        groups=make_groups(undecided, matching, {}, ids, found, order, least, keep),
        pictures=found,
        order=order,
        pairs=listed,
        threshold=limit,
        bound=limit,
        scored=len(listed),
        computed=len(listed),
        verdicts=least,
        question=COPY,
        keep=tuple(keep),
        method="phash",
        max_distance=max_distance,
        unhashed=sum(hashes[picture.id] is None for picture in found),
    )


def _matching_pairs(
    contents: Sequence[Sequence[int]],
    close: Iterable[tuple[int, int]],
    scores: Iterable[float],
    ids: Sequence[str],
    kept: Container[str],
    most: int,
) -> Iterator[tuple[int, int, float]]:
    """The pairs of contents that match: of one item, unless it lies in references, and of two that are close; where
    these are more than `most`, those with the best of an item.
    """
    for same in contents:
        if ids[same[0]] not in kept:
            many = len(same) * (len(same) - 1) // 2 > most
            pairs = ((same[0], other) for other in same[1:]) if many else combinations(same, 2)
            yield from ((a, b, score_of(0)) for a, b in pairs)
    for (one, other), score in zip(close, scores, strict=True):
        here, there = contents[one], contents[other]
        if len(here) * len(there) > most:
            pairs = [*product(here[:1], there), *product(here[1:], there[:1])]
        else:
            pairs = product(here, there)
        yield from ((a, b, score) for a, b in pairs)


def _listed_at_most(sizes: np.ndarray, pairs: np.ndarray, max_distance: int) -> int:
    """The number of pairs up to which those between two items, or within one, are all listed: `_PAIRS`, or 0 where they
    would be too many together. Items have `sizes` int64 (n,), and `pairs` int64 (P, 2) of them are close.

    Raises DedupeError where those with the best of an item are too many already.
    """
    within, (one, other) = sizes * (sizes - 1) // 2, sizes[pairs].T
    between, starred = one * other, one + other - 1
    check_count(int(starred.sum()), max_distance)
    count = np.where(within > _PAIRS, sizes - 1, within).sum() + np.where(between > _PAIRS, starred, between).sum()
    return _PAIRS if count <= near.MOST_PAIRS else 0
