import os
from dataclasses import replace
from pathlib import Path

import pytest
from embedded import tamper

from diptych.errors import UnknownPictureError
from diptych.store.originals import compare_files, read_original
from diptych.store.records import Record
from diptych_runtime.decoder import PictureLimits


@pytest.fixture
def record(collection, gallery) -> Record:
    """A picture of which only the path is kept."""
    return collection.get(collection.add(gallery / "01.jpg")[0].id)


def ask(collection, record: Record) -> bytes:
    return read_original(collection.store, record, collection.scorer.limits)


def test_kept_bytes_are_given_whatever_became_of_the_file(collection, record, gallery, photo_bytes):
    before = (gallery / "01.jpg").read_bytes()
    collection.add(gallery / "01.jpg", keep_originals=True)
    (gallery / "01.jpg").write_bytes(photo_bytes(50))
    assert ask(collection, record) == before
    (gallery / "01.jpg").unlink()
    assert ask(collection, record) == before
    tamper(collection.store, "UPDATE pictures SET bytes=zeroblob(length(bytes)) WHERE id=?", record.id)
    with pytest.raises(UnknownPictureError, match=f"bytes kept of picture {record.id} are damaged; remove it and add"):
        ask(collection, record)


def test_only_the_bytes_that_were_added_are_given_wherever_they_are_by_now(collection, record, gallery):
    path, before = gallery / "01.jpg", (gallery / "01.jpg").read_bytes()
    path.write_bytes(before + b"\0")
    with pytest.raises(
        UnknownPictureError, match=rf"{path} has changed since it was added as picture {record.id}; add"
    ):
        ask(collection, record)
    path.unlink()
    with pytest.raises(
        UnknownPictureError, match=rf"{record.id} is not available: .*01.jpg does not exist.*; put it back"
    ):
        ask(collection, record)
    path.mkdir()
    with pytest.raises(UnknownPictureError, match="is a folder"):
        ask(collection, record)
    path.rmdir()
    (gallery / "moved.jpg").write_bytes(before)
    path.symlink_to(gallery / "moved.jpg")
    assert ask(collection, record) == before


def test_a_file_that_grew_beyond_all_limits_is_not_read_to_its_end(collection, record, gallery):
    with (gallery / "01.jpg").open("r+b") as file:
        file.truncate(10**12)
    with pytest.raises(
        UnknownPictureError, match=r"has 1,000,000,000,000 bytes, more than the 10,000 that are allowed .*; put it"
    ):
        read_original(collection.store, record, PictureLimits(bytes=10_000))


ENDLESS = Path("/proc/self/pagemap")  # 256 GiB of a file that has no byte by its size


@pytest.mark.skipif(not os.access(ENDLESS, os.R_OK), reason="there is no file of the system that has no end")
def test_a_file_of_the_system_that_a_stranger_s_store_names_is_not_read_to_its_end(record):
    report = compare_files([replace(record, path=str(ENDLESS))], checksum=True)
    assert (report.compared, report.changed, report.missing) == (1, [str(ENDLESS)], [])
