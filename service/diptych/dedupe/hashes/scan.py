"""The scan of picture files for their hashes: a content is decoded once in all runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diptych.dedupe.hashes.phash import perceptual_hashes, reduce_picture
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
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError

Hashes = dict[str, int | None]
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
