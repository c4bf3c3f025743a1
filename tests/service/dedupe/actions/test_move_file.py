import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from aside import id_of

from diptych.dedupe.actions.move_file import (
    HELD,
    ChangedError,
    alone_in,
    change_of,
    give_back,
    held_of,
    move_file,
    parts_of,
    private_beside,
    same_file,
)
from diptych.errors import DedupeError

LINK = os.link


ID = id_of(b"picture")


@pytest.fixture(params=["one file system", "two file systems", "no links at all"])
def system(request, monkeypatch):
    """What the file systems can do."""

    def link(source, target, **words):
        if request.param == "no links at all" or os.path.dirname(source) != os.path.dirname(target):  # noqa: PTH120
            raise OSError(errno.EXDEV if request.param == "two file systems" else errno.EPERM, "no such links")
        LINK(source, target, **words)

    if request.param != "one file system":
        monkeypatch.setattr(os, "link", link)
    return request.param


@pytest.fixture
def crossing(monkeypatch):
    """All moves are across file systems."""
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EXDEV, "cross-device")))


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "from" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(b"picture")
    os.utime(path, ns=(10**18, 10**18 + 7))
    return path


def test_a_file_is_moved_with_its_bytes_and_its_time(system, source, tmp_path):
    target = tmp_path / "to" / "deep" / "a.jpg"
    move_file(source, target, ID)
    assert (target.read_bytes(), target.stat().st_mtime_ns, target.stat().st_nlink) == (b"picture", 10**18 + 7, 1)
    assert [path.name for path in target.parent.iterdir()] == ["a.jpg"]
    assert not source.exists()


def test_nothing_is_ever_overwritten(system, source, tmp_path):
    target = tmp_path / "to" / "a.jpg"
    target.parent.mkdir()
    target.write_bytes(b"another")
    with pytest.raises(FileExistsError):
        move_file(source, target, ID)
    assert (source.read_bytes(), target.read_bytes()) == (b"picture", b"another")
    assert parts_of(target) == held_of(source) == []


def test_another_content_than_was_meant_is_not_moved(system, source, tmp_path):
    with pytest.raises(ChangedError, match="has changed since it was scored"):
        move_file(source, tmp_path / "to" / "a.jpg", id_of(b"what it was"))
    assert [(path.name, path.read_bytes()) for path in source.parent.iterdir()] == [("a.jpg", b"picture")]
    assert list((tmp_path / "to").iterdir()) == []


def test_a_file_that_is_saved_anew_while_it_moves_stays_beside_what_it_was(system, source, tmp_path, monkeypatch):
    """As editors do: into a temporary file, which takes the name."""

    def linked_late(old: Path, new: Path, *, follow_symlinks: bool) -> None:
        if not os.path.lexists(source):
            (source.parent / "new").write_bytes(b"edited")
            (source.parent / "new").rename(source)
        link(old, new, follow_symlinks=follow_symlinks)

    link = os.link
    monkeypatch.setattr(os, "link", linked_late)
    target = tmp_path / "to" / "a.jpg"
    move_file(source, target, ID)
    assert (source.read_bytes(), target.read_bytes()) == (b"edited", b"picture")
    assert [path.name for path in source.parent.iterdir()] == ["a.jpg"]


def test_a_file_that_is_saved_anew_and_cannot_be_moved_keeps_both(system, source, tmp_path, monkeypatch):
    target = tmp_path / "to" / "a.jpg"
    target.parent.mkdir()
    target.write_bytes(b"another")

    def read_late(path: object, id: str) -> None:
        source.write_bytes(b"edited")

    monkeypatch.setattr("diptych.dedupe.actions.move_file.change_of", read_late)
    with pytest.raises(ChangedError, match="was saved anew meanwhile; what it was before is"):
        move_file(source, target, ID)
    (held,) = held_of(source)
    assert (source.read_bytes(), held.read_bytes()) == (b"edited", b"picture")
    assert target.read_bytes() == b"another"


@pytest.mark.parametrize("when", ["while it is copied", "after it was copied"])
def test_who_writes_into_the_file_while_it_is_copied_loses_nothing(crossing, source, tmp_path, monkeypatch, when):
    """As programs do that keep a file open."""
    target = tmp_path / "to" / "a.jpg"
    with source.open("r+b") as editor:

        def write(*_: object) -> None:
            editor.write(b"edited!")
            editor.flush()

        def copied(old, new, size):
            shutil_copy(old, new, size)
            if when == "while it is copied":
                write()

        def renamed(path, new):
            rename(path, new)
            if Path(new) == target and when == "after it was copied":
                write()

        shutil_copy, rename = shutil.copyfileobj, os.rename
        monkeypatch.setattr(shutil, "copyfileobj", copied)
        monkeypatch.setattr("pathlib.Path.rename", renamed)
        with pytest.raises(ChangedError, match="was being written while it was copied"):
            move_file(source, target, ID)
    assert source.read_bytes() == b"edited!"
    assert list(target.parent.iterdir()) == []
    assert [path.name for path in source.parent.iterdir()] == ["a.jpg"]


@pytest.mark.parametrize("what", ["shutil.copyfileobj", "pathlib.Path.rename"])
def test_a_full_disk_leaves_the_file_where_it_was_and_nothing_else(crossing, source, tmp_path, monkeypatch, what):

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(what, full)
    with pytest.raises(OSError, match="No space left"):
        move_file(source, tmp_path / "to" / "a.jpg", ID)
    assert [(path.name, path.read_bytes()) for path in source.parent.iterdir()] == [("a.jpg", b"picture")]
    assert list((tmp_path / "to").iterdir()) == []


def test_two_moves_to_one_place_at_once_never_share_what_they_write(crossing, source, tmp_path, monkeypatch):
    other, target = tmp_path / "other" / "a.jpg", tmp_path / "to" / "a.jpg"
    other.parent.mkdir()
    other.write_bytes(b"other!!")

    def second_meanwhile(old, new, size):
        copy(old, new, size)
        if other.exists():
            move_file(other, target, id_of(b"other!!"))

    copy = shutil.copyfileobj
    monkeypatch.setattr(shutil, "copyfileobj", second_meanwhile)
    with pytest.raises(FileExistsError):
        move_file(source, target, ID)
    assert (source.read_bytes(), target.read_bytes()) == (b"picture", b"other!!")
    assert [path.name for path in target.parent.iterdir()] == ["a.jpg"]


def test_one_run_at_a_time_moves_files_in_a_folder_above_it_and_below(tmp_path):
    inner, beside = tmp_path / "photos" / "2024", tmp_path / "other"
    inner.mkdir(parents=True)
    beside.mkdir()
    with alone_in([inner, inner.parent]), alone_in([beside]):
        for folder in (inner, inner.parent):
            with pytest.raises(DedupeError, match="another run is moving pictures in"), alone_in([folder]):
                pytest.fail("two runs at once")
    refused = pytest.raises(DedupeError, match="another run is moving pictures in")
    with alone_in([inner]), refused, alone_in([inner.parent]):
        pytest.fail("two runs at once")
    with alone_in([inner.parent, inner]):
        assert sorted(path.name for path in tmp_path.rglob("*")) == ["2024", "other", "photos"]


def test_a_file_that_would_take_its_keeper_along_stays(system, source, tmp_path):
    keeper, target = tmp_path / "keeper.jpg", tmp_path / "to" / "a.jpg"
    keeper.symlink_to(source)  # as a folder that is seen through another one
    with pytest.raises(ChangedError, match=r"^is the same file as the one to keep, .*keeper\.jpg, or that has gone"):
        move_file(source, target, ID, keeper=keeper)
    assert source.read_bytes() == b"picture"
    assert not target.exists()
    assert held_of(source) == []


@pytest.mark.parametrize("how", ["overlay", "overlay whose inodes are marked", "fuse"])
def test_a_file_whose_keeper_is_itself_seen_through_another_folder_stays(how, source, tmp_path, second_view):
    keeper = second_view(how, source.parent) / source.name
    assert keeper.read_bytes() == b"picture"  # its name is in a cache from now on
    with pytest.raises(ChangedError, match="is the same file as the one to keep"):
        move_file(source, tmp_path / "to" / "a.jpg", ID, keeper=keeper)
    assert source.read_bytes() == b"picture"
    assert not (tmp_path / "to" / "a.jpg").exists()


def test_one_file_has_one_time_of_change_wherever_it_is_seen(source, tmp_path):
    copy = tmp_path / "copy.jpg"
    shutil.copy2(source, copy)
    assert not same_file(source.stat(), copy.stat())
    assert same_file(source.stat(), source.stat())
    times = {name: getattr(source.stat(), name) for name in ("st_size", "st_mtime_ns", "st_ctime_ns")}
    elsewhere = SimpleNamespace(st_dev=-1, st_ino=-1, **times)
    assert same_file(source.stat(), cast(os.stat_result, elsewhere))


def test_a_pipe_is_not_waited_for_and_a_link_not_followed(source, tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "link.jpg").symlink_to(source)
    assert change_of(tmp_path / "pipe.jpg", ID) == "cannot be read: pipe.jpg is no file"
    assert str(change_of(tmp_path / "link.jpg", ID)).startswith("cannot be read: ")
    with pytest.raises(ChangedError, match="or that has gone meanwhile"):
        move_file(source, tmp_path / "to.jpg", ID, keeper=tmp_path / "pipe.jpg")
    assert source.read_bytes() == b"picture"


def test_a_file_with_the_longest_of_names_is_moved_and_found_when_that_was_killed(system, source, tmp_path):
    source = source.rename(source.with_name("ü" * 125 + "x.jpg"))
    assert len(os.fsencode(source.name)) == 255
    target = tmp_path / "to" / source.name
    move_file(source, target, ID)
    assert (target.read_bytes(), [path.name for path in target.parent.iterdir()]) == (b"picture", [source.name])
    held = target.rename(private_beside(target, HELD))
    assert (held_of(target), held_of(target.with_name("another"))) == ([held], [])
    give_back(held, target)
    assert target.read_bytes() == b"picture"


def test_a_file_that_cannot_get_its_name_back_is_named_by_the_one_it_has(source, tmp_path, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    rename = Path.rename
    monkeypatch.setattr(os, "link", closed)
    monkeypatch.setattr(Path, "rename", lambda path, to: closed() if path.name.endswith(HELD) else rename(path, to))
    with pytest.raises(ChangedError, match=r"is .*diptych-moving now, as it cannot get its name back: Permission"):
        move_file(source, tmp_path / "to" / "a.jpg", id_of(b"another"))
    (held,) = held_of(source)
    assert held.read_bytes() == b"picture"


def test_a_real_other_file_system_is_crossed(source):
    other = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)
    if other is None or os.stat(other).st_dev == source.stat().st_dev:  # noqa: PTH116
        pytest.skip("there is no second file system to write to")
    target = source.__class__(other) / f"diptych-test-{os.getpid()}" / "a.jpg"
    try:
        move_file(source, target, ID)
        assert target.read_bytes() == b"picture"
        move_file(target, source, ID)
        assert source.stat().st_mtime_ns == 10**18 + 7
    finally:
        target.unlink(missing_ok=True)
        target.parent.rmdir()
