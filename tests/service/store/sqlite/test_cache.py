import sqlite3

import pytest

from diptych.errors import SyncError
from diptych.store.sqlite.cache import CacheDatabase, in_one_step, version_of


class Numbers(CacheDatabase):
    error, remedy, synchronous = SyncError, "the next run counts again", "NORMAL"

    def __init__(self, path):
        self.path = path
        self._connection = self.connect(path)
        if version_of(self._connection) == 0:
            in_one_step(self._connection, "CREATE TABLE numbers (n INTEGER PRIMARY KEY);", 3)

    def add(self, *numbers):
        with self._transaction() as connection:
            connection.executemany("INSERT INTO numbers VALUES (?)", [(n,) for n in numbers])

    def all(self):
        return [n for (n,) in self._connection.execute("SELECT n FROM numbers")]


def test_all_of_a_transaction_is_kept_or_none_and_an_error_says_what_to_do(tmp_path):
    with Numbers(tmp_path / "n.sqlite") as numbers:
        numbers.add(1, 2)
        with pytest.raises(SyncError, match=r"n\.sqlite: UNIQUE .*: the next run counts again"):
            numbers.add(3, 1)
        assert numbers.all() == [1, 2]
        numbers.add(3)
    with Numbers(tmp_path / "n.sqlite") as numbers:
        assert (numbers.all(), version_of(numbers._connection)) == ([1, 2, 3], 3)
        assert numbers._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert numbers._connection.execute("PRAGMA synchronous").fetchone() == (1,)


def test_tables_are_made_in_one_step_or_not_at_all(tmp_path):
    connection = CacheDatabase.connect(tmp_path / "n.sqlite")
    with pytest.raises(sqlite3.OperationalError):
        in_one_step(connection, "CREATE TABLE a (n INTEGER); CREATE TABLE a (n INTEGER);", 1)
    connection.close()
    connection = CacheDatabase.connect(tmp_path / "n.sqlite")
    assert version_of(connection) == 0
    assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
