import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from diptych.errors import StoreError
from diptych.store.sqlite.schema import DATABASE, open_connection, prepare_tables


def made(path: Path) -> Path:
    with closing(open_connection(path, read_only=False)) as connection:
        prepare_tables(connection, path, create=True)
    return path


def identity(path: Path) -> str:
    with closing(open_connection(path, read_only=True)) as connection:
        prepare_tables(connection, path, create=False)
        return connection.execute("SELECT value FROM facts WHERE key='identity'").fetchone()[0]


@pytest.fixture
def path(tmp_path) -> Path:
    return made(tmp_path / DATABASE)


def test_a_collection_is_made_once_and_keeps_its_identity_which_no_other_has(path, tmp_path):
    first = identity(path)
    assert identity(made(path)) == first
    assert identity(made(tmp_path / "other.sqlite")) != first
    assert len(first) == 32
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / DATABASE).touch()
    with pytest.raises(StoreError, match="holds no collection"):
        identity(tmp_path / "empty" / DATABASE)
    assert identity(made(tmp_path / "empty" / DATABASE)) != first


@pytest.mark.parametrize("name", ["what?", "100%25", "a#b", "späße & co", "file:x?mode=memory"])
def test_a_folder_may_have_any_name(tmp_path, name):
    (tmp_path / name).mkdir()
    path = made(tmp_path / name / DATABASE)
    assert path.is_file()
    assert len(identity(path)) == 32


def test_a_reader_makes_no_file_and_changes_none(path, tmp_path):
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        open_connection(tmp_path / "none.sqlite", read_only=True).execute("PRAGMA user_version")
    assert not (tmp_path / "none.sqlite").exists()
    with closing(open_connection(path, read_only=True)) as connection:
        for change in ("DELETE FROM facts", "PRAGMA user_version=7"):
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                connection.execute(change)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER gone AFTER INSERT ON pictures BEGIN DELETE FROM pictures; END",
        "CREATE VIEW gone AS SELECT load_extension('evil') FROM pictures",
        "CREATE INDEX gone ON pictures (hex(path))",
        "CREATE INDEX gone ON pictures (path) WHERE hex(path) > 'a'",
        "CREATE TABLE gone (a TEXT, b TEXT AS (hex(zeroblob(200000000))))",
        "CREATE TABLE gone (a TEXT CHECK (hex(a) > 'a'))",
        "CREATE VIRTUAL TABLE gone USING fts5(a)",
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_with_what_sqlite_would_compute_is_somebody_elses_work(path, statement, read_only):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
    with closing(open_connection(path, read_only=read_only)) as connection:
        assert connection.execute("PRAGMA trusted_schema").fetchone()[0] == 0
        with pytest.raises(
            StoreError, match="has what Diptych never makes, such as triggers, views or expressions, in 'gone'"
        ):
            prepare_tables(connection, path, create=False, read_only=read_only)


def test_a_value_longer_than_any_of_ours_is_not_read(path):
    with (
        closing(open_connection(path, read_only=True)) as connection,
        pytest.raises(sqlite3.DataError, match="too big"),
    ):
        connection.execute("SELECT zeroblob(1 << 30)").fetchone()
