"""What a collection says about a picture it holds."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

from diptych.errors import StoreError
from diptych.store.sqlite.schema import FACTS, checksum

COLUMNS = (
    "row, id, sha256, p.path, media_type, width, height, metadata, p.revision, added, bytes IS NOT NULL AS kept,"
    f" d.facts IS {FACTS} AND d.path IS crc32(p.path) AND d.revision IS crc32(p.revision) AS whole"
)
FEATURES = (
    f"row, id, sha256, p.path, p.embedding, p.tokens, bytes, d.facts IS {FACTS} AND d.path IS crc32(p.path)"
    " AND d.revision IS crc32(p.revision) AS record_whole,"
    " d.embedding IS crc32(p.embedding) AND d.tokens IS crc32(p.tokens) AS features_whole"
)
JOINED = "pictures p LEFT JOIN digests d USING (row)"


@dataclass(frozen=True)
class Record:
    """A stored picture without its pixels: `width` x `height` upright, `added` as ISO time (UTC)."""

    id: str
    path: str | None
    metadata: dict[str, Any]
    width: int
    height: int
    bytes_kept: bool
    added: str
    media_type: str
    sha256: str
    revision: str


@dataclass(frozen=True)
class NewPicture:
    """A row to be: `embedding` float32 and `tokens` float16 as little-endian bytes, `data` only if it is to be kept."""

    id: str
    sha256: str
    path: str | None
    media_type: str
    width: int
    height: int
    metadata: dict[str, Any]
    revision: str
    embedding: bytes
    tokens: bytes
    data: bytes | None


@dataclass(frozen=True)
class Change:
    """One step of the journal: `embedding` is the row's present one, empty if damaged, or None if the row is gone."""

    sequence: int
    row: int
    embedding: bytes | None


def record(row: sqlite3.Row) -> Record:
    """The record in a row selected with `COLUMNS` from `JOINED`. Raises StoreError if it is not as it was written."""
    if not row["whole"]:
        raise damaged(row["row"], "record", f"remove the picture {row['id']} and add it again")
    return Record(
        id=row["id"],
        path=row["path"],
        metadata=json.loads(row["metadata"]),
        width=row["width"],
        height=row["height"],
        bytes_kept=bool(row["kept"]),
        added=row["added"],
        media_type=row["media_type"],
        sha256=row["sha256"],
        revision=row["revision"],
    )


def checked(embedding: bytes | None, digest: int | None) -> bytes | None:
    """An embedding with its checksum, empty if it has another; None stays None."""
    return embedding if embedding is None or checksum(embedding) == digest else b""


def damaged(row: int, what: str, remedy: str) -> StoreError:
    """The error for a part of a row that has not the checksum it was written with."""
    return StoreError(f"row {row} of the collection is damaged: its {what} has another checksum; {remedy}")
