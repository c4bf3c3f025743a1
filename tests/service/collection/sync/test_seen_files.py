import sqlite3

import pytest

from diptych.collection.sync.seen_files import LEDGER, Seen, SeenFiles
from diptych.errors import SyncError
from diptych.pictures.walk import Stamp
from diptych_runtime.decoder import PictureLimits

LIMITS = PictureLimits()
PICTURE = Seen(Stamp(1, 2, 3), "a" * 32, None)
TEXT = Seen(Stamp(2**40, 2**80, 2**64 - 1), None, "is not a picture")


def test_what_was_noted_is_there_again_and_what_is_nothing_is_forgotten(tmp_path):
    sqlite3.connect(tmp_path / LEDGER).close()  # an empty file is made a ledger
    with SeenFiles(tmp_path, LIMITS) as ledger:
        ledger.note({"/p/a.jpg": PICTURE, "/p/b.jpg": TEXT, "/p/c.jpg": PICTURE, "/p-2/a.jpg": PICTURE})
        ledger.note({"/p/a.jpg": None, "/p/never.jpg": None})
    with SeenFiles(tmp_path, LIMITS) as ledger:
        assert ledger.files(["/p"]) == {"/p/b.jpg": TEXT, "/p/c.jpg": PICTURE}
        assert ledger.copies(str(PICTURE.id)).keys() == {"/p/c.jpg", "/p-2/a.jpg"}
        assert len(ledger.files(["/"])) == 3
    with SeenFiles(tmp_path, PictureLimits(bytes=7)) as ledger:
        assert ledger.files(["/p"]) == {"/p/c.jpg": PICTURE}, "refusals of a reader with other limits are dropped"


def test_a_reader_takes_notes_for_itself_alone(tmp_path):
    with SeenFiles(tmp_path / "none", LIMITS, read_only=True) as ledger:
        ledger.note({"/p/a.jpg": PICTURE})
        assert ledger.files(["/p"]) == {"/p/a.jpg": PICTURE}
    assert not (tmp_path / "none").exists()
    with pytest.raises(SyncError, match="unable to open database file"):
        SeenFiles(tmp_path / "none", LIMITS)
    (tmp_path / LEDGER).write_bytes(b"no database at all " * 100)
    with SeenFiles(tmp_path, LIMITS, read_only=True) as ledger:
        assert ledger.files(["/p"]) == {}
    assert (tmp_path / LEDGER).read_bytes().startswith(b"no database"), "a reader leaves a damaged one alone"
    with SeenFiles(tmp_path, LIMITS) as writer:
        writer.note({"/p/b.jpg": TEXT})
        with SeenFiles(tmp_path, LIMITS, read_only=True) as ledger:
            ledger.note({"/p/b.jpg": None})
            assert ledger.files(["/p"]) == {}
        assert writer.files(["/p"]) == {"/p/b.jpg": TEXT}


def test_a_full_disk_is_an_error_that_says_what_to_do_and_nothing_of_it_is_noted(tmp_path):
    with SeenFiles(tmp_path, LIMITS) as ledger:
        ledger.note({"/p/a.jpg": PICTURE})
        pages = ledger._connection.execute("PRAGMA page_count").fetchone()[0]
        ledger._connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(SyncError, match=r"sync\.sqlite: database or disk is full; make room, or delete it"):
            ledger.note({f"/p/{number}.jpg": PICTURE for number in range(1000)})
        assert ledger.files(["/p"]) == {"/p/a.jpg": PICTURE}
