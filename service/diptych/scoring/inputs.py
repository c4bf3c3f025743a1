"""Pictures and pairs of them as a caller of the library gives them: checked, listed, and each distinct one once."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from PIL import Image

from diptych.pictures.walk import Refuse, Tree, no_picture
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import ArgumentError, PictureError

Pair = Sequence[PictureSource]


def is_picture(value: object) -> bool:
    """True for one picture, or the path of anything; False for several pictures, which an array (B, H, W, 3) is too."""
    if isinstance(value, np.ndarray):
        return value.ndim < 4
    return isinstance(value, str | os.PathLike | bytes | bytearray | memoryview | Image.Image)


def list_sources(pictures: PictureSource | Iterable[PictureSource]) -> list[PictureSource]:
    """The one picture, or any number of them, as a list."""
    return list(cast("Iterable[PictureSource]", (pictures,) if is_picture(pictures) else pictures))


def pictures_of(documents: str | os.PathLike[str] | Iterable[PictureSource]) -> list[PictureSource]:
    """The pictures of a list or below a folder. Raises ArgumentError for one picture, PictureError for none."""
    if not is_picture(documents):
        return list_sources(documents)
    if isinstance(documents, str | os.PathLike) and Path(documents).is_dir():
        return list(files_below(documents))
    raise ArgumentError(f"expected a list of pictures or a folder, got one picture: {str(documents)[:200]!r}")


def files_below(folder: str | os.PathLike[str], refuse: Refuse = lambda path, reason: None) -> list[Path]:
    """The picture files below a folder; `refuse` gets what cannot be read. Raises PictureError for none."""
    tree = Tree.below([folder])
    for unread, reason in (tree.refused | tree.closed).items():
        refuse(unread, reason)
    if not tree.files:
        raise PictureError(no_picture([folder], tree.omissions))
    return list(map(Path, tree.files))


def pairs_of(inputs: Iterable[Pair]) -> list[Pair]:
    """The pairs, each a list or a tuple of two pictures. Raises ArgumentError for anything else, one bare pair too."""
    if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "UO":  # two columns of a table
        inputs = inputs.tolist()
    given: list[Any] = [inputs] if is_picture(inputs) else list(inputs)
    for place, pair in enumerate(given):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            got = f"{len(pair)} pictures" if isinstance(pair, list | tuple) else type(pair).__name__
            raise ArgumentError(
                f"pair {place} must be a list or a tuple of two pictures, got {got}; write predict([(a, b), ...])"
            )
    return given


def find_distinct(pairs: Sequence[Pair]) -> tuple[list[PictureSource], np.ndarray]:
    """The distinct pictures of pairs, and the pairs int64 (P, 2) of places among them."""
    places: dict[Hashable, int] = {}
    sources: list[PictureSource] = []
    sides = np.empty((len(pairs), 2), np.int64)
    for row, pair in enumerate(pairs):
        for side, source in enumerate(pair):
            key = _source_key(source)
            if key not in places:
                places[key] = len(sources)
                sources.append(source)
            sides[row, side] = places[key]
    return sources, sides


def _source_key(source: PictureSource) -> Hashable:
    """The key by which two sources are the same picture: an equal path or equal bytes, or the same object."""
    if isinstance(source, bytes | str):
        return source
    if hasattr(source, "__fspath__"):
        return str(source)
    return (id(source),)
