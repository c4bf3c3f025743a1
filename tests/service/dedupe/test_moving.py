import errno
import os

import pytest

from diptych.dedupe.moving import move, part_of

LINK = os.link


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
def source(tmp_path):
    path = tmp_path / "from" / "a.jpg"
    path.parent.mkdir()
    path.write_bytes(b"picture")
    os.utime(path, ns=(10**18, 10**18 + 7))
    return path


def test_a_file_is_moved_with_its_bytes_and_its_time(system, source, tmp_path):
    target = tmp_path / "to" / "deep" / "a.jpg"
    move(source, target)
    assert (target.read_bytes(), target.stat().st_mtime_ns, target.stat().st_nlink) == (b"picture", 10**18 + 7, 1)
    assert [path.name for path in target.parent.iterdir()] == ["a.jpg"]
    assert not source.exists()


def test_nothing_is_ever_overwritten(system, source, tmp_path):
    target = tmp_path / "to" / "a.jpg"
    target.parent.mkdir()
    target.write_bytes(b"another")
    with pytest.raises(FileExistsError):
        move(source, target)
    assert (source.read_bytes(), target.read_bytes()) == (b"picture", b"another")
    assert not part_of(target).exists()


def test_a_full_disk_leaves_the_file_where_it_was_and_nothing_half_written(source, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(OSError(errno.EXDEV, "cross-device")))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="No space left"):
        move(source, tmp_path / "to" / "a.jpg")
    assert source.read_bytes() == b"picture"
    assert list((tmp_path / "to").iterdir()) == []


def test_a_real_other_file_system_is_crossed(source):
    other = next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)
    if other is None or os.stat(other).st_dev == source.stat().st_dev:  # noqa: PTH116
        pytest.skip("there is no second file system to write to")
    target = source.__class__(other) / f"diptych-test-{os.getpid()}" / "a.jpg"
    try:
        move(source, target)
        assert target.read_bytes() == b"picture"
        move(target, source)
        assert source.stat().st_mtime_ns == 10**18 + 7
    finally:
        target.unlink(missing_ok=True)
        target.parent.rmdir()
