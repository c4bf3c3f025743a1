"""From hashed pictures to groups, each with the one to keep."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from numbers import Integral

import numpy as np

from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.find import named
from diptych.dedupe.groups import grouped, matches_of
from diptych.dedupe.hashes import near
from diptych.dedupe.hashes.near import check_count, close_pairs
from diptych.dedupe.hashes.phash import BITS
from diptych.dedupe.keeper import DEFAULT, preference
from diptych.pictures.file_info import Picture
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.verdicts import least_of
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
) -> Duplicates:
    """Group pictures with the same bytes, and those whose hashes differ in at most `max_distance` bits; `hashes` has
    the hash of each content, or None for one that only exact copies match.

    Groups are made as those of `duplicates_among`, and two pictures in reference folders are not compared. A hash tells
    copies from look-alikes less surely than a closer look, so that its matches are *likely* at most. Raises
    DedupeError for unknown rules.
    """
    found = sorted(pictures, key=lambda picture: picture.path)
    order = preference(found, keep)
    ids = list(dict.fromkeys(found[number].id for number in order))
    kept = {picture.id for picture in found if picture.reference}
    # Contents with one hash match the same others, so they are one item, the best first; those in references, which are
    # not compared with each other, are another.
    items: dict[tuple[int, bool], list[int]] = {}
    for place, id in enumerate(ids):
        if (phash := hashes[id]) is not None:
            items.setdefault((phash, id in kept), []).append(place)
    contents = list(items.values())
    pairs, distances = close_pairs(
        np.array([phash for phash, _ in items], np.uint64),
        max_distance,
        asking=np.array([not reference for _, reference in items], bool),
    )
    sizes = np.array([len(same) for same in contents], np.int64)
    check_count(int(_starred(*sizes[pairs].T).sum()), max_distance)
    limit = score_of(max_distance)
    close, scores = [(a, b) for a, b in pairs.tolist()], [score_of(distance) for distance in distances.tolist()]
    matches = matches_of(close, scores, limit)
    groups = grouped(range(len(contents)), matches, limit)
    taken = {item for group in groups for item in group}
    groups += [[item] for item, same in enumerate(contents) if item not in taken and len(same) > 1]
    matching: dict[int, dict[int, float]] = {}
    for item, *others in groups:
        keeper, *same = contents[item]
        alike = {} if ids[keeper] in kept else dict.fromkeys(same, score_of(0))
        matching[keeper] = alike | {place: matches[item][other] for other in others for place in contents[other]}
    thresholds = {"exact": 1.0, "near": limit}
    listed = [(ids[a], ids[b], score) for a, b, score in _pairs(contents, close, scores, ids, kept)]
    return Duplicates(
        groups=named(
            [[keeper, *sorted(alike)] for keeper, alike in matching.items() if alike],
            matching,
            {},
            ids,
            found,
            order,
            thresholds,
            keep,
        ),
        pictures=found,
        order=order,
        pairs=listed,
        threshold=limit,
        bound=limit,
        scored=len(listed),
        computed=len(listed),
        verdicts=least_of(thresholds),
        question=COPY,
        keep=tuple(keep),
        method="phash",
        max_distance=max_distance,
        unhashed=sum(hashes[picture.id] is None for picture in found),
    )


def _pairs(
    contents: Sequence[Sequence[int]],
    close: Sequence[tuple[int, int]],
    scores: Iterable[float],
    ids: Sequence[str],
    kept: Container[str],
) -> Iterator[tuple[int, int, float]]:
    """The pairs of contents that match: of one item, unless it lies in references, and of two that are close."""
    most = _PAIRS if _count(contents, close, _PAIRS) <= near.MOST_PAIRS else 0
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


def _count(contents: Sequence[Sequence[int]], close: Sequence[tuple[int, int]], most: int) -> int:
    """The number of pairs of contents of one item and of two that are close, where up to so many are all listed."""
    sizes = np.array([len(same) for same in contents], np.int64)
    within = sizes * (sizes - 1) // 2
    one, other = sizes[np.array(close, np.int64).reshape(-1, 2)].T
    between = one * other
    return int(
        np.where(within > most, sizes - 1, within).sum() + np.where(between > most, _starred(one, other), between).sum()
    )


def _starred(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """The number of pairs between items of so many contents of which only those with the best of either are listed."""
    return one + other - 1
