import os
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from folders import counts, held, names, put

from diptych import Collection
from diptych.collection.sync import run
from diptych.collection.sync.run import Run, check_folders
from diptych.collection.sync.seen_files import LEDGER, SeenFiles
from diptych.errors import SyncError
from diptych.pictures.walk import Tree
from diptych.store.sqlite.database import Store

ALL = sorted(["1.jpg", "2.jpg", "3.jpg", "5.jpg", "6.jpg", "7.jpg", "more/0.jpg", "more/4.jpg"])


def test_only_what_changed_is_read_and_only_what_is_new_is_embedded(sync, store, folder, cost, scorer, photo_bytes):
    with Collection.open(store, scorer, create=True) as collection:
        id = collection.add(folder / "1.jpg", metadata={"label": "one"})[0].id
    cost()
    assert counts(sync(folder)) == {"new": 7, "unchanged": 1}
    assert names(store, folder) == ALL
    assert cost() == (8, 7)
    assert counts(sync(folder)) == {"unchanged": 8}
    assert cost() == (0, 0)
    put(folder / "more/9.jpg", photo_bytes(9))
    assert counts(sync(folder)) == {"new": 1, "unchanged": 8}
    assert cost() == (1, 1)
    (folder / "1.jpg").rename(folder / "more/one.jpg")
    (folder / "more/4.jpg").rename(folder / "4.jpg")
    result = sync(folder)
    assert counts(result) == {"moved": 2, "unchanged": 7}
    assert cost() == (2, 0)
    assert {"id": id, "from": f"{folder}/1.jpg", "to": f"{folder}/more/one.jpg"} in result.json["moved"]
    with Collection.open(store, scorer, read_only=True) as collection:
        assert collection.get(id).metadata == {"label": "one"}
        assert collection.content(id)[0] == photo_bytes(1)
        assert collection.verify().healthy


def test_the_picture_of_two_files_stays_while_one_is_there_and_follows_it(sync, store, folder, photo_bytes):
    put(folder / "copy.jpg", photo_bytes(1))
    put(folder / "zopy.jpg", photo_bytes(1))
    assert counts(sync(folder)) == {"new": 8, "copies": 2}
    (folder / "1.jpg").unlink()
    assert counts(sync(folder)) == {"moved": 1, "unchanged": 7, "copies": 1}
    assert "copy.jpg" in names(store, folder)
    (folder / "copy.jpg").unlink()
    assert counts(sync(folder)) == {"moved": 1, "unchanged": 7}
    (folder / "zopy.jpg").unlink()
    assert counts(sync(folder)) == {"removed": 1, "unchanged": 7}


def test_a_changed_file_replaces_its_picture_unless_another_file_has_the_old_content(sync, store, folder, photo_bytes):
    sync(folder)
    before = {path: id for id, path in held(store).items()}
    put(folder / "1.jpg", photo_bytes(21))
    put(folder / "copy.jpg", photo_bytes(2))
    put(folder / "2.jpg", photo_bytes(22))
    result = sync(folder)
    assert counts(result) == {"new": 1, "changed": 1, "moved": 1, "unchanged": 6}
    assert result.json["changed"][0]["was"] == before[f"{folder}/1.jpg"]
    assert held(store)[result.json["changed"][0]["id"]] == f"{folder}/1.jpg"
    assert held(store)[before[f"{folder}/2.jpg"]] == f"{folder}/copy.jpg"
    assert names(store, folder) == sorted([*ALL, "copy.jpg"])


def test_a_file_that_is_no_picture_any_more_goes_and_its_reason_is_remembered(sync, store, folder, cost, photo_bytes):
    sync(folder)
    put(folder / "1.jpg", b"a text")
    (folder / "2.jpg").unlink()
    (folder / "2.jpg").symlink_to("nowhere.jpg")
    first = sync(folder)
    assert (first.code, counts(first)) == (0, {"removed": 2, "refused": 2, "unchanged": 6})
    assert f"{folder}/1.jpg is not in a format that can be read" in str(first.json["refused"])
    assert f"{folder}/2.jpg is a link to a file that does not exist" in str(first.json["refused"])
    cost()
    assert sync(folder).json["refused"] == first.json["refused"]
    assert cost() == (0, 0)
    assert sync(folder, "--strict").code == 1
    put(folder / "1.jpg", photo_bytes(1))
    assert counts(sync(folder)) == {"new": 1, "refused": 1, "unchanged": 6}


def test_pictures_that_were_added_otherwise_stay_as_they_are(sync, store, folder, scorer, tmp_path, photo_bytes):
    other = put(tmp_path / "other/20.jpg", photo_bytes(20))
    with Collection.open(store, scorer, create=True) as collection:
        collection.add(photo_bytes(1), metadata={"uploaded": True})
        collection.add(other)
        collection.add(put(folder / "named.dat", photo_bytes(30)))
    other.unlink()
    assert counts(sync(folder)) == {"new": 7, "copies": 1, "unchanged": 1}
    assert names(store, folder) == sorted(["", str(other), "named.dat", *ALL[1:]])
    (folder / "1.jpg").unlink()
    (folder / "named.dat").unlink()
    assert counts(sync(folder)) == {"removed": 1, "unchanged": 7}
    assert names(store, folder) == sorted(["", str(other), *ALL[1:]])


def test_what_was_sent_to_be_kept_outlives_the_file_it_was_found_in(sync, store, folder, scorer, photo_bytes):
    sync(folder)
    with Collection.open(store, scorer) as collection:
        ids = [collection.add(photo_bytes(seed), keep_originals=True)[0].id for seed in (1, 2)]
    (folder / "1.jpg").unlink()
    put(folder / "2.jpg", photo_bytes(22))
    assert counts(sync(folder)) == {"new": 1, "unplaced": 2, "unchanged": 6}
    assert names(store, folder) == sorted(["", "", *ALL[1:]])
    with Collection.open(store, scorer, read_only=True) as collection:
        assert [collection.content(id)[0] for id in ids] == [photo_bytes(1), photo_bytes(2)]
        assert {*ids} < {match.id for match in collection.search(photo_bytes(1), top=20).matches}
        assert collection.verify().healthy
    assert counts(sync(folder)) == {"unchanged": 7}


def test_what_a_client_removes_and_sends_again_during_a_run_stays_and_has_no_path(store, folder, scorer, photo_bytes):
    with Collection.open(store, scorer, create=True) as collection, SeenFiles(store, scorer.limits) as ledger:
        Run(collection, ledger, [folder]).go()
        moved, gone = (collection.add(photo_bytes(seed))[0].id for seed in (1, 2))
        (folder / "1.jpg").rename(folder / "one.jpg")
        (folder / "2.jpg").unlink()

        def meanwhile(files):
            for seed, id in ((1, moved), (2, gone)):
                collection.remove(id)
                collection.add(photo_bytes(seed))

        Run(collection, ledger, [folder]).go(tick=meanwhile)
        assert [collection.get(id).path for id in (moved, gone)] == [None, None]
        assert len(collection.search(photo_bytes(2), top=20).matches) == 8


def test_of_two_folders_synced_one_after_the_other_a_copy_in_the_second_keeps_the_picture(
    sync, store, folder, tmp_path, photo_bytes
):
    put(tmp_path / "second/copy.jpg", photo_bytes(1))
    sync(folder)
    assert counts(sync(tmp_path / "second")) == {"copies": 1}
    (folder / "1.jpg").unlink()
    result = sync(folder)
    assert counts(result) == {"moved": 1, "unchanged": 7}
    assert result.json["moved"][0]["to"] == str(tmp_path / "second/copy.jpg")


@pytest.mark.parametrize("loss", ["gone", "cut short", "no database", "another version"])
def test_a_lost_ledger_costs_reading_and_nothing_else(sync, store, folder, cost, loss, caplog):
    sync(folder)
    before = held(store)
    (folder / "1.jpg").rename(folder / "one.jpg")
    (folder / "2.jpg").unlink()
    ledger = store / LEDGER
    data = ledger.read_bytes()
    ledger.unlink()
    if loss == "cut short":
        ledger.write_bytes(data[: len(data) // 2])
    elif loss == "no database":
        ledger.write_bytes(b"no database at all " * 100)
    elif loss == "another version":
        ledger.write_bytes(data[:60] + (9).to_bytes(4, "big") + data[64:])
    cost()
    result = sync(folder)
    assert (result.code, counts(result)) == (0, {"moved": 1, "removed": 1, "unchanged": 6})
    assert cost() == (7, 0)
    assert ("it is made anew, and files are read again" in caplog.text) == (loss != "gone")
    assert held(store).keys() < before.keys()
    assert counts(sync(folder)) == {"unchanged": 7}
    assert cost() == (0, 0)


def test_a_file_of_the_last_moment_is_not_trusted_by_its_time(sync, folder, cost, photo_bytes, monkeypatch):
    monkeypatch.setattr(run, "_RECENT", 1000 * 10**9)  # a busy machine takes its time
    sizes = [photo_bytes(seed).ljust(8000, b"\0") for seed in (40, 41, 42, 43)]
    put(folder / "1.jpg", sizes[0], age=0)
    put(folder / "2.jpg", sizes[1], age=-3600)
    sync(folder)
    for name, data in (("1.jpg", sizes[2]), ("2.jpg", sizes[3])):
        status = (folder / name).stat()
        (folder / name).write_bytes(data)
        os.utime(folder / name, ns=(status.st_mtime_ns, status.st_mtime_ns))
        assert (folder / name).stat().st_ino == status.st_ino
    cost()
    assert counts(sync(folder)) == {"changed": 2, "unchanged": 6}
    assert cost() == (2, 2)


def test_checksum_finds_what_size_and_time_hide(sync, store, folder, cost, photo_bytes):
    sync(folder)
    status = (folder / "1.jpg").stat()
    with (folder / "1.jpg").open("r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff")
    os.utime(folder / "1.jpg", ns=(status.st_mtime_ns, status.st_mtime_ns))
    cost()
    assert counts(sync(folder)) == {"unchanged": 8}
    assert cost() == (0, 0)
    assert counts(sync(folder, "--checksum")) == {"changed": 1, "unchanged": 7}
    assert cost() == (8, 1)


def test_a_file_that_vanishes_before_it_is_read_counts_as_removed(sync, store, folder, monkeypatch, photo_bytes):
    sync(folder)
    put(folder / "1.jpg", photo_bytes(21))
    put(folder / "9.jpg", photo_bytes(9))
    below = Tree.below

    def vanishing(roots, exclusion):
        found = below(roots, exclusion)
        (folder / "1.jpg").unlink()
        (folder / "9.jpg").unlink()
        return found

    monkeypatch.setattr(Tree, "below", vanishing)
    result = sync(folder)
    assert (result.code, counts(result)) == (0, {"removed": 1, "unchanged": 7})


def test_what_the_disk_does_not_give_now_keeps_its_pictures(sync, store, folder, monkeypatch, photo_bytes):
    sync(folder)
    put(folder / "1.jpg", photo_bytes(21))
    put(folder / "2.jpg", photo_bytes(22))
    (folder / "more/4.jpg").unlink()
    opened, scandir = Path.open, os.scandir

    def failing(path, *args, **options):
        if path.name == "1.jpg":
            raise OSError(5, "Input/output error", str(path))
        if path.name == "2.jpg":
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *args, **options)

    def closed(path):
        if str(path).endswith("more"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(Path, "open", failing)
    monkeypatch.setattr(os, "scandir", closed)
    result = sync(folder)
    assert (result.code, counts(result)) == (1, {"closed": 2, "refused": 1, "removed": 1, "unchanged": 7})
    assert [one["reason"] for one in result.json["closed"]] == [
        f"{folder}/more cannot be listed: Permission denied",
        f"{folder}/1.jpg cannot be read now: Input/output error",
    ]
    monkeypatch.undo()
    assert counts(sync(folder)) == {"changed": 1, "new": 1, "removed": 1, "unchanged": 5}, "neither was remembered"


def test_a_dry_run_says_what_the_next_run_does_and_writes_nothing(sync, store, folder, photo_bytes):
    first = sync(folder, "--dry-run")
    assert (counts(first), store.exists()) == ({"new": 8}, False)
    sync(folder)
    (folder / "1.jpg").rename(folder / "one.jpg")
    (folder / "2.jpg").unlink()
    put(folder / "3.jpg", photo_bytes(23))
    put(folder / "9.jpg", photo_bytes(9))
    put(folder / "text.jpg", b"a text")
    files = {path.name: path.read_bytes() for path in store.iterdir() if not path.name.endswith(("-shm", "-wal"))}
    dry = sync(folder, "--dry-run")
    assert {path.name: path.read_bytes() for path in store.iterdir() if path.name in files} == files
    wet = sync(folder)
    assert {**dry.json, "dry_run": False, "total": 0} == {**wet.json, "total": 0}
    assert counts(wet) == {"new": 1, "changed": 1, "moved": 1, "removed": 1, "refused": 1, "unchanged": 5}
    assert (dry.json["total"], wet.json["total"]) == (8, 8)


@pytest.mark.parametrize(
    ("owner", "name", "error"),
    [
        (run, "_read_file", MemoryError),
        (Collection, "read_new", MemoryError),
        (Collection, "commit", KeyboardInterrupt),
    ],
)
def test_after_ctrl_c_or_want_of_memory_the_next_run_takes_up_the_rest(
    sync, store, folder, monkeypatch, owner, name, error
):
    monkeypatch.setattr("diptych.collection.ingest.BATCH", 3)
    works = getattr(owner, name)

    def failing(*args, **options):
        if len(held(store)) == 3:
            raise error
        return works(*args, **options)

    monkeypatch.setattr(owner, name, failing)
    told = sync(folder)
    if error is MemoryError:
        assert told.code == 1
        assert "what was added is kept, and nothing was removed. Allow more" in told.json["error"]["message"]
    else:
        assert (told.code, told.json["interrupted"], counts(told)) == (130, True, {"new": 3})
    monkeypatch.setattr(owner, name, works)
    assert counts(sync(folder)) == {"new": 5, "unchanged": 3}
    assert names(store, folder) == ALL


def test_folders_become_absolute_and_come_once_and_what_is_none_is_named(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert check_folders(["a", "./a/", tmp_path / "a", "link"]) == [str(tmp_path / "a"), str(tmp_path / "link")]
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xe9")
    os.mkdir(odd)  # noqa: PTH102
    for name, what in (("file", "file is a file; nothing was"), ("none", "none does not exist"), (odd, "not UTF-8")):
        with pytest.raises(SyncError, match=what):
            check_folders(["a", name])


@pytest.fixture
def described(sync, store, folder, scorer) -> dict[str, Any]:
    """The metadata of the folder's pictures by id; the first two are labelled, too."""
    with Collection.open(store, scorer, create=True) as collection:
        for path in sorted(folder.rglob("*.jpg")):
            collection.add(path, metadata={"album": path.name})
        a, b, *_ = [record.id for record in collection.list()]
        collection.label(a, b, "different")
    sync(folder)
    return metadata_of(store)


def metadata_of(store: Path) -> dict[str, Any]:
    with Store.open(store, read_only=True) as opened:
        return {record.id: record.metadata for record in opened.page(100)}


def test_files_that_were_away_for_a_run_get_back_their_metadata_and_labels(sync, store, folder, described, tmp_path):
    away = tmp_path / "away"
    (folder / "more").rename(away)
    gone = sync(folder)
    assert (counts(gone), gone.json["kept_metadata"], gone.json["keep_days"]) == ({"removed": 2, "unchanged": 6}, 2, 90)
    (folder / "again").mkdir()
    for file in away.iterdir():
        file.rename(folder / "again" / file.name)
    foreseen, back = sync(folder, "--dry-run"), sync(folder)
    assert [result.json["returned"] for result in (foreseen, back)] == [back.json["new"]] * 2
    assert (len(back.json["returned"]), metadata_of(store)) == (2, described)
    with Store.open(store, read_only=True) as opened:
        assert [label.answer for label in opened.labels()] == ["different"]
    assert not sync(folder).json["returned"]


def test_metadata_are_kept_for_as_long_as_is_said_and_never_for_who_removes(
    diptych, sync, store, folder, described, tmp_path, photo_bytes, monkeypatch
):
    one, two, three = (folder / name for name in ("1.jpg", "2.jpg", "3.jpg"))
    diptych("index", "remove", one, "--store", store)
    assert counts(sync(folder)) == {"new": 1, "unchanged": 7}
    two.rename(tmp_path / "2.jpg")
    sync(folder, "--keep-metadata", 0)
    (tmp_path / "2.jpg").rename(two)
    assert not sync(folder).json["returned"]
    three.rename(tmp_path / "3.jpg")
    sync(folder)
    (tmp_path / "3.jpg").rename(three)
    monkeypatch.setattr(run, "datetime", Later)
    assert not sync(folder).json["returned"]
    assert sorted(metadata.get("album", "-") for metadata in metadata_of(store).values()) == sorted(
        ["-", "-", "-", "0.jpg", "4.jpg", "5.jpg", "6.jpg", "7.jpg"]
    )


class Later(datetime):
    """The time in 91 days."""

    @classmethod
    def now(cls, tz=None):
        return super().now(tz) + timedelta(days=91)


def test_every_run_gives_pictures_the_stamps_of_their_files(sync, store, folder, described):
    with sqlite3.connect(store / "collection.sqlite") as connection:
        connection.execute("UPDATE digests SET stamp=NULL")
    connection.close()
    (folder / "1.jpg").rename(folder / "one.jpg")
    os.utime(folder / "2.jpg")
    sync(folder)
    with Store.open(store, read_only=True) as opened:
        assert {record.file_state for record in opened.page(100)} == {"unchanged"}


def test_what_is_larger_than_the_limits_of_now_is_refused_and_its_picture_stays(sync, folder, monkeypatch, photo_bytes):
    large = put(folder / "large.bmp", photo_bytes(9, format="BMP"))
    assert counts(sync(folder)) == {"new": 9}
    least = large.stat().st_size - 1
    assert max(path.stat().st_size for path in folder.rglob("*.jpg")) < least
    monkeypatch.setenv("DIPTYCH_PICTURE_BYTES", str(least))
    for words in ((), ("--checksum",)):
        os.utime(large)
        found = sync(folder, *words)
        assert (found.code, counts(found)) == (0, {"refused": 1, "unchanged": 9})
        reason = f"has {large.stat().st_size:,} bytes, more than the {least:,} that are allowed (DIPTYCH_PICTURE_BYTES)"
        assert reason in found.json["refused"][0]["reason"]
    put(folder / "new.bmp", photo_bytes(10, format="BMP"))
    assert counts(sync(folder))["refused"] == 2
    monkeypatch.delenv("DIPTYCH_PICTURE_BYTES")
    assert counts(sync(folder)) == {"new": 1, "unchanged": 9}
