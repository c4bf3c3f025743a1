"""Is what is stored of a picture whole? Its file, in the store or where it was found, and its features."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from diptych.errors import UnknownPictureError
from diptych.pictures.content import hash_file, read_bytes
from diptych.store.records import FilesReport, Record
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError
from diptych_runtime.own_files import open_own


class Keeper(Protocol):
    """A store that may have kept the file of a picture."""

    def data(self, id: str) -> bytes | None:
        """The kept bytes of a picture, unchecked, or None."""
        ...

    def remove(self, ids: Sequence[str]) -> list[bool]:
        """Remove pictures; says for each whether it was there."""
        ...


def is_whole(store: Keeper, record: Record) -> bool:
    """True if the bytes of a picture, kept or in its file, are unchanged, decodable here or not."""
    kept = store.data(record.id) if record.original_kept else None
    if kept is not None:
        return hashlib.sha256(kept).hexdigest() == record.sha256
    return _hash_file(record.path) == record.sha256


def compare_files(records: Iterable[Record], *, checksum: bool = False) -> FilesReport:
    """Compare pictures with the files at their paths, by digest where size and time differ, or always with `checksum`.

    Web addresses, and paths that only a client knows, are left out.
    """
    compared, changed, missing = 0, list[str](), list[str]()
    for record in records:
        if record.path is None or not Path(record.path).is_absolute():
            continue
        compared += 1
        if record.file_state == "unchanged" and not checksum:
            continue
        digest = _hash_file(record.path)
        if digest is None:
            missing.append(record.path)
        elif digest != record.sha256:
            changed.append(record.path)
    return FilesReport(compared, changed, missing)


def _hash_file(path: str | None) -> str | None:
    """SHA-256 of a file; None for one that cannot be read."""
    try:
        with open_own(path or "", may_link=True) as file:
            return hash_file(file)
    except (OSError, ValueError):
        return None


def read_original(store: Keeper, record: Record, limits: PictureLimits) -> bytes:
    """The bytes of a picture's file exactly as they were added; never those of another file in its place.

    Raises UnknownPictureError if they were kept and are damaged, or were not and the file is gone or has changed.
    """
    kept = store.data(record.id)
    if kept is not None:
        if hashlib.sha256(kept).hexdigest() != record.sha256:
            raise UnknownPictureError(
                f"the bytes kept of picture {record.id} are damaged; remove it and add it again from its file"
            )
        return kept
    if record.path is None:
        raise UnknownPictureError(
            f"the picture {record.id} was added without a file or its bytes; add it again with `keep_originals`"
        )
    try:
        data = read_bytes(record.path, limits)
    except PictureError as error:
        raise UnknownPictureError(
            f"the file of picture {record.id} is not available: {error}; put it back or add it again"
        ) from None
    if hashlib.sha256(data).hexdigest() != record.sha256:
        raise UnknownPictureError(
            f"{record.path} has changed since it was added as picture {record.id}; add it again, and remove the old one"
        )
    return data


def find_feature_faults(embedding: np.ndarray, tokens: np.ndarray) -> list[str]:
    """The faults of stored features that no checksum shows: an embedding without length 1, tokens without numbers."""
    norm = float(np.linalg.norm(embedding))
    faults = [] if abs(norm - 1.0) < 1e-3 else [f"its embedding has the length {norm:.4g}, expected 1"]
    return faults if np.isfinite(tokens).all() else [*faults, "its tokens are not finite"]
