"""The interface of the stores in which a collection's pictures lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from diptych.store.embedder import Rebuild
from diptych.store.filters import Filter
from diptych.store.records import FileStamp, NewPicture, Record
from diptych.store.reports import RebuildReport, VerifyReport


class Backend(Protocol):
    """Pictures and their features; thread-safe. What a method wrote is safe when it returns, and found by everyone.

    `keys` name pictures within one search: what `nearest` gives, `tokens` and `records` take.
    """

    read_only: bool

    @property
    def name(self) -> str:
        """As `--store` takes it, without a password."""
        ...

    @property
    def folder(self) -> Path | None:
        """The folder for files beside the pictures; None where there is no such place."""
        ...

    def close(self) -> None:
        """Let go of it. Nothing is lost without that."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def check(self) -> None:
        """Raise UnreachableError if it cannot be asked right now."""
        ...

    def insert(self, pictures: Sequence[NewPicture]) -> list[bool]:
        """Add pictures; says for each whether it is new. Of others only a path or kept bytes are filled in."""
        ...

    def complete(self, known: Iterable[tuple[str, str | None, bytes | None]]) -> None:
        """Fill in missing paths and bytes of stored pictures: (id, path or None, bytes or None) each."""
        ...

    def note_stamps(self, seen: Iterable[tuple[str, str, FileStamp]]) -> None:
        """Remember how files were when they were read: (id, path, stamp) each, of pictures with that path."""
        ...

    def replace_metadata(self, given: Iterable[tuple[str, dict[str, Any]]]) -> None:
        """Give stored pictures other metadata: (id, metadata) each; unknown ids are left out."""
        ...

    def remove(self, ids: Sequence[str]) -> list[bool]:
        """Remove pictures; says for each whether it was there."""
        ...

    def get(self, id: str) -> Record | None:
        """The record of a picture, or None. Raises StoreError if it is damaged."""
        ...

    def data(self, id: str) -> bytes | None:
        """The kept bytes of a picture, unchecked, or None."""
        ...

    def check_keeping(self) -> None:
        """Raise NoOriginalsError if it has no place for the files of pictures."""
        ...

    def known_ids(self, ids: Sequence[str]) -> set[str]:
        """The given ids that are stored."""
        ...

    def panels(self, ids: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
        """(tokens, embedding) by id, as written; those not there are left out. Raises StoreError for damage."""
        ...

    def embeddings_of(self, ids: Sequence[str]) -> dict[str, bytes]:
        """Embeddings float32 by id; those not there are left out. Raises StoreError for damage."""
        ...

    def page(self, limit: int, after: str | None = None, where: Filter | None = None) -> list[Record]:
        """Up to `limit` records that meet a condition, in a fixed order, beginning behind the picture `after`.

        Raises UnknownPictureError if that is not there and its place cannot be known.
        """
        ...

    def pages(self, size: int, where: Filter | None = None) -> Iterator[list[Record]]:
        """All that `page` gives, page by page, whatever is removed meanwhile."""
        ...

    def under(self, path: str) -> dict[str, str]:
        """Id and path of the pictures whose path is `path` or lies in the folder `path`."""
        ...

    def count(self) -> int:
        """The number of pictures."""
        ...

    def index_state(self) -> tuple[int, int | None]:
        """The number of pictures that a search looks through, and of changes that led there; None where changes are not
        counted.
        """
        ...

    def disk_bytes(self) -> int | None:
        """The bytes that the store takes on a disk; None where that is unknown."""
        ...

    def stats(self) -> dict[str, Any]:
        """Counts and sizes as JSON values: directory, pictures, kept, revisions and what else there is to say."""
        ...

    def index_facts(self) -> dict[str, Any]:
        """The state of the candidate index as JSON values."""
        ...

    def nearest(self, embedding: np.ndarray, count: int, where: Filter | None) -> tuple[np.ndarray, np.ndarray]:
        """Keys (n,) and cosines float32 (n,) of the n <= `count` nearest that meet a condition, nearest first."""
        ...

    def tokens(self, keys: Sequence[Any], /) -> Mapping[Any, bytes]:
        """Tokens by key, as written; those that are gone are left out, and so, with a warning, are damaged ones."""
        ...

    def records(self, keys: Sequence[Any], /) -> Mapping[Any, Record]:
        """Records by key; those that are gone are left out, and so, with a warning, are damaged ones."""
        ...

    def verify(self) -> VerifyReport:
        """Check everything, slowly, and change nothing."""
        ...

    def rebuild(self, work: Rebuild) -> RebuildReport:
        """Embed damaged pictures anew, and make the index from the pictures alone."""
        ...
