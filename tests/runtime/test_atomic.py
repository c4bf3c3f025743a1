import os

import pytest

from diptych.errors import StoreError
from diptych.store.lock import WriterLock
from diptych_runtime.atomic import write_durably


def test_a_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_durably(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_durably(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_has_one_holder_who_is_named_and_can_be_had_after_its_release(tmp_path):
    first = WriterLock(tmp_path / "lock", "the thing")
    with pytest.raises(StoreError, match=rf"the thing is being written by process {os.getpid()} \([^)]+\);"):
        WriterLock(tmp_path / "lock", "the thing")
    first.release()
    first.release()
    WriterLock(tmp_path / "lock", "the thing").release()
