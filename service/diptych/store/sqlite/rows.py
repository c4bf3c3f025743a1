"""Rows of the database as records, each checked against the checksums it was written with."""

from __future__ import annotations

import sqlite3

from diptych.errors import StoreError
from diptych.store.records import FileStamp, Record
from diptych.store.sqlite.schema import FACTS, checksum
from diptych_runtime.parsing import parse_json

# A path that is no text was not written by Diptych, whatever its checksum.
_PATH = "d.path IS crc32(p.path) AND typeof(p.path)<>'blob'"
COLUMNS = (
    "row, id, sha256, p.path, media_type, width, height, metadata, p.revision, added, bytes IS NOT NULL AS kept, stamp,"
    " frames,"
    f" d.facts IS {FACTS} AND {_PATH} AND d.revision IS crc32(p.revision) AS whole"
)
FEATURES = (
    f"row, id, sha256, p.path, p.embedding, p.tokens, bytes, d.facts IS {FACTS} AND {_PATH}"
    " AND d.revision IS crc32(p.revision) AS record_whole,"
    " d.embedding IS crc32(p.embedding) AND d.tokens IS crc32(p.tokens) AS features_whole"
)
JOINED = "pictures p LEFT JOIN digests d USING (row)"


def record(row: sqlite3.Row) -> Record:
    """The record in a row selected with `COLUMNS` from `JOINED`. Raises StoreError if it is not as it was written."""
    if not row["whole"]:
        raise damaged(row["row"], "record", f"remove the picture {row['id']} and add it again")
    try:
        metadata = parse_json(row["metadata"])
    except ValueError:  # not written by Diptych, with a checksum that is right
        raise damaged(row["row"], "metadata", f"remove the picture {row['id']} and add it again") from None
    return Record(
        id=row["id"],
        path=row["path"],
        metadata=metadata,
        width=row["width"],
        height=row["height"],
        original_kept=bool(row["kept"]),
        added=row["added"],
        media_type=row["media_type"],
        sha256=row["sha256"],
        revision=row["revision"],
        stamp=_stamp(row["stamp"]),
        frames=row["frames"],
    )


def _stamp(text: str | None) -> FileStamp | None:
    try:
        size, modified = map(int, (text or "").split())
    except ValueError:  # there is none, or a disk gave back other bits
        return None
    return FileStamp(size, modified)


def stamp_text(stamp: FileStamp | None) -> str | None:
    """A stamp as the column has it."""
    return None if stamp is None else f"{stamp.bytes} {stamp.modified}"


def checked(embedding: bytes | None, digest: int | None) -> bytes | None:
    """An embedding with its checksum, empty if it has another; None stays None."""
    return embedding if embedding is None or checksum(embedding) == digest else b""


def damaged(row: int, what: str, remedy: str) -> StoreError:
    """The error for a part of a row that has not the checksum it was written with."""
    return StoreError(f"row {row} of the collection is damaged: its {what} has another checksum; {remedy}")
