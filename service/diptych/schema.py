"""The tables of a collection, and how its database is opened."""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path

from diptych.errors import StoreError

DATABASE = "collection.sqlite"
VERSION = 1
_APPLICATION = 0x44495054  # "DIPT", so that another program's database is not taken for a collection

# Large columns come last: SQLite then reads an embedding without walking through the tokens and the file behind it.
# `changes` names every row that was added, changed or removed, in order; an index replays it from where it stands.
_TABLES = """
CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pictures (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  sha256 TEXT NOT NULL,
  path TEXT,
  media_type TEXT NOT NULL,
  width INTEGER NOT NULL,
  height INTEGER NOT NULL,
  metadata TEXT NOT NULL,
  revision TEXT NOT NULL,
  added TEXT NOT NULL,
  embedding BLOB NOT NULL,
  tokens BLOB NOT NULL,
  bytes BLOB
);
CREATE INDEX pictures_path ON pictures (path);
CREATE INDEX pictures_revision ON pictures (revision);
CREATE TABLE changes (sequence INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL);
"""


def missing(directory: Path) -> StoreError:
    """The error for a folder without a collection."""
    return StoreError(
        f"{directory} holds no collection; make one with `diptych index add --store {directory} PICTURES`"
    )


def connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection that may wander between threads; every acknowledged write is on the disk (WAL, synchronous=FULL)."""
    connection = sqlite3.connect(
        path.resolve().as_uri() + ("?mode=ro" if read_only else "?mode=rwc"),
        uri=True,
        timeout=30,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    if not read_only:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
    return connection


def prepare(connection: sqlite3.Connection, path: Path, *, create: bool) -> None:
    """Make the tables of a new database (in one transaction), or check that an old one is a collection we can read."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if create and empty:
        connection.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} INSERT INTO facts VALUES ('identity', '{uuid.uuid4().hex}');"
            f"PRAGMA application_id={_APPLICATION}; PRAGMA user_version={VERSION}; COMMIT;"
        )
    elif empty:
        raise missing(path.parent)
    elif application != _APPLICATION:
        raise StoreError(f"{path} is not a Diptych collection (application id {application:#x}); choose another folder")
    elif version != VERSION:
        raise StoreError(
            f"{path} has the format version {version}, and this Diptych reads version {VERSION}; "
            "install the release that made it, or index the pictures again into a new folder"
        )
