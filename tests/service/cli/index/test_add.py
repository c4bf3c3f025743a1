"""`diptych index add`."""

import os
import tempfile
from pathlib import Path

from diptych.pictures.walk import TRASH
from diptych.store.records import Record
from diptych.store.sqlite.database import Store


def _bytes(store: Path) -> dict[str, bytes]:
    """What is in every file but SQLite's shared memory, which every reader has, and its log while it is empty."""
    found = {path.name: path.read_bytes() for path in store.iterdir() if not path.name.endswith("-shm")}
    return {name: data for name, data in found.items() if data or not name.endswith("-wal")}


def _records(store: Path) -> list[Record]:
    with Store.open(store, read_only=True) as opened:
        return opened.page(100)


def test_folders_files_and_standard_input_are_added_and_what_cannot_be_read_is_named(
    diptych, gallery, model, tmp_path, bad_pictures, stdin, photo_bytes
):
    arguments = ("index", "add", gallery, *bad_pictures.values(), "--store", tmp_path / "store", *model)
    first = diptych(*arguments)
    assert (first.code, "12 added, 0 already there, 6 refused\n" in first.out) == (1, True)
    assert all(path.name in first.out for path in bad_pictures.values())
    second = diptych(*arguments, "--json").json
    assert (second["added"], second["already"], second["total"]) == (0, 12, 12)
    assert [entry["path"] for entry in second["refused"]] == [str(path) for path in bad_pictures.values()]
    assert all(set(entry) == {"path", "reason"} for entry in second["refused"])
    stdin(photo_bytes(77))
    assert diptych("index", "add", "-", "--store", tmp_path / "store", *model, "--json").json["added"] == 1
    assert diptych("index", "stats", "--store", tmp_path / "store", "--json").json["kept"] == 1


def test_adding_needs_no_folder_for_temporary_files(diptych, model, gallery, tmp_path, monkeypatch):
    for command in ("add", "sync"):
        with monkeypatch.context() as during:
            during.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
            done = diptych("index", command, gallery, "--store", tmp_path / command, *model)
        assert (done.code, len(_records(tmp_path / command))) == (0, 12), done.err


def test_a_folder_that_cannot_be_listed_is_named_and_the_rest_is_added(diptych, model, gallery, tmp_path, monkeypatch):
    def scandir(path: str) -> object:
        if path == str(gallery / "more"):
            raise PermissionError(13, "Permission denied", path)
        return scandir_of_os(path)

    scandir_of_os = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    result = diptych("index", "add", gallery, "--store", tmp_path / "store", *model, "--json")
    assert result.code == 1
    reason = f"{gallery / 'more'} cannot be listed: Permission denied"
    assert result.json["refused"] == [{"path": str(gallery / "more"), "reason": reason}]
    assert result.json["added"] == result.json["total"] > 0


def test_one_unreadable_file_among_others_is_counted_and_is_an_error_only_if_that_is_asked_for(
    diptych, model, gallery, tmp_path
):
    (gallery / "broken.jpg").write_text("text")
    arguments = ("index", "add", gallery, "--store", tmp_path / "store", *model)
    first = diptych(*arguments)
    assert first.code == 0
    assert "12 added, 0 already there, 1 refused\n" in first.out
    assert "broken.jpg is not in a format that can be read" in first.out
    assert diptych(*arguments).code == 0
    assert diptych(*arguments, "--strict").code == 1
    assert diptych("index", "add", gallery / "broken.jpg", "--store", tmp_path / "store", *model).code == 1
    absent = diptych("index", "add", gallery, gallery / "typo.jpg", "--store", tmp_path / "store", *model)
    assert (absent.code, "typo.jpg does not exist" in absent.out) == (1, True)


def test_where_nothing_that_is_named_exists_no_model_is_loaded_and_no_collection_made(diptych, tmp_path):
    absent = diptych("index", "add", tmp_path / "typo", "--store", tmp_path / "store", "--model", tmp_path / "none")
    assert (absent.code, absent.err) == (1, f"diptych: error: {tmp_path / 'typo'} does not exist\n")
    assert not (tmp_path / "store").exists()


def test_camera_raw_and_other_skipped_files_are_named_and_counted(diptych, model, gallery, tmp_path):
    for name in ("a.CR2", "b.cr2", "more/film.mp4", "README"):
        (gallery / name).write_text("none")
    arguments = ("index", "add", gallery, "--store", tmp_path / "store", *model)
    result = diptych(*arguments)
    assert result.code == 0
    assert "4 files skipped because of their endings:\n" in result.out
    raw = f"  2 .cr2 (camera RAW, which is not read: export JPEG or TIFF), the first is {gallery / 'a.CR2'}\n"
    assert raw in result.out
    assert (
        f"  1 .mp4 (a film, which is not read: save a frame as JPEG or PNG), {gallery / 'more/film.mp4'}\n"
        in result.out
    )
    assert f"  1 without an ending, {gallery / 'README'}\n" in result.out
    found = diptych(*arguments, "--json").json["skipped"]
    assert {entry["ending"]: entry["files"] for entry in found} == {".cr2": 2, ".mp4": 1, "": 1}
    synced = diptych("index", "sync", gallery, "--store", tmp_path / "store", *model)
    assert (synced.code, raw in synced.out) == (0, True)
    again = diptych("index", "sync", gallery, "--store", tmp_path / "store", *model, "--json").json["skipped"]
    assert sorted(again, key=str) == sorted(found, key=str)


def test_what_dedupe_put_aside_is_not_added(diptych, model, gallery, tmp_path):
    (gallery / TRASH / "1").mkdir(parents=True)
    (gallery / "01.jpg").rename(gallery / TRASH / "1" / "01.jpg")
    before = diptych("index", "add", gallery, "--store", tmp_path / "store", *model, "--json").json
    assert (before["added"], before["refused"]) == (11, [])
    named = diptych("index", "add", gallery / TRASH / "1", "--store", tmp_path / "store", *model, "--json").json
    assert named["added"] == 1


def test_a_store_among_pictures_is_remarked_upon(diptych, model, gallery, tmp_path):
    result = diptych("index", "add", gallery, "--store", gallery, *model)
    assert result.code == 0
    assert f"{gallery} holds what is not Diptych's: 01.jpg, 02.jpg" in result.err
    assert "a store is best alone in its folder" in result.err
    assert diptych("index", "add", gallery, "--store", tmp_path / "store", *model).err == ""


def test_adding_an_empty_folder_makes_an_empty_collection_says_so_and_is_no_error(diptych, model, tmp_path):
    (tmp_path / "empty").mkdir()
    result = diptych("index", "add", tmp_path / "empty", "--store", tmp_path / "store", *model)
    assert result.code == 0
    assert "there is no picture (.avif, " in result.err
    assert result.err.endswith(f".webp) in {tmp_path / 'empty'}\n")
    assert result.out == f"0 added, 0 already there, 0 refused\n0 pictures in {tmp_path / 'store'}\n"
    assert "none yet" in diptych("index", "stats", "--store", tmp_path / "store").out


def test_a_table_gives_each_picture_its_metadata_and_names_what_is_not_there(diptych, store, model, gallery, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(f"path,label,price\n{gallery}/01.jpg,shoe,20\n{gallery}/02.jpg,,3.5\n/nowhere/x.jpg,boot,1\n")
    dry = diptych("index", "add", gallery, "--store", store, "--metadata", table, "--dry-run", *model)
    assert (dry.code, {str(record.metadata) for record in _records(store)}) == (0, {"{}"})
    added = diptych("index", "add", gallery, "--store", store, "--metadata", table, *model)
    assert (added.code, f"1 line of {table} without a picture among these:\n  /nowhere/x.jpg\n" in added.out) == (
        0,
        True,
    )
    kept = {record.path: record.metadata for record in _records(store)}
    assert kept.pop(f"{gallery}/01.jpg") == {"label": "shoe", "price": 20}
    assert kept.pop(f"{gallery}/02.jpg") == {"price": 3.5}
    assert set(map(str, kept.values())) == {"{}"}
    exported = tmp_path / "all.jsonl"
    diptych("index", "export", "-o", exported, "--store", store)
    again = diptych("index", "add", gallery, "--store", tmp_path / "again", "--metadata", exported, *model, "--json")
    assert (again.code, again.json["metadata_without_picture"]) == (0, [])
    assert {record.path: record.metadata for record in _records(tmp_path / "again")} == {
        record.path: record.metadata for record in _records(store)
    }


def test_a_table_that_is_wrong_or_of_other_pictures_adds_nothing(diptych, model, gallery, tmp_path):
    table = tmp_path / "table.csv"
    for text, words in (
        ("path,label\n01.jpg,x\n", "names none of the pictures, but"),
        ("label\nx\n", "path or file_name among them"),
    ):
        table.write_text(text)
        refused = diptych("index", "add", gallery, "--store", tmp_path / "new", "--metadata", table, *model)
        assert (refused.code, words in refused.err, (tmp_path / "new").exists()) == (1, True, False)
    missing = diptych("index", "add", gallery, "--store", tmp_path / "new", "--metadata", tmp_path / "no.csv", *model)
    assert (missing.code, "no.csv: No such file" in missing.err) == (1, True)


def test_copies_of_a_picture_with_different_metadata_are_named_and_the_last_one_counts(
    diptych, model, tmp_path, photo_bytes
):
    for name in ("a", "b", "c", "d"):
        (tmp_path / f"{name}.jpg").write_bytes(photo_bytes(30 + (name == "d")))
    table = tmp_path / "table.csv"
    table.write_text("path,label\na.jpg,shoe\nb.jpg,boot\nc.jpg,boot\nd.jpg,hat\n")
    a, b, c, d = (tmp_path / f"{name}.jpg" for name in ("a", "b", "c", "d"))

    def add(*arguments):
        return diptych("index", "add", *arguments, "--store", tmp_path / "store", "--metadata", table, *model)

    for code, arguments in ((0, ["--dry-run"]), (0, []), (1, ["--strict"])):
        added = add(a, b, c, d, *arguments)
        assert added.code == code
        words = f"1 picture with copies to which {table} gives different metadata:\n  {c} counts, not {a}\n"
        assert words in added.out
    assert {record.metadata["label"] for record in _records(tmp_path / "store")} == {"boot", "hat"}
    (conflict,) = add(b, a, "--json").json["metadata_conflicts"]
    assert (conflict["counts"], conflict["instead_of"]) == (str(a), [str(b)])
    assert {record.metadata["label"] for record in _records(tmp_path / "store")} == {"shoe", "hat"}
    assert add(b, c, d, "--strict", "--json").json["metadata_conflicts"] == []


def test_a_dry_run_says_what_would_be_added_and_writes_nothing(diptych, store, model, tmp_path, gallery, photo_bytes):
    folder = tmp_path / "new"
    folder.mkdir()
    for name, data in [("a", photo_bytes(30)), ("b", photo_bytes(30)), ("c", photo_bytes(31)), ("d", b"a text")]:
        (folder / f"{name}.jpg").write_bytes(data)
    arguments = ("index", "add", folder, gallery / "01.jpg", "--store", store, *model)
    before = _bytes(store)
    dry, text = diptych(*arguments, "--dry-run", "--json"), diptych(*arguments, "--dry-run")
    assert _bytes(store) == before
    assert text.out.startswith("2 would be added, 2 already there, 1 would be refused\n")
    assert text.out.endswith(f"12 pictures in {store}\n")
    real = diptych(*arguments, "--json")
    assert dry.code == text.code == real.code == 0
    assert diptych(*arguments, "--strict").code == 1
    assert {key: dry.json[key] for key in ("added", "already", "refused")} == {
        key: real.json[key] for key in ("added", "already", "refused")
    }
    assert [entry["new"] for entry in dry.json["dry_run"]] == [True, True, False]
    assert {entry["id"] for entry in dry.json["dry_run"]} <= {record.id for record in _records(store)}
    assert "dry_run" not in real.json


def test_of_many_refusals_twenty_are_shown_and_json_has_all(diptych, store, model, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(23):
        (folder / f"{number:02d}.jpg").write_text("text")
    arguments = ("index", "add", folder, "--store", store, *model)
    text = diptych(*arguments)
    assert text.code == 1
    assert text.out.count("is not in a format that can be read") == 20
    assert "  and 3 more (--json lists all)\n" in text.out
    assert len(diptych(*arguments, "--json").json["refused"]) == 23


def test_a_new_collection_keeps_the_model_that_it_was_filled_by_if_only_its_path_tells_it(
    diptych, gallery, tmp_path, artifact
):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", artifact, "--threads", 1).code == 0
    stats = diptych("index", "stats", "--store", store).out
    assert f"  model     {artifact.name} (" in stats
    assert f"  adopted   {artifact}\n" in stats
    picture = next(path for path in gallery.rglob("*") if path.is_file())
    found = diptych("search", picture, "--store", store, "--threads", 1)
    assert found.code == 0, found.err
    other = tmp_path / "other"
    assert diptych("index", "sync", gallery, "--store", other, "--model", artifact, "--threads", 1).code == 0
    assert diptych("search", picture, "--store", other, "--threads", 1).code == 0
