import shutil
import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from diptych.collection.rebuild import rebuild
from diptych.errors import StoreError
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych.store.sqlite.verify import verify

PAGE = 4096


def healthy(folder) -> bool:
    try:
        with Store.open(folder, read_only=True) as store:
            return verify(store).healthy
    except StoreError:
        return False


@pytest.fixture
def whole(collection, photo_bytes):
    """The folder of a closed collection of 12 pictures, all in one file, a part of which nothing uses any more."""
    removed = [collection.add(photo_bytes(seed), keep_bytes=True).id for seed in range(50, 54)]
    for id in removed:
        collection.remove(id)
    collection.close()
    with closing(sqlite3.connect(collection.directory / DATABASE)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return collection.directory


def test_whichever_page_of_the_database_is_damaged_it_is_mended_or_said_to_be_past_mending(whole, scorer, tmp_path):
    fates, reasons = Counter(), []
    pages = (whole / DATABASE).stat().st_size // PAGE
    for page in range(1, pages):  # without the first, it is no database
        folder = tmp_path / f"page-{page}"
        shutil.copytree(whole, folder)
        with (folder / DATABASE).open("r+b") as file:
            file.seek(page * PAGE)
            file.write(b"\x55" * 64)
        damaged = not healthy(folder)
        try:
            report = rebuild(folder, scorer)
        except StoreError as error:
            reasons.append(str(error))
        else:
            assert healthy(folder)
            assert report.mended == damaged
            fates[report.mended] += 1
        shutil.rmtree(folder)
    assert fates[True] > 0
    assert len(reasons) > 0
    assert all("cannot be mended. Restore a backup" in reason for reason in reasons)


def test_what_was_whole_is_not_mended(whole, scorer):
    assert not rebuild(whole, scorer).mended
    assert healthy(whole)
