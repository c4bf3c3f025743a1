import os
from pathlib import Path

import pytest

from diptych.pictures.walk import TRASH, FoundFile, Stamp, Tree, full_path, pictures_in, place_in, places_in


def test_files_are_found_by_ending_with_their_stamp(tmp_path):
    for name in ("b/2.JPG", "b/notes.txt", "b/.jpg", "a/9.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    tree = Tree.below([tmp_path, tmp_path / "b"])
    assert list(tree.files) == [str(tmp_path / "a/9.webp"), str(tmp_path / "b/2.JPG")]
    status = (tmp_path / "a/9.webp").stat()
    stamp = Stamp(5, status.st_mtime_ns, status.st_ino)
    assert tree.files[str(tmp_path / "a/9.webp")] == FoundFile(stamp, status.st_dev, False, status.st_ctime_ns)
    assert (tree.refused, tree.closed) == ({}, {})


def test_a_closed_folder_hides_what_is_below_it_and_nothing_beside_it():
    tree = Tree(closed={"/p/a": "closed", "/p/b.jpg": "closed"})
    assert [tree.hides(path) for path in ("/p/a/1.jpg", "/p/a/b/1.jpg", "/p/b.jpg")] == [True] * 3
    assert [tree.hides(path) for path in ("/p/ab/1.jpg", "/p/b.jpgs", "/p/1.jpg")] == [False] * 3


def test_folders_give_their_pictures_by_ending_in_alphabetical_order_and_files_come_as_they_are_named(tmp_path):
    for name in ("b/2.JPG", "b/1.jpeg", "b/notes.txt", "b/.jpg", "a/9.webp", "b/a/0.TIFF", "z.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / "z.txt", tmp_path / "b", tmp_path / "none", tmp_path / "a", tmp_path / "a/9.webp"]
    found = [str(path.relative_to(tmp_path)) for path in pictures_in(named, lambda path, reason: pytest.fail(reason))]
    assert found == ["z.txt", "b/1.jpeg", "b/2.JPG", "b/a/0.TIFF", "none", "a/9.webp", "a/9.webp"]


@pytest.fixture
def odd(tmp_path, photo_bytes, monkeypatch) -> Path:
    """A folder with two pictures, a link to one of them, and everything that cannot be read."""
    folder = tmp_path / "odd"
    for name in ("1.jpg", "closed/2.jpg", "inner/3.jpg", f"{TRASH}/4.jpg"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(photo_bytes(int(Path(name).stem)))
    (folder / "link.jpg").symlink_to("1.jpg")
    (folder / "nowhere.jpg").symlink_to("none.jpg")
    (folder / "again").symlink_to("inner")
    os.mkfifo(folder / "pipe.jpg")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.jpg")).write_bytes(photo_bytes(5))
    scandir = os.scandir

    def refusing(path: str) -> object:
        if path == str(folder / "closed"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    return folder


def test_every_command_finds_the_same_files_and_names_the_same_that_cannot_be_read(diptych, odd, tmp_path, artifact):
    def run(*words: object) -> tuple[int, dict, set[str]]:
        result = diptych(*words, "--store", tmp_path / str(words[1]).replace("/", "-"), "--model", artifact, "--json")
        unread = [*result.json["refused"], *result.json.get("closed", [])]
        return result.code, result.json, {entry["reason"] for entry in unread}

    expected = {
        f"{odd}/nowhere.jpg is a link to a file that does not exist",
        f"{odd}/pipe.jpg is not a file",
        rf"{odd}/caf\udce9.jpg has a name that is not UTF-8; rename it",
        f"{odd}/closed cannot be listed: Permission denied",
    }
    code, added, reasons = run("index", "add", odd)
    assert (code, added["added"], added["already"], reasons) == (1, 2, 1, expected)
    code, synced, reasons = run("index", "sync", odd)
    assert (code, len(synced["new"]), reasons) == (1, 2, expected)
    code, found, reasons = run("dedupe", odd)
    assert (code, found["pictures"], reasons) == (1, 2, expected)


def test_a_path_is_kept_absolute_and_without_detours_but_through_its_links(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    monkeypatch.chdir(tmp_path / "folder")
    assert full_path("../link/./a.jpg") == str(tmp_path / "link" / "a.jpg")


def test_a_folder_is_walked_through_once_for_all_that_may_lie_in_it(tmp_path, monkeypatch):
    for name in ("root/a", "root/b", "outside/c", "outside/d"):
        (tmp_path / name).mkdir(parents=True)
    walked, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda place: walked.append(Path(place)) or scandir(place))
    paths = [tmp_path / name for name in ("outside/c", "root/b", "outside/d", "outside/new/folder")]
    assert places_in(tmp_path / "root", paths) == {tmp_path / "root/b": tmp_path / "root"}
    assert walked == [tmp_path / "root", tmp_path / "root/a", tmp_path / "root/b"]
    assert place_in(tmp_path / "root", tmp_path / "root/a/new") == tmp_path / "root"
