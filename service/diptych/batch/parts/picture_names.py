"""The distinct pictures of a job: every name has a place, in the order in which the table first names them.

On disk, in SQLite: there may be more names than memory holds.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

from diptych.batch.parts.manifest import Step
from diptych.errors import BatchError

_REMEMBERED = 2**17


class PictureNames:
    """The names while they are gathered. All methods raise BatchError where the disk does not take them."""

    def __init__(self, path: Path) -> None:
        """Begin a new file; until `commit` it is worth nothing."""
        self.path, self._count = path, 0
        with self._explain_errors():
            self._connection = sqlite3.connect(path, isolation_level=None)
            # Nobody else looks at it, and a half-written one is thrown away.
            for pragma in ("journal_mode=OFF", "cache_size=-65536"):
                self._connection.execute(f"PRAGMA {pragma}")
            self._connection.execute("CREATE TABLE names (place INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE)")
            self._connection.execute("BEGIN")
        self.place = lru_cache(_REMEMBERED)(self._find_or_add)

    def __len__(self) -> int:
        return self._count

    def _find_or_add(self, name: str) -> int:
        """Find the place of a name, from 0; a new name gets the next place."""
        # Bytes, for SQLite refuses texts that are not UTF-8 in the end, which JSON can hold.
        data = name.encode("utf-8", "surrogatepass")
        with self._explain_errors():
            found = self._connection.execute("SELECT place FROM names WHERE name = ?", (data,)).fetchone()
            if found:
                return found[0]
            self._connection.execute("INSERT INTO names VALUES (?, ?)", (self._count, data))
        self._count += 1
        return self._count - 1

    def commit(self) -> None:
        """Write all names to the disk."""
        with self._explain_errors():
            self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise BatchError(
                f"{self.path} cannot be written: {error}; make room on its disk and run the command again"
            ) from None


def read_names(path: Path, places: Iterable[int]) -> list[str]:
    """Read the names with these places. Raises BatchError if they cannot be read."""
    # Immutable: no locks, which file systems shared by several machines may not have.
    address = f"file:{quote(os.fsencode(path))}?immutable=1"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            found = (connection.execute("SELECT name FROM names WHERE place = ?", (place,)) for place in places)
            return [row.fetchone()[0].decode("utf-8", "surrogatepass") for row in found]
    except (sqlite3.Error, TypeError) as error:
        raise BatchError(f"{path} cannot be read on {os.uname().nodename}: {error}; begin anew") from None


def describe_part(step: Step, number: int, names: Path | None) -> str:
    """Describe a part in words for people, with its first and last name if there are names."""
    first, stop = step.part_bounds(number)
    text = f"the {step.name} {first + 1:,} to {stop:,}"
    return text if names is None else f"{text} ({' to '.join(read_names(names, (first, stop - 1)))})"
