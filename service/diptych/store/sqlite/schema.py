"""The tables of a collection, how its database is opened, and the connections of one process to it."""

from __future__ import annotations

import os
import sqlite3
import uuid
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from diptych.errors import ReadOnlyError, StoreError
from diptych.store.sqlite.guard import check_files, foreign_parts, has_tables, open_guarded, open_transaction
from diptych_runtime.paths import shell_word
from diptych_runtime.token_codec import read_numbers

DATABASE = "collection.sqlite"
VERSION = 5
_APPLICATION = 0x44495054  # "DIPT", so that another program's database is not taken for a collection

# Large columns come last: SQLite then reads an embedding without walking through the tokens and the file behind it.
# `changes` names the rows that were added, changed or removed last, in order; an index replays it from where it stands.
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

# A checksum of every part of a row that changes by itself: a disk may give back other bits than were written, and
# SQLite has no checksums. They have a table of their own because a new column would stand behind the large ones. So
# have the stamp of a picture's file, "bytes modified", as text, because its numbers may be larger than SQLite's, and
# how many frames it has; earlier versions knew neither.
_DIGESTS = """
CREATE TABLE digests (
  row INTEGER PRIMARY KEY,
  facts INTEGER NOT NULL,
  path INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  embedding INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  stamp TEXT,
  frames INTEGER
);
"""
_BESIDE = "ALTER TABLE digests ADD COLUMN stamp TEXT; ALTER TABLE digests ADD COLUMN frames INTEGER;"

# What was entered for pictures whose files went: it is given back when the same content comes back.
_REMOVED = """
CREATE TABLE removed (id TEXT PRIMARY KEY, metadata TEXT NOT NULL, at TEXT NOT NULL, digest INTEGER NOT NULL)
  WITHOUT ROWID;
"""

# The answers that people gave about pairs, the latest of a pair and question last. They name contents, the lower id
# first, and so outlive a picture that is removed and added again. `digest` is the checksum of a row.
_LABELS = """
CREATE TABLE labels (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  a TEXT NOT NULL,
  b TEXT NOT NULL,
  question TEXT NOT NULL,
  answer TEXT NOT NULL,
  added TEXT NOT NULL,
  digest INTEGER NOT NULL
);
CREATE INDEX labels_pair ON labels (question, a, b);
"""
_NO_LABELS = "SELECT 0, '', '', '', '', '', 0 WHERE 0"
FACTS = "crc32(id, sha256, media_type, width, height, metadata, added)"
_DIGEST = "row, facts, path, revision, embedding, tokens"
_MADE = f"SELECT row, {FACTS}, crc32(path), crc32(revision), crc32(embedding), crc32(tokens) FROM pictures"
DIGESTS = f"INSERT INTO digests ({_DIGEST}) {_MADE}"


def is_collection(directory: Path) -> bool:
    """True for a folder that holds a database under the name that ours has."""
    return (directory / DATABASE).is_file()


def missing_error(directory: Path) -> StoreError:
    """The error for a folder without a collection."""
    return StoreError(
        f"{directory} holds no collection; make one with `diptych index add --store {shell_word(directory)} PICTURES` "
        "(in Python: create=True), or name another folder with --store or DIPTYCH_STORE"
    )


def open_connection(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection that may wander between threads; every acknowledged write is on the disk (WAL, synchronous=FULL)."""
    check_files(path)
    mode = "?mode=rwc"
    if read_only:
        # SQLite's log needs files beside it even to read, which a read-only disk does not take. Where there are none,
        # nobody is writing, who could do so through another mount.
        log = [path.with_name(f"{path.name}-{part}") for part in ("wal", "shm")]
        nobody = path.exists() and os.statvfs(path).f_flag & os.ST_RDONLY and not any(map(Path.exists, log))
        mode = "?mode=ro&immutable=1" if nobody else "?mode=ro"
    connection = open_guarded(path.resolve().as_uri() + mode, uri=True)
    try:
        connection.row_factory = sqlite3.Row
        connection.create_function("crc32", -1, row_checksum, deterministic=True)
        connection.create_function("token_numbers", 1, token_numbers, deterministic=True)
        version = connection.execute("PRAGMA user_version").fetchone()[0] if read_only else VERSION
        if version in range(1, VERSION):
            # What an earlier version lacks comes with the first writer; until then checksums of version 1 are computed
            # from its rows, and always agree with them.
            digests = _MADE if version == 1 else f"SELECT {_DIGEST} FROM main.digests"
            columns = f"{_DIGEST}, stamp, frames"
            connection.execute(f"CREATE TEMP VIEW digests ({columns}) AS SELECT *, NULL, NULL FROM ({digests})")
            connection.execute("CREATE TEMP VIEW removed (id, metadata, at, digest) AS SELECT '', '', '', 0 WHERE 0")
        if version in (1, 2):
            columns = "sequence, a, b, question, answer, added, digest"
            connection.execute(f"CREATE TEMP VIEW labels ({columns}) AS {_NO_LABELS}")
        # A database of another program is left unchanged: `prepare_tables` refuses it.
        if not read_only and (_read_application_id(connection) == _APPLICATION or not has_tables(connection)):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
    except sqlite3.OperationalError as error:
        connection.close()
        # SQLite does not say that it cannot make a file beside the database because the disk is full.
        if os.statvfs(path.parent).f_bavail:
            raise
        raise sqlite3.OperationalError(f"{error}, as the disk is full") from error
    return connection


def _read_application_id(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA application_id").fetchone()[0]


def row_checksum(*values: bytes | str | int | None) -> int:
    """CRC-32 of some columns; the function `crc32` of our SQL."""
    checksum = 0
    for value in values:
        checksum = zlib.crc32(value if isinstance(value, bytes) else repr(value).encode(), checksum)
    return checksum


def token_numbers(tokens: object) -> int:
    """The count of finite numbers in stored tokens, 0 for damaged ones: the function `token_numbers` of our SQL."""
    try:
        return int(np.isfinite(read_numbers(tokens)).sum()) if isinstance(tokens, bytes) else 0
    except ValueError:
        return 0


def prepare_tables(connection: sqlite3.Connection, path: Path, *, create: bool, read_only: bool = False) -> None:
    """Make the tables of a new database (in one transaction), or check that an old one is a collection we can read.

    A writer brings a database of an earlier version to ours. Version 4 has the tables of version 3: its number keeps
    programs away that do not know tokens in 8 bits.
    """
    application = _read_application_id(connection)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if create and empty:
        named = f"INSERT INTO facts VALUES ('identity', '{uuid.uuid4().hex}');"
        numbered = f"PRAGMA application_id={_APPLICATION}; PRAGMA user_version={VERSION};"
        connection.executescript(
            f"BEGIN IMMEDIATE; {_TABLES} {_DIGESTS} {_LABELS} {_REMOVED} {named} {numbered} COMMIT;"
        )
    elif empty:
        raise missing_error(path.parent)
    elif application != _APPLICATION:
        raise StoreError(f"{path} is not a Diptych collection (application id {application:#x}); choose another folder")
    elif parts := foreign_parts(connection):
        raise StoreError(
            f"{path} has what Diptych never makes, such as triggers, views or expressions, in "
            f"{', '.join(map(repr, parts))[:200]}; somebody else changed it, so take a backup of it, or index the "
            "pictures again into a new folder"
        )
    elif version in range(1, VERSION):
        if not read_only:
            steps = f"{_DIGESTS} {DIGESTS};" if version == 1 else _BESIDE
            steps += (_LABELS if version < 3 else "") + _REMOVED
            connection.executescript(f"BEGIN IMMEDIATE; {steps} PRAGMA user_version={VERSION}; COMMIT;")
    elif version != VERSION:
        raise StoreError(
            f"{path} has the format version {version}, and this Diptych reads version {VERSION}; "
            "install the release that made it, or index the pictures again into a new folder"
        )


class Connections:
    """Connections to the database at a path; thread-safe. Errors of SQLite are StoreErrors that name the file."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._file: tuple[int, int] | None = None  # which has the name; another one in its place is an error
        self._writing = Lock()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False

    def _close_connections(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _fetch_all(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one reader at a time, so that reads see committed states only, and wait for no writer."""
        if self._closed:
            raise StoreError(f"the collection {self.path.parent} is closed")
        connection = self._take_connection()
        try:
            yield connection
        except sqlite3.Error as error:
            is_full = "disk is full" in str(error)
            advice = "make room and run it again" if is_full else "look into it with `diptych index verify`"
            raise StoreError(f"{self.path}: {error}; {advice}") from error
        finally:
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)

    def _take_connection(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()
        except IndexError:
            pass
        self._check_file()
        try:
            return open_connection(self.path, read_only=self.read_only)
        except sqlite3.Error as error:
            damaged = type(error) is sqlite3.DatabaseError  # what is a subclass is no damage
            advice = "; restore a backup, or see what `diptych index rebuild` can do" if damaged else ""
            raise StoreError(f"{self.path} cannot be opened: {error}{advice}") from error

    def _check_file(self) -> None:
        """Raise StoreError if another file has the database's name by now: what goes into the old one would be lost."""
        if self._file is not None and identify_file(self.path) != self._file:
            raise StoreError(
                f"{self.path} was taken away or replaced by another file while it was in use; nothing was written. "
                "Stop what uses it, and start that again"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self.read_only:
            raise ReadOnlyError(f"the collection {self.path.parent} was opened for reading only; nothing was changed")
        with self._writing, self.reading() as connection:
            self._check_file()
            with open_transaction(connection):
                yield connection


def identify_file(path: Path) -> tuple[int, int] | None:
    """Which file has this name: its device and its number there; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
