import contextlib
import os
from pathlib import Path

import pytest

from diptych.store.lock import WriterLock
from diptych_runtime.atomic import replacing_file, replacing_folder, replacing_stream, write_atomic
from diptych_runtime.errors import DiptychError


def test_a_write_replaces_the_file_and_leaves_nothing_beside_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named_and_no_temporary_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomic(tmp_path / "none" / "file", b"new")
    assert caught.value.filename == str(tmp_path / "none")


def test_a_file_takes_its_place_in_the_end_and_keeps_the_old_one_if_it_fails(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with replacing_file(path) as unfinished:
        unfinished.write_text("old")
        assert (unfinished.suffix, path.exists()) == (".json", False)
    with contextlib.suppress(KeyboardInterrupt), replacing_file(path) as unfinished:
        unfinished.write_text("half")
        raise KeyboardInterrupt
    assert [(one, one.read_text()) for one in tmp_path.iterdir()] == [(path, "old")]


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_takes_its_place_in_the_end_and_nothing_is_left_of_it_if_it_fails(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "deep" / "folder"
    if there:
        path.mkdir(parents=True)
    with contextlib.suppress(OSError), replacing_folder(path) as fresh:
        (fresh / "a").write_text("a")
        raise OSError(28, "full")
    assert list((tmp_path / "deep").iterdir()) == ([path] if there else [])
    with replacing_folder(path) as fresh:
        (fresh / "a").write_text("a")
    assert (path / "a").read_text() == "a"
    assert list((tmp_path / "deep").iterdir()) == [path]


def test_a_folder_whose_place_cannot_be_taken_is_refused_before_the_work() -> None:
    mounted = Path("/proc")
    with (
        pytest.raises(DiptychError, match=r"/proc is where a disk is mounted, .*; name a folder in it"),
        replacing_folder(mounted),
    ):
        pytest.fail("it began")


def test_a_full_folder_is_replaced_only_where_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(OSError, match="not empty"), replacing_folder(path) as fresh:
        (fresh / "new").touch()
    assert [one.name for one in path.iterdir()] == ["old"]
    with replacing_folder(path, full=True) as fresh:
        (fresh / "new").touch()
    assert [one.name for one in path.iterdir()] == ["new"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("how", [write_atomic, replacing_file, replacing_folder])
def test_the_content_and_then_the_name_are_on_the_disk_before_it_returns(tmp_path: Path, how, monkeypatch) -> None:
    order = []
    fsync, sync, replace = os.fsync, os.sync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda number: order.append("sync") or fsync(number))
    monkeypatch.setattr(os, "sync", lambda: order.append("sync") or sync())
    monkeypatch.setattr(Path, "replace", lambda old, new: order.append("rename") or replace(old, new))
    if how is write_atomic:
        write_atomic(tmp_path / "a", b"content")
    else:
        with how(tmp_path / "a") as path:
            (path / "b" if how is replacing_folder else path).write_text("content")
    assert order == ["sync", "rename", "sync"]


def test_a_link_with_the_name_of_the_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    folder, victim = tmp_path / "folder", tmp_path / "victim"
    folder.mkdir()
    victim.write_text("precious")
    for name in (".a.json.tmp", f".a.json.{os.getpid()}.tmp", f".{os.getpid()}-a.json"):
        (folder / name).symlink_to(victim)
    write_atomic(folder / "a.json", b"new")
    with replacing_stream(folder / "a.json") as stream:
        stream.write(b"newer")
    with replacing_file(folder / "a.json") as unfinished:
        unfinished.write_text("newest")
    assert victim.read_text() == "precious"
    assert [(one.is_symlink(), one.read_text()) for one in folder.iterdir()] == [(False, "newest")]


def test_a_lock_that_is_a_link_is_refused_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="lock is a link"):
        WriterLock(tmp_path / "lock", "the thing")
    assert (tmp_path / "victim").read_text() == "precious"
