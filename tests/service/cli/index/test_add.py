"""`diptych index add`."""

import os
import tempfile
from pathlib import Path

from folders import records

from diptych.pictures.walk import TRASH


def _bytes(store: Path) -> dict[str, bytes]:
    """What is in every file but SQLite's shared memory, which every reader has, and its log while it is empty."""
    found = {path.name: path.read_bytes() for path in store.iterdir() if not path.name.endswith("-shm")}
    return {name: data for name, data in found.items() if data or not name.endswith("-wal")}


def test_folders_files_and_standard_input_are_added_and_what_cannot_be_read_is_named(
    diptych, gallery, model, tmp_path, bad_pictures, stdin, photo_bytes
):
    store = ("--store", tmp_path / "store", *model)
    first = diptych("index", "add", gallery, *bad_pictures.values(), *store)
    assert (first.code, "12 added, 0 already there, 6 refused\n" in first.out) == (1, True)
    assert all(path.name in first.out for path in bad_pictures.values())
    second = diptych("index", "add", gallery, *bad_pictures.values(), *store, "--json").json
    assert (second["added"], second["already"], second["total"]) == (0, 12, 12)
    assert [entry["path"] for entry in second["refused"]] == [str(path) for path in bad_pictures.values()]
    # One unreadable file among others is an error only if that is asked for.
    text = bad_pictures["text"]
    assert diptych("index", "add", gallery, text, *store).code == 0
    assert diptych("index", "add", gallery, text, "--strict", *store).code == 1
    assert diptych("index", "add", text, *store).code == 1
    stdin(photo_bytes(77))
    assert diptych("index", "add", "-", *store, "--json").json["added"] == 1
    assert diptych("index", "stats", "--store", tmp_path / "store", "--json").json["kept"] == 1


def test_adding_needs_no_folder_for_temporary_files(diptych, model, gallery, tmp_path, monkeypatch):
    for command in ("add", "sync"):
        with monkeypatch.context() as during:
            during.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
            done = diptych("index", command, gallery, "--store", tmp_path / command, *model)
        assert (done.code, len(records(tmp_path / command))) == (0, 12), done.err


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
    found = diptych(*arguments, "--json").json["skipped"]
    assert {entry["ending"]: entry["files"] for entry in found} == {".cr2": 2, ".mp4": 1, "": 1}


def test_what_dedupe_put_aside_is_not_added(diptych, model, gallery, tmp_path):
    (gallery / TRASH / "1").mkdir(parents=True)
    (gallery / "01.jpg").rename(gallery / TRASH / "1" / "01.jpg")
    before = diptych("index", "add", gallery, "--store", tmp_path / "store", *model, "--json").json
    assert (before["added"], before["refused"]) == (11, [])
    named = diptych("index", "add", gallery / TRASH / "1", "--store", tmp_path / "store", *model, "--json").json
    assert named["added"] == 1


def test_a_store_among_pictures_is_remarked_upon_and_an_empty_folder_makes_an_empty_one(
    diptych, model, gallery, tmp_path
):
    result = diptych("index", "add", gallery, "--store", gallery, *model)
    assert result.code == 0
    assert f"{gallery} holds what is not Diptych's: 01.jpg, 02.jpg" in result.err
    (tmp_path / "empty").mkdir()
    result = diptych("index", "add", tmp_path / "empty", "--store", tmp_path / "store", *model)
    assert result.code == 0
    assert result.err.endswith(f".webp) in {tmp_path / 'empty'}\n")
    assert result.out == f"0 added, 0 already there, 0 refused\n0 pictures in {tmp_path / 'store'}\n"


def test_a_table_gives_each_picture_its_metadata_and_names_what_is_not_there(diptych, store, model, gallery, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text(f"path,label,price\n{gallery}/01.jpg,shoe,20\n{gallery}/02.jpg,,3.5\n/nowhere/x.jpg,boot,1\n")
    dry = diptych("index", "add", gallery, "--store", store, "--metadata", table, "--dry-run", *model)
    assert (dry.code, {str(record.metadata) for record in records(store)}) == (0, {"{}"})
    added = diptych("index", "add", gallery, "--store", store, "--metadata", table, *model)
    assert (added.code, f"1 line of {table} without a picture among these:\n  /nowhere/x.jpg\n" in added.out) == (
        0,
        True,
    )
    kept = {record.path: record.metadata for record in records(store)}
    assert kept.pop(f"{gallery}/01.jpg") == {"label": "shoe", "price": 20}
    assert kept.pop(f"{gallery}/02.jpg") == {"price": 3.5}
    assert set(map(str, kept.values())) == {"{}"}
    exported = tmp_path / "all.jsonl"
    diptych("index", "export", "-o", exported, "--store", store)
    again = diptych("index", "add", gallery, "--store", tmp_path / "again", "--metadata", exported, *model, "--json")
    assert (again.code, again.json["metadata_without_picture"]) == (0, [])
    assert {record.path: record.metadata for record in records(tmp_path / "again")} == {
        record.path: record.metadata for record in records(store)
    }


def test_a_table_that_is_wrong_or_of_other_pictures_adds_nothing(diptych, model, gallery, tmp_path):
    table = tmp_path / "table.csv"
    for text, words in (
        ("path,label\n01.jpg,x\n", "names none of the pictures, but"),
        ("label\nx\n", "path or file_name among them"),
        (None, "table.csv: No such file"),
    ):
        table.unlink(missing_ok=True)
        if text:
            table.write_text(text)
        refused = diptych("index", "add", gallery, "--store", tmp_path / "new", "--metadata", table, *model)
        assert (refused.code, words in refused.err, (tmp_path / "new").exists()) == (1, True, False)


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
    assert {entry["id"] for entry in dry.json["dry_run"]} <= {record.id for record in records(store)}
    assert "dry_run" not in real.json


def test_of_many_refusals_twenty_are_shown_and_json_has_all(diptych, store, model, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(23):
        (folder / f"{number:02d}.jpg").write_text("text")
    text = diptych("index", "add", folder, "--store", store, *model)
    assert (text.code, text.out.count("is not in a format that can be read")) == (1, 20)
    assert "  and 3 more (--json lists all)\n" in text.out
    assert len(diptych("index", "add", folder, "--store", store, *model, "--json").json["refused"]) == 23


def test_a_new_collection_keeps_the_model_that_it_was_filled_by_if_only_its_path_tells_it(
    diptych, gallery, tmp_path, model, artifact
):
    for command in ("add", "sync"):
        assert diptych("index", command, gallery, "--store", tmp_path / command, *model).code == 0
        assert f"  adopted   {artifact}\n" in diptych("index", "stats", "--store", tmp_path / command).out
        found = diptych("search", gallery / "01.jpg", "--store", tmp_path / command, "--threads", 1)
        assert found.code == 0, found.err
