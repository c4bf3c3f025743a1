"""The base of the databases that only save work: a lost one costs time, and the collection beside it is the truth."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal, Self

from diptych.store.sqlite.guard import (
    ForeignFileError,
    check_files,
    foreign_parts,
    has_tables,
    open_guarded,
    open_transaction,
)
from diptych_runtime.errors import DiptychError


class CacheDatabase:
    """One connection to a SQLite database whose user holds the lock of the collection beside it."""

    error: ClassVar[type[DiptychError]]
    remedy: ClassVar[str]  # what a run does after the file was deleted
    synchronous: ClassVar[Literal["NORMAL", "FULL"]] = "FULL"

    path: Path
    _connection: sqlite3.Connection

    def close(self) -> None:
        """Close the database; a second call does nothing."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def connect(cls, path: Path | str) -> sqlite3.Connection:
        """A connection, by autocommit, which any thread may use; raises sqlite3.Error for a file that is damaged."""
        if isinstance(path, Path):
            check_files(path)
        connection = open_guarded(path)
        try:
            if foreign_parts(connection) or (version_of(connection) == 0 and has_tables(connection)):
                raise ForeignFileError("it is the database of another program; move it away")
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(f"PRAGMA synchronous={cls.synchronous}")
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._make_error(error) from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._translate_errors(), open_transaction(self._connection) as connection:
            yield connection

    def _make_error(self, error: sqlite3.Error) -> DiptychError:
        if isinstance(error, ForeignFileError):
            return self.error(f"{self.path}: {error}")
        # Errors of this library itself have no code of SQLite, which may have a second part above its first byte.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        first = {sqlite3.SQLITE_FULL: "make room, or ", sqlite3.SQLITE_BUSY: "wait for what else uses it, or "}
        return self.error(f"{self.path}: {error}; {first.get(code, '')}delete it: {self.remedy}")


def version_of(connection: sqlite3.Connection) -> int:
    """The format version that a database says it has; 0 for a new one."""
    return connection.execute("PRAGMA user_version").fetchone()[0]


def in_one_step(connection: sqlite3.Connection, statements: str, version: int) -> None:
    """Run statements and set the format version: all or nothing."""
    connection.executescript(f"BEGIN IMMEDIATE; {statements} PRAGMA user_version={version}; COMMIT;")


def paths_below(folder: str) -> tuple[str, str]:
    """The bounds, both excluded, of the paths in a folder: "0" is the character behind "/"."""
    folder = folder.rstrip("/")
    return folder + "/", folder + "0"
