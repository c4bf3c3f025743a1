"""The scan of picture files for their hashes (pHash): a content is decoded once in all runs.

The bits of a hash say which of a picture's 64 lowest frequencies exceed their median.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from diptych.dedupe.hashes.near import BITS
from diptych.dedupe.pair_cache import LEDGER, PairCache
from diptych.dedupe.scan import (
    NamedBytes,
    PictureFile,
    Scan,
    finish_scan,
    read_in_batches,
    remember_pictures,
    split_known,
)
from diptych.errors import StoreError
from diptych.pictures.sources import picture_limits
from diptych.pictures.walk import Refuse
from diptych.scoring.threads import map_pictures
from diptych.store.lock import LOCK, WriterLock
from diptych_runtime.decoder import PictureLimits, PictureSource, open_picture
from diptych_runtime.errors import PictureError

Hashes = dict[str, int | None]
_SIDE, _KEPT = 32, 8  # pixels a picture is reduced to, and frequencies that are kept, each way
_LEAST = 2 * _SIDE  # pixels to which a JPEG is decoded at least
# The first rows of the discrete cosine transform (type 2): two products of matrices apply it to a batch. The library
# `imagehash` gives the same bits, needs SciPy and PyWavelets for it, and takes 410 microseconds of a picture beyond the
# time to reduce it; this takes 7, and as much with OpenCV's transform picture by picture is 80.
_CLEAR = 64.0  # distance to the median that saving a picture again does not cross: of one of 256 levels in amplitude
_FEWEST = 24  # clear bits; plain grounds and gradients have fewer, photos more
_COSINES = 2 * np.cos(np.pi * np.arange(_KEPT)[:, None] * (2 * np.arange(_SIDE) + 1) / (2 * _SIDE))

_BATCH = 1024  # files at most, after each of which the cache has them: it waits for the disk each time


class HashScan(NamedTuple):
    """The scan of the files, and the hash of each content by id; None where there is too little to be seen."""

    scan: Scan
    hashes: Hashes


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
    refuse: Refuse,
    tick: Callable[[int], object] = lambda done: None,
    limits: PictureLimits | None = None,
) -> HashScan:
    """The pictures of the files below the roots, references among them, and their hashes, which the cache has when
    this returns.

    Files that the cache knows with their size and times are not read. What cannot be read goes to `refuse` with a
    reason. Stop at any time: the next call takes up the rest.
    """
    limits = limits or picture_limits()
    known = pair_cache.get_files(map(str, roots))
    hashes = pair_cache.get_hashes()
    pictures, fresh = split_known(files, known, hashes)
    if pictures:
        tick(len(pictures))

    def hash_contents(contents: Mapping[str, NamedBytes]) -> list[int | PictureError | None]:
        return _hash_contents(contents, hashes, limits, threads)

    for results in read_in_batches(fresh, hash_contents, limits, threads, _BATCH):
        good = [one for one in results.values() if not isinstance(one, PictureError)]
        new = {picture.id: phash for picture, phash in good if picture.id not in hashes}
        pair_cache.add_hashes(new)
        hashes |= new
        pictures += remember_pictures([picture for picture, _ in good], fresh, pair_cache)
        for path, error in results.items():
            if isinstance(error, PictureError):
                refuse(path, str(error))
        tick(len(results))
    return HashScan(finish_scan(pictures, files, known, pair_cache), hashes)


def _hash_contents(
    contents: Mapping[str, NamedBytes], known: Hashes, limits: PictureLimits, threads: int
) -> list[int | PictureError | None]:
    """The hashes of contents, in order; those that are not known are made."""
    missing = [id for id in contents if id not in known]
    reduce = partial(_reduce_content, limits=limits)
    seen = map_pictures(reduce, [contents[id] for id in missing], threads)
    made = dict(zip(missing, seen, strict=True))
    good = {id: one for id, one in made.items() if isinstance(one, np.ndarray)}
    found = dict(zip(good, perceptual_hashes(list(good.values())), strict=True))
    errors = {id: one for id, one in made.items() if isinstance(one, PictureError)}
    return [errors[id] if id in errors else found[id] if id in found else known[id] for id in contents]


def _reduce_content(content: NamedBytes, limits: PictureLimits) -> np.ndarray:
    data, name = content
    return reduce_picture(data, limits, name=name)


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
