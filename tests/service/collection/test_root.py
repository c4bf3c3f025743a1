import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from diptych.collection.root import NAMES, Root, check_name, collections_in, find_strangers
from diptych.collection.sync import seen_files as sync
from diptych.dedupe import pair_cache as dedupe
from diptych.errors import CollectionKeptError, CollectionNameError, StoreError
from diptych.store.lock import LOCK
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.index_cache import CACHE, MANIFEST
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.own_calibration import CALIBRATION


@pytest.fixture
def root(tmp_path) -> Iterator[Root]:
    root = Root(tmp_path / "root")
    yield root
    root.release()


def test_names_are_of_letters_digits_and_lines():
    for name in ("a", "0", "black-and_white", "a" * 63):
        check_name(name)
    for name in ("", "A", "-a", "_a", ".a", "a.b", "a/b", "../a", "a" * 64, "a\n", "ä", "."):
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
    (root.folder / "service.lock").rename(root.folder / "victim")
    (root.folder / "service.lock").symlink_to(root.folder / "victim")
    with pytest.raises(StoreError, match=r"service\.lock is a link"):
        Root(root.folder)
    assert (root.folder / "victim").is_file()
    with pytest.raises(StoreError, match="cannot be written: Not a directory; choose another folder"):
        Root(root.folder / "victim" / "root")


def test_what_is_there_is_never_made_anew(root):
    photos = root.folder / "photos"
    photos.mkdir()
    (photos / "cat.jpg").touch()
    with pytest.raises(StoreError, match="cannot be made: Directory not empty; look what is there"):
        root.make("photos")
    assert [path.name for path in root.folder.iterdir() if path.is_dir()] == ["photos"]
    assert [path.name for path in photos.iterdir()] == ["cat.jpg"]


def test_what_a_kill_left_half_removed_is_no_collection_and_cleared_away_by_the_next_start(root, monkeypatch, caplog):
    root.make("shoes")

    def killed(folder: Path) -> None:
        if folder.name == DATABASE:
            raise OSError(5, "Input/output error")
        unlink(folder)

    unlink = Path.unlink
    monkeypatch.setattr(Path, "unlink", killed)
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


def test_every_file_that_diptych_writes_into_a_store_is_known_to_be_its_own(root):
    assert {sync.LEDGER, dedupe.LEDGER, CACHE, MANIFEST, DATABASE, LOCK, CALIBRATION} == set(NAMES)
    root.make("shoes")
    folder = root.folder / "shoes"
    beside = [f"{DATABASE}-wal", f"{DATABASE}-shm", f".{CACHE}.tmp", f".{DATABASE}.backup", f".{MANIFEST}.77.tmp"]
    for name in (*NAMES, *beside):
        (folder / name).touch()
    assert find_strangers(folder) == []
    for name in ("cat.jpg", f"{DATABASE}.old", "collection.sqlite.jpg", ".hidden"):
        (folder / name).touch()
    (folder / CACHE).unlink()
    (folder / CACHE).mkdir()
    assert find_strangers(folder) == sorted([".hidden", CACHE, "cat.jpg", "collection.sqlite.jpg", f"{DATABASE}.old"])


def test_a_collection_is_not_removable_with_strangers_in_its_folder_or_as_a_link(root, tmp_path):
    root.make("shoes")
    root.check_removable("shoes")
    for number in range(7):
        (root.folder / "shoes" / f"{number}.jpg").touch()
    with pytest.raises(CollectionKeptError, match=r"is not Diptych's: 0.jpg, 1.jpg, 2.jpg, 3.jpg, 4.jpg and 2 more"):
        root.check_removable("shoes")
    (root.folder / "linked").symlink_to(root.folder / "shoes")
    with pytest.raises(CollectionKeptError, match="the collection linked is a link to"):
        root.check_removable("linked")


def test_what_comes_into_the_folder_while_it_is_removed_stays(root, caplog):
    root.make("shoes")
    store = Store.open(root.folder / "shoes")
    (root.folder / "shoes" / "cat.jpg").write_bytes(b"mine")
    with caplog.at_level(logging.WARNING):
        root.remove("shoes", store)
    (kept,) = root.folder.glob(".shoes.removed-*/*")
    assert (kept.name, kept.read_bytes()) == ("cat.jpg", b"mine")
    assert "could not be taken away: Directory not empty" in caplog.text
    root.tidy()
    assert kept.is_file()


def test_a_folder_that_cannot_be_moved_is_left_with_all_its_pictures(root, monkeypatch):
    root.make("shoes")

    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(StoreError, match="shoes cannot be removed: Read-only file system"):
        root.remove("shoes", Store.open(root.folder / "shoes"))
    assert collections_in(root.folder) == ["shoes"]
    Store.open(root.folder / "shoes").close()


def test_a_link_with_the_name_of_something_half_removed_leads_nowhere(root, tmp_path):
    Store.open(tmp_path / "mine", create=True).close()
    link = root.folder / f".a.removed-{'0' * 32}"
    link.symlink_to(tmp_path / "mine")
    root.tidy()
    assert (tmp_path / "mine" / DATABASE).is_file()
    assert link.is_symlink()
