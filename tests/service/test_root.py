import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from diptych.errors import CollectionNameError, StoreError
from diptych.root import Root, check_name, collections_in
from diptych.schema import DATABASE
from diptych.store import Store


@pytest.fixture
def root(tmp_path) -> Iterator[Root]:
    root = Root(tmp_path / "root")
    yield root
    root.release()


@pytest.mark.parametrize("name", ["a", "0", "shoes", "black-and_white", "a" * 63])
def test_a_name_of_letters_digits_and_lines_is_taken(root, name):
    check_name(name)
    root.make(name)
    assert collections_in(root.folder) == [name]


@pytest.mark.parametrize("name", ["", "A", "-a", "_a", ".a", "a.b", "a/b", "../a", "a" * 64, "a\n", "ä", "."])
def test_any_other_name_is_refused_with_what_was_expected(name):
    with pytest.raises(CollectionNameError, match="expected 1 to 63 of a-z, 0-9, - and _"):
        check_name(name)


def test_only_folders_with_a_database_and_a_name_are_collections(root):
    for name in ("shoes", "bags"):
        root.make(name)
    (root.folder / "empty").mkdir()
    (root.folder / "file").touch()
    (root.folder / "Upper").mkdir()
    (root.folder / "Upper" / DATABASE).touch()
    assert collections_in(root.folder) == ["bags", "shoes"]
    with pytest.raises(StoreError, match="expected a folder with the folders of collections"):
        collections_in(root.folder / "none")


def test_one_process_at_a_time_has_the_folder(root):
    with pytest.raises(StoreError, match=f"the folder {root.folder} is being written by process"):
        Root(root.folder)
    root.release()
    Root(root.folder).release()


def test_a_folder_that_cannot_be_made_is_said_to_be_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be written: Not a directory; choose another folder"):
        Root(tmp_path / "file" / "root")


def test_what_is_there_is_never_made_anew(root):
    photos = root.folder / "photos"
    photos.mkdir()
    (photos / "cat.jpg").touch()
    with pytest.raises(StoreError, match="cannot be made: Directory not empty; look what is there"):
        root.make("photos")
    assert [path.name for path in root.folder.iterdir() if path.is_dir()] == ["photos"]
    assert [path.name for path in photos.iterdir()] == ["cat.jpg"]


def test_a_removed_collection_is_gone_from_the_disk_and_can_be_made_again(root):
    root.make("shoes")
    root.remove("shoes", Store.open(root.folder / "shoes"))
    assert [path.name for path in root.folder.iterdir()] == ["service.lock"]
    root.make("shoes")
    with Store.open(root.folder / "shoes") as store:
        assert store.count() == 0


def test_what_a_kill_left_half_removed_is_no_collection_and_cleared_away_by_the_next_start(root, monkeypatch, caplog):
    root.make("shoes")

    def killed(folder: Path, **_: object) -> None:
        (folder / "writer.lock").unlink()  # the database is still there
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shutil, "rmtree", killed)
    with caplog.at_level(logging.WARNING):
        root.remove("shoes", Store.open(root.folder / "shoes"))
    assert "the next start tries again" in caplog.text
    monkeypatch.undo()
    (half,) = root.folder.glob(".shoes.removed-*")
    assert (half / DATABASE).is_file()
    assert collections_in(root.folder) == []
    root.release()
    (root.folder / ".git").mkdir()
    again = Root(root.folder)
    again.tidy()
    again.release()
    assert sorted(path.name for path in root.folder.iterdir()) == [".git", "service.lock"]


def test_a_folder_that_cannot_be_moved_is_left_with_all_its_pictures(root, monkeypatch):
    root.make("shoes")

    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(StoreError, match="shoes cannot be removed: Read-only file system"):
        root.remove("shoes", Store.open(root.folder / "shoes"))
    assert collections_in(root.folder) == ["shoes"]
    Store.open(root.folder / "shoes").close()
