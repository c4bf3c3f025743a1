"""Perceptual hashes with the tolerances that people use them with: imagededup's and czkawka's, by `imagehash`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from diptych.dedupe.groups import grouped, matches_of
from diptych.dedupe.keeper import preference
from diptych.errors import BenchError
from diptych.pictures.file_info import Picture
from diptych.scoring.threads import map_pictures
from diptych_runtime.decoder import open_picture
from diptych_runtime.errors import PictureError

# name: (imagehash's function, its size, bits that may differ). imagededup's PHash and DHash have 64 bits and 10 by
# default; czkawka's gradient hash is a difference hash, with tolerances by size for its presets, Very High to Minimal.
HASHES = {
    "imagededup's PHash": ("phash", 8, (0, 4, 10)),
    "imagededup's DHash": ("dhash", 8, (10,)),
    "czkawka's gradient 8x8": ("dhash", 8, (1, 2, 5, 7, 14)),
    "czkawka's gradient 16x16": ("dhash", 16, (2, 5, 15, 30, 40)),
}
_ROWS = 256  # of the matrix of distances at a time


def measured(pictures: Sequence[Picture], threads: int) -> Iterator[tuple[str, int, float, list[list[str]]]]:
    """(hash, bits that may differ, seconds, groups of paths) of every hash at every tolerance.

    Groups are made by our own rule, keepers first, so that only the hash is compared. Raises BenchError.
    """
    try:
        import imagehash
    except ImportError:
        raise BenchError("hashes need imagehash; install it with `pip install 'diptych[evaluate]'`") from None
    made: dict[tuple[str, int], tuple[np.ndarray, float]] = {}
    order = preference(pictures)
    for name, (function, size, tolerances) in HASHES.items():
        if (function, size) not in made:
            began = perf_counter()
            work = partial(_hash, function=getattr(imagehash, function), size=size)
            hashes = map_pictures(work, [picture.path for picture in pictures], threads)
            bits = [np.zeros(size * size, bool) if isinstance(one, PictureError) else one for one in hashes]
            made[function, size] = np.packbits(np.stack(bits), 1).view(np.uint64), perf_counter() - began
        words, seconds = made[function, size]
        for tolerance in tolerances:
            began = perf_counter()
            pairs = close_pairs(words, tolerance)
            matches = matches_of(pairs, [1.0] * len(pairs), 1.0)
            groups = [[pictures[place].path for place in group] for group in grouped(order, matches, 1.0)]
            yield name, tolerance, seconds + perf_counter() - began, groups


def close_pairs(words: np.ndarray, tolerance: int) -> list[tuple[int, int]]:
    """Pairs first < second of hashes uint64 (n, w) that differ in at most so many bits."""
    found = []
    for start in range(0, len(words), _ROWS):
        rows = words[start : start + _ROWS]
        distance = sum(
            np.bitwise_count(rows[:, None, word] ^ words[None, :, word]).astype(np.uint16)
            for word in range(words.shape[1])
        )
        first, second = np.nonzero(np.asarray(distance) <= tolerance)
        later = second > first + start
        found += zip((first[later] + start).tolist(), second[later].tolist(), strict=True)
    return found


def _hash(path: str, function: Any, size: int) -> np.ndarray:
    return function(open_picture(path), size).hash.ravel()
