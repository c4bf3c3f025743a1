"""What a collection says about a picture it holds."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Any

COLUMNS = "row, id, sha256, path, media_type, width, height, metadata, revision, added, bytes IS NOT NULL AS kept"


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


def record(row: sqlite3.Row) -> Record:
    """The record in a row selected with `COLUMNS`."""
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
