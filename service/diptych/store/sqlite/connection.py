"""The connections of one process to a database of SQLite: one for each reader at a time, one writer."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from diptych.errors import ReadOnlyError, StoreError
from diptych.store.sqlite.guard import open_transaction
from diptych.store.sqlite.schema import open_connection


class Connections:
    """Connections to the database at a path; thread-safe. Errors of SQLite are StoreErrors that name the file."""

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._identify_file: tuple[int, int] | None = None
        self._writing = Lock()
        self._idle: deque[sqlite3.Connection] = deque()
        self._closed = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for reads that are no methods here."""
        with self._borrow_connection() as connection:
            yield connection

    def _close_connections(self) -> None:
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _remember_file(self) -> None:
        """Stay with the file that has the name now: from here on another one in its place is an error."""
        self._identify_file = _identify_file(self.path)

    def _fetch_all(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._borrow_connection() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def _borrow_connection(self) -> Iterator[sqlite3.Connection]:
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
        if self._identify_file is not None and _identify_file(self.path) != self._identify_file:
            raise StoreError(
                f"{self.path} was taken away or replaced by another file while it was in use; nothing was written. "
                "Stop what uses it, and start that again"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self.read_only:
            raise ReadOnlyError(f"the collection {self.path.parent} was opened for reading only; nothing was changed")
        with self._writing, self._borrow_connection() as connection:
            self._check_file()
            with open_transaction(connection):
                yield connection


def _identify_file(path: Path) -> tuple[int, int] | None:
    """Which file has this name: its device and its number there; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
