import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest

from diptych.collection.sync.seen_files import LEDGER, SeenFiles
from diptych.dedupe.pair_cache import LEDGER as PAIRS
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import DedupeError, StoreError, SyncError
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.guard import ForeignFileError, check_files
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.decoder import PictureLimits

LIMITS = PictureLimits(2**20, 2**20)
OPENING = {
    DATABASE: (lambda folder: Store.open(folder, create=True), StoreError),
    LEDGER: (lambda folder: SeenFiles(folder, LIMITS), SyncError),
    PAIRS: (lambda folder: PairCache(folder / PAIRS, "r"), DedupeError),
}
pytestmark = pytest.mark.parametrize("name", OPENING)


def leave_journal(database: Path, victim: Path | None) -> None:
    """Leave the rollback journal of a killed process, of a transaction over several databases if `victim` is named."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    data = database.read_bytes()
    (page,) = struct.unpack(">H", data[16:18])
    magic = bytes.fromhex("d9d505f920a163d7")
    journal = (magic + struct.pack(">IIIII", 0, 0, len(data) // page, 512, page)).ljust(512, b"\0")
    if victim is not None:
        text = os.fsencode(victim)
        journal += struct.pack(">I", 2**30 // page + 1) + text + struct.pack(">II", len(text), sum(text)) + magic
    Path(f"{database}-journal").write_bytes(journal)


def test_a_file_that_a_journal_names_is_not_deleted(tmp_path, name):
    victim, (opened, error) = tmp_path / "victim", OPENING[name]
    victim.write_text("precious")
    opened(tmp_path).close()
    leave_journal(tmp_path / name, victim)
    with pytest.raises(error, match=f"{name}-journal names another file"):
        opened(tmp_path)
    assert victim.read_text() == "precious"


def test_the_journal_of_a_killed_process_is_rolled_back(tmp_path, name):
    opened, _ = OPENING[name]
    opened(tmp_path).close()
    leave_journal(tmp_path / name, None)
    opened(tmp_path).close()
    assert not (tmp_path / f"{name}-journal").exists()


@pytest.mark.parametrize("suffix", ["", "-wal", "-journal"])
def test_a_link_is_refused_and_what_it_leads_to_stays(tmp_path, name, suffix):
    folder, victim, (opened, error) = tmp_path / "folder", tmp_path / "victim", OPENING[name]
    folder.mkdir()
    with closing(sqlite3.connect(victim)) as connection:
        connection.executescript("CREATE TABLE files (path TEXT); PRAGMA user_version=4;")
    before = victim.read_bytes()
    (folder / f"{name}{suffix}").symlink_to(victim)
    with pytest.raises(error, match="is a link"):
        opened(folder)
    assert victim.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path != folder] == ["victim"]


def test_the_database_of_another_program_is_refused_unchanged(tmp_path, name):
    opened, error = OPENING[name]
    with closing(sqlite3.connect(tmp_path / name)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    before = (tmp_path / name).read_bytes()
    with pytest.raises(error, match=r"not a Diptych collection|of another program; move it away$"):
        opened(tmp_path)
    assert (tmp_path / name).read_bytes() == before


def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ForeignFileError, match="is no file"):
        check_files(tmp_path / name)
