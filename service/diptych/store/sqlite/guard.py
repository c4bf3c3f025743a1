"""What a database of ours must be before SQLite opens it: SQLite follows links, and obeys a journal beside it."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from diptych_runtime.own_files import open_own

# At the end of a rollback journal this stands behind the name of a journal of several databases, which SQLite deletes.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")

# Tables and indexes of plain columns. There is no expression in them, which SQLite would compute when they are read: no
# generated column, no condition. Nor is a virtual table, a trigger or a view of this form.
_TABLE = r'TABLE "?\w+"? ?\((?:[\w\s,]|KEY \([\w\s,]*\))*\)(?:\s*WITHOUT ROWID)?'
_PLAIN = re.compile(rf"CREATE (?:{_TABLE}|INDEX \w+ ON \w+ \(\w+(?:, \w+)*\))")
LONGEST = 1 << 29  # bytes of a value, a row or a statement


class ForeignFileError(sqlite3.OperationalError):
    """A file that another made, in the place of one of ours."""


def check_files(path: Path) -> None:
    """Check that a database and the files beside it are regular ones, so far as they are there.

    A rollback journal that names another file is refused: Diptych never writes one, and SQLite would delete that file.
    Raises ForeignFileError.
    """
    for part in ("", "-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + part)
        try:
            # Not opened: to close it would free the locks that other connections of this process have on it.
            mode = beside.lstat().st_mode
            if not stat.S_ISREG(mode):
                what = "a link" if stat.S_ISLNK(mode) else "no file"
                raise ForeignFileError(f"{beside.name} is {what}; take it away")
            if part == "-journal" and _names_another(beside):
                raise ForeignFileError(f"{beside.name} names another file, as Diptych never does; take it away")
        except FileNotFoundError:  # a journal comes and goes
            continue
        except OSError as error:
            raise ForeignFileError(f"{beside.name} cannot be read: {error.strerror}") from None


def open_guarded(database: Path | str, **options: bool) -> sqlite3.Connection:
    """Open a database by autocommit, for any thread, so that a stranger's does no harm. Raises sqlite3.Error."""
    connection = sqlite3.connect(database, timeout=30, isolation_level=None, check_same_thread=False, **options)
    try:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        connection.execute("PRAGMA trusted_schema=OFF")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def open_transaction(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commit what the enclosed block writes, all of it, or after an error nothing.

    The write lock is taken at its beginning: at its first write, what it had read could be out of date.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _names_another(journal: Path) -> bool:
    with open_own(journal) as file:
        file.seek(-min(len(_NAMES_ANOTHER), os.fstat(file.fileno()).st_size), os.SEEK_END)
        return file.read() == _NAMES_ANOTHER


def has_tables(connection: sqlite3.Connection) -> bool:
    """True for a database in which there is something."""
    return connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0


def foreign_parts(connection: sqlite3.Connection) -> list[str]:
    """The names of what is no table or index of plain columns; to be asked before anything else is read."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    return [str(name) for name, sql in found if not _PLAIN.fullmatch(str(sql))]
