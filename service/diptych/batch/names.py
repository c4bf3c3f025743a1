"""The distinct pictures of a job: every name has a place, in the order in which the table first names them.

On disk, in SQLite: there may be more names than memory holds.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote

_REMEMBERED = 2**17


class Names:
    """The names while they are gathered: `with closing(Names(path)) as names: names.place("a.jpg")`."""

    def __init__(self, path: Path) -> None:
        """Begin a new file; until `finish` it is worth nothing."""
        self._connection = sqlite3.connect(path, isolation_level=None)
        # Nobody else looks at it, and a half-written one is thrown away.
        for pragma in ("journal_mode=OFF", "cache_size=-65536"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE TABLE names (place INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE)")
        self._connection.execute("BEGIN")
        self._count = 0
        self.place = lru_cache(_REMEMBERED)(self._place)

    def __len__(self) -> int:
        return self._count

    def _place(self, name: str) -> int:
        """The place of a name, from 0; a new one gets the next."""
        # Bytes, for SQLite refuses texts that are not UTF-8 in the end, which JSON can hold.
        data = name.encode("utf-8", "surrogatepass")
        found = self._connection.execute("SELECT place FROM names WHERE name = ?", (data,)).fetchone()
        if found:
            return found[0]
        self._connection.execute("INSERT INTO names VALUES (?, ?)", (self._count, data))
        self._count += 1
        return self._count - 1

    def finish(self) -> None:
        """Make them last."""
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def names_between(path: Path, first: int, stop: int) -> list[str]:
    """The names with the places [first, stop), in order."""
    # Immutable: no locks, which file systems shared by several machines may not have.
    with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as connection:
        rows = connection.execute("SELECT name FROM names WHERE place >= ? AND place < ? ORDER BY place", (first, stop))
        return [data.decode("utf-8", "surrogatepass") for (data,) in rows]
