import os
import re

import pytest

from diptych.collection.sync.tree import Stamp, Tree, checked, listed
from diptych.errors import SyncError


def test_folders_become_absolute_and_come_once_and_links_stay_as_they_are_named(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    monkeypatch.chdir(tmp_path)
    assert checked(["a", "./a/", tmp_path / "a", "link"]) == [str(tmp_path / "a"), str(tmp_path / "link")]


def test_what_is_no_folder_is_an_error_that_says_what_it_is(tmp_path):
    (tmp_path / "file").touch()
    for name, what in (("file", "is a file"), ("none", "does not exist")):
        text = re.escape(f"expected a folder to follow, and {tmp_path / name} {what}; nothing was changed")
        with pytest.raises(SyncError, match=text):
            checked([tmp_path, tmp_path / name])
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xe9")
    os.mkdir(odd)  # noqa: PTH102
    with pytest.raises(SyncError, match="not UTF-8"):
        checked([odd])


def test_files_are_found_by_ending_with_their_stamp(tmp_path):
    for name in ("b/2.JPG", "b/notes.txt", "b/.jpg", "a/9.webp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
    tree = listed([str(tmp_path), str(tmp_path / "b")])
    assert list(tree.files) == [str(tmp_path / "a/9.webp"), str(tmp_path / "b/2.JPG")]
    status = (tmp_path / "a/9.webp").stat()
    assert tree.files[str(tmp_path / "a/9.webp")] == Stamp(5, status.st_mtime_ns, status.st_ino)
    assert (tree.refused, tree.closed) == ({}, {})


def test_a_closed_folder_hides_what_is_below_it_and_nothing_beside_it():
    tree = Tree(closed={"/p/a": "closed", "/p/b.jpg": "closed"})
    assert [tree.hides(path) for path in ("/p/a/1.jpg", "/p/a/b/1.jpg", "/p/b.jpg")] == [True] * 3
    assert [tree.hides(path) for path in ("/p/ab/1.jpg", "/p/b.jpgs", "/p/1.jpg")] == [False] * 3
