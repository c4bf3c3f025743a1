"""Duplicates by digest and perceptual hash (pHash) alone, without a model: a quick pass over very many files.

The bits of a hash say which of a picture's 64 lowest frequencies exceed their median. Pairs of hashes that differ in
few bits are found by multi-index hashing (Norouzi, Punjani and Fleet 2012): of two hashes that differ in at most d
bits, one of four bands of 16 bits differs in at most d // 4. So each hash is compared with those alone that have one of
its bands, or one that differs so little from it. Exact. For 300,000 hashes and 4 bits it takes 0.8 s of one core, and
FAISS's IndexBinaryMultiHash with five bands of 12 bits takes 10.6 s.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations, product
from numbers import Integral
from pathlib import Path

import numpy as np
from PIL import Image

from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.find import make_groups
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.keeper import DEFAULT, preference_order
from diptych.dedupe.labelled import NONE, IdPairs, places_of
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import NamedBytes, PictureFile, ReadFiles, Scan, read_in_batches, scan_new
from diptych.dedupe.settling import Settled
from diptych.errors import DedupeError, StoreError
from diptych.pictures.file_info import Picture
from diptych.pictures.sources import picture_limits
from diptych.scoring.threads import map_pictures
from diptych.store.lock import LOCK, WriterLock
from diptych_runtime.calibration.folds import are_among
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.verdicts import verdict_thresholds
from diptych_runtime.decoder import PictureLimits, PictureSource, open_picture
from diptych_runtime.errors import ArgumentError, PictureError

Hashes = dict[str, int | None]

BITS = 64
MOST_PAIRS = 5_000_000
_BAND = 16  # bits
_AT_ONCE = 1 << 20  # pairs that are compared at a time, some 60 bytes each
MAX_DISTANCE = 4  # bits that differ; it is always an even number
FURTHEST = 10  # of which the search for a million hashes still takes minutes, and as far as others go by default
# Contents that share their hashes are all in pairs with each other up to so many pairs; beyond, and where all of them
# are more than `MOST_PAIRS`, with the best alone, so that ten thousand copies of one picture do not make fifty
# million. No group changes by that: its keeper is the best of its hash.
_PAIRS = 1024
_SIDE, _KEPT = 32, 8  # pixels a picture is reduced to, and frequencies that are kept, each way
_LEAST = 2 * _SIDE  # pixels to which a JPEG is decoded at least
# The first rows of the discrete cosine transform (type 2): two products of matrices apply it to a batch. The library
# `imagehash` gives the same bits, needs SciPy and PyWavelets for it, and takes 410 microseconds of a picture beyond the
# time to reduce it; this takes 7, and as much with OpenCV's transform picture by picture is 80.
_CLEAR = 64.0  # distance to the median that saving a picture again does not cross: of one of 256 levels in amplitude
_FEWEST = 24  # clear bits; plain grounds and gradients have fewer, photos more
_COSINES = 2 * np.cos(np.pi * np.arange(_KEPT)[:, None] * (2 * np.arange(_SIDE) + 1) / (2 * _SIDE))

_BATCH = 1024  # files at most, after each of which the cache has them: it waits for the disk each time


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
    """The pairs of contents that match; of two items, or within one, with more than `most` those of the best."""
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
    return _PAIRS if count <= MOST_PAIRS else 0


def close_pairs(
    hashes: np.ndarray, max_distance: int, *, asking: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs int64 (P, 2), first < second, sorted, of hashes uint64 (n,) that differ in at most so many bits, and in how
    many, int64 (P,).

    With `asking`, bool (n,), two others are no pair. Raises DedupeError for more than `MOST_PAIRS`.
    """
    keys, distances, count = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    for first, second, distance in _search_bands(hashes, max_distance):
        if asking is not None:
            compared = asking[first] | asking[second]
            first, second, distance = first[compared], second[compared], distance[compared]
        keys.append(np.minimum(first, second) * len(hashes) + np.maximum(first, second))
        distances.append(distance.astype(np.int64))
        check_count(count := count + len(first), max_distance)
    found = np.concatenate(keys)
    order = np.argsort(found)
    return np.stack(np.divmod(found[order], max(len(hashes), 1)), 1), np.concatenate(distances)[order]


def check_count(count: int, max_distance: int) -> None:
    """Raise DedupeError for more than `MOST_PAIRS` pairs."""
    if count > MOST_PAIRS:
        raise DedupeError(
            f"more than {MOST_PAIRS:,} pairs of pictures have hashes that differ in at most {max_distance} bits; name "
            "a smaller --max-distance"
        )


def _search_bands(hashes: np.ndarray, most: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Places int64 (c,) of the hashes of close pairs, and the bits that differ, some at a time; each pair once."""
    flips = range(most // 4 + 1)
    masks = [sum(1 << bit for bit in bits) for size in flips for bits in combinations(range(_BAND), size)]
    for number, band in enumerate(_split_bands(hashes).T):
        order = np.argsort(band, kind="stable")
        keys, ordered = band[order].astype(np.int32), hashes[order]  # neighbours in memory, or it takes thrice as long
        starts = np.searchsorted(keys, np.arange(2**_BAND + 1)).astype(np.int32)
        for mask in masks:
            other = keys ^ mask
            # Each pair from one side: within a band from the earlier hash, of two from the lower band.
            begin = starts[other] if mask else np.arange(1, len(keys) + 1, dtype=np.int32)
            size = np.where(other >= keys, starts[other + 1] - begin, 0)
            for rows in _split_rows(size):
                many = size[rows]
                ends = np.cumsum(many, dtype=np.int32)
                columns = np.arange(ends[-1], dtype=np.int32) + np.repeat(begin[rows] - ends + many, many)
                differing = np.repeat(ordered[rows], many) ^ ordered[columns]
                distance = np.bitwise_count(differing)
                close = np.flatnonzero(distance <= most)
                earlier = np.bitwise_count(_split_bands(differing[close])[:, :number]) <= most // 4
                close = close[~earlier.any(axis=1)]
                row = np.searchsorted(ends, close, "right") + rows.start
                yield order[row], order[columns[close]], distance[close]


def _split_bands(hashes: np.ndarray) -> np.ndarray:
    """The bands uint16 (n, 4) of hashes uint64 (n,)."""
    return hashes.view(np.uint16).reshape(len(hashes), BITS // _BAND)


def _split_rows(count: np.ndarray) -> Iterator[slice]:
    """Rows that together have so many candidates as are compared at once, or a single one that has more."""
    total, start = np.cumsum(count), 0
    while start < len(count):
        before = total[start - 1] if start else 0
        stop = max(int(np.searchsorted(total, before + _AT_ONCE, "right")), start + 1)
        if total[stop - 1] > before:
            yield slice(start, stop)
        start = stop


@contextmanager
def kept_hashes(folder: Path) -> Iterator[PairCache]:
    """The cache in a folder, which is made if it is not there, for one process at a time. Raises StoreError."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = WriterLock(folder / LOCK, f"the folder {folder}")
    except OSError as error:
        raise StoreError(f"{folder} cannot be written: {error.strerror}; choose another folder") from None
    try:
        with PairCache(folder / LEDGER, None) as pair_cache:
            yield pair_cache
    finally:
        lock.release()


def scan_hashes(
    roots: Sequence[Path],
    files: Sequence[PictureFile],
    pair_cache: PairCache,
    *,
    threads: int,
    tick: Callable[[int], object] = lambda done: None,
    limits: PictureLimits | None = None,
) -> tuple[Scan, Hashes]:
    """The pictures of the files below the roots, references among them, and the hash of each content by id.

    It is None where there is too little to be seen. The cache has all hashes when this returns, and files that it knows
    with their size and times are not read. Stop at any time: the next call takes up the rest.
    """
    limits = limits or picture_limits()
    hashes = pair_cache.get_hashes()

    def hash_contents(contents: Mapping[str, NamedBytes]) -> list[int | PictureError | None]:
        return _hash_contents(contents, hashes, limits, threads)

    def read_files(fresh: Mapping[str, PictureFile]) -> Iterator[ReadFiles[int | None]]:
        return read_in_batches(fresh, hash_contents, limits, threads, _BATCH)

    def keep_hashes(read: Mapping[str, tuple[Picture, int | None]]) -> None:
        new = {picture.id: phash for picture, phash in read.values() if picture.id not in hashes}
        pair_cache.add_hashes(new)
        hashes.update(new)

    known = pair_cache.get_files(map(str, roots))
    return scan_new(files, known, hashes, pair_cache, read_files, keep_hashes, tick), hashes


def _hash_contents(
    contents: Mapping[str, NamedBytes], known: Hashes, limits: PictureLimits, threads: int
) -> list[int | PictureError | None]:
    """The hashes of contents, in order; those that are not known are made."""
    missing = {id: content for id, content in contents.items() if id not in known}

    def reduce_content(content: NamedBytes) -> np.ndarray:
        return reduce_picture(content[0], limits, name=content[1])

    made = dict(zip(missing, map_pictures(reduce_content, list(missing.values()), threads), strict=True))
    found: dict[str, int | PictureError | None]
    found = {id: one for id, one in made.items() if isinstance(one, PictureError)}
    good = {id: one for id, one in made.items() if not isinstance(one, PictureError)}
    found |= zip(good, perceptual_hashes(list(good.values())), strict=True)
    return [found[id] if id in found else known[id] for id in contents]


def reduce_picture(source: PictureSource, limits: PictureLimits, *, name: str | None = None) -> np.ndarray:
    """The brightness of a picture that its hash is made of, uint8 (32, 32); a JPEG is decoded at a reduced scale.

    Raises PictureError.
    """
    grey = open_picture(source, limits, name=name, least=_LEAST).convert("L")
    return np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS))


def perceptual_hashes(brightness: Sequence[np.ndarray]) -> list[int | None]:
    """The 64-bit hash of each picture from its brightness (`reduce_picture`).

    None where too few bits are more than noise, as on blank and plain pictures, all of which would match each other.
    """
    if not brightness:
        return []
    frequencies = (_COSINES @ np.stack(brightness).astype(np.float64) @ _COSINES.T).reshape(-1, BITS)
    medians = np.median(frequencies, axis=1, keepdims=True)
    telling = (np.abs(frequencies - medians) > _CLEAR).sum(1) >= _FEWEST
    hashes = np.packbits(frequencies > medians, axis=1).view(">u8")[:, 0].tolist()
    return [phash if tells else None for phash, tells in zip(hashes, telling.tolist(), strict=True)]
