"""The files seen by earlier runs, known without another reading: a cache beside the collection, which may be lost."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from diptych.errors import SyncError
from diptych.pictures.walk import Stamp
from diptych.store.sqlite.cache import CacheDatabase, in_one_step, paths_below, version_of
from diptych.store.sqlite.guard import check_files, foreign_parts
from diptych_runtime.decoder import FORMATS, PictureLimits

LEDGER = "sync.sqlite"
_VERSION = 1

# A stamp is text because its numbers may be larger than SQLite's.
_TABLES = """
CREATE TABLE files (path TEXT PRIMARY KEY, stamp TEXT NOT NULL, id TEXT, reason TEXT) WITHOUT ROWID;
CREATE INDEX files_id ON files (id);
CREATE TABLE reader (formats TEXT NOT NULL);
"""

logger = logging.getLogger(__name__)


class Seen(NamedTuple):
    """A file as it was when it was read: the `id` of its content, or the `reason` for which it is no picture."""

    stamp: Stamp
    id: str | None
    reason: str | None


class SeenFiles(CacheDatabase):
    """Files by path in one SQLite database. It has no lock: its user has the collection beside it for writing."""

    error, remedy, synchronous = SyncError, "the next run reads the files again", "NORMAL"

    def __init__(self, folder: Path, limits: PictureLimits, *, read_only: bool = False) -> None:
        """Open the ledger of the collection in a folder, or make it; a damaged one is made anew, which is logged.

        Refusals by a reader of other formats or limits are dropped. With `read_only` it is left as it is, and only
        remembers for itself. Raises SyncError if the disk does not take it.
        """
        self.path = folder / LEDGER
        try:
            self._connection = self._open_database(f"{FORMATS} {limits}", read_only=read_only)
        except sqlite3.OperationalError as error:
            raise self._make_error(error) from None
        except sqlite3.DatabaseError as error:
            logger.warning("%s: %s; it is made anew, and files are read again", self.path, error)
            for suffix in () if read_only else ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            self._connection = self._open_database(f"{FORMATS} {limits}", read_only=read_only, forget=True)

    def files(self, roots: Iterable[str]) -> dict[str, Seen]:
        """The files known below these folders, by path."""
        found = {}
        with self._translate_errors():
            for root in roots:
                query = "SELECT * FROM files WHERE path > ? AND path < ?"
                for path, stamp, id, reason in self._connection.execute(query, paths_below(root)):
                    found[path] = Seen(_parse_stamp(stamp), id, reason)
        return found

    def copies(self, id: str) -> dict[str, Stamp]:
        """All files that were seen with this content, by path."""
        with self._translate_errors():
            found = self._connection.execute("SELECT path, stamp FROM files WHERE id=? ORDER BY path", (id,))
            return {path: _parse_stamp(stamp) for path, stamp in found}

    def note(self, seen: Mapping[str, Seen | None]) -> None:
        """Remember files by path, and forget those of which nothing (None) is to be known; all or none."""
        gone = [(path,) for path, file in seen.items() if file is None]
        rows = [
            (path, " ".join(map(str, file.stamp)), file.id, file.reason)
            for path, file in seen.items()
            if file is not None
        ]
        with self._transaction() as connection:
            connection.executemany("DELETE FROM files WHERE path=?", gone)
            connection.executemany("INSERT OR REPLACE INTO files VALUES (?,?,?,?)", rows)

    def _open_database(self, reader: str, *, read_only: bool, forget: bool = False) -> sqlite3.Connection:
        connection = self.connect(":memory:" if read_only else self.path)
        try:
            if read_only and not forget and self.path.is_file():
                check_files(self.path)
                source = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)
                source.backup(connection)
                source.close()
                if foreign_parts(connection):
                    raise sqlite3.DatabaseError("it is the database of another program")
            if connection.execute("PRAGMA quick_check").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("it is damaged")
            _prepare_tables(connection, reader)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare_tables(connection: sqlite3.Connection, reader: str) -> None:
    version = version_of(connection)
    if version == 0:
        in_one_step(connection, _TABLES, _VERSION)
    elif version != _VERSION:
        raise sqlite3.DatabaseError(f"it has the format version {version}, and this Diptych reads version {_VERSION}")
    if connection.execute("SELECT formats FROM reader").fetchone() != (reader,):
        with connection:
            connection.execute("BEGIN")
            connection.execute("DELETE FROM files WHERE id IS NULL")
            connection.execute("DELETE FROM reader")
            connection.execute("INSERT INTO reader VALUES (?)", (reader,))


def _parse_stamp(text: str) -> Stamp:
    return Stamp(*map(int, text.split()))
