"""The facts in the files of a collection's pictures by which keepers are chosen; the collection does not keep them."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from pathlib import Path

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import KnownFile, PairCache
from diptych.errors import UnknownPictureError
from diptych.pictures.file_info import Facts, Picture, read_facts
from diptych.pictures.walk import FoundFile
from diptych_runtime.errors import PictureError

_STEP = 20  # files read between two ticks


def with_file_facts(
    collection: Collection,
    pictures: list[Picture],
    wanted: Container[str],
    pair_cache: PairCache,
    tick: Callable[[int], object] = lambda done: None,
) -> list[Picture]:
    """The pictures, of which those `wanted` by id have their files' bytes, format, EXIF entries and dates. One whose
    file is gone or has changed stays as it is.

    The cache keeps what was read, and `tick` is told of 0 more pairs now and then; what it raises ends the reading.
    """
    known = {file.picture.id: file.picture for file in pair_cache.get_files(["/"]).values()}
    missing = [one for one in pictures if one.id in wanted and one.id not in known]
    for begin in range(0, len(missing), _STEP):
        read = [
            found for one in missing[begin : begin + _STEP] if (found := _read_picture(collection, one)) is not None
        ]
        pair_cache.add_files([KnownFile(one, 0) for one in read])
        known |= {one.id: one for one in read}
        tick(0)
    return [_replace_facts(one, known[one.id]) if one.id in wanted and one.id in known else one for one in pictures]


def _read_picture(collection: Collection, picture: Picture) -> Picture | None:
    """A picture as its file shows it, at a path of its own where it has none."""
    try:
        data, _ = collection.content(picture.id)
        facts = read_facts(data, picture.path)
        path = Path(picture.path)
        modified = FoundFile.of(path.stat()).stamp.modified if path.is_file() else picture.modified
    except (UnknownPictureError, PictureError, OSError):
        return None
    absolute = picture.path if path.is_absolute() else f"/{picture.id}"
    return Picture(picture.id, absolute, len(data), modified, *facts)


def _replace_facts(picture: Picture, file: Picture) -> Picture:
    return replace(picture, **{name: getattr(file, name) for name in ("bytes", "modified", *Facts._fields)})
