import itertools
import json
import os
import re
import sqlite3
import tempfile
from pathlib import Path

import pytest
from embedded import BEFORE_5

from diptych import Collection
from diptych.pictures.walk import TRASH
from diptych.store.index.cache import digest
from diptych.store.records import Record
from diptych.store.sqlite import rebuild as rebuilding
from diptych.store.sqlite.database import Store
from diptych_runtime.models import models_by_name


@pytest.fixture
def model(artifact):
    return ("--model", artifact, "--threads", 1)


@pytest.fixture
def store(collection) -> Path:
    """The folder of a collection of the gallery's 12 pictures that nobody has open."""
    collection.close()
    return collection.directory


def _bytes(store: Path) -> dict[str, bytes]:
    """What is in every file but SQLite's shared memory, which every reader has, and its log while it is empty."""
    found = {path.name: path.read_bytes() for path in store.iterdir() if not path.name.endswith("-shm")}
    return {name: data for name, data in found.items() if data or not name.endswith("-wal")}


def _records(store: Path) -> list[Record]:
    with Store.open(store, read_only=True) as opened:
        return opened.page(100)


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
    for text, words in (("path,label\n01.jpg,x\n", "names none of the pictures, but"), ("label\nx\n", "has no column")):
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


def test_a_dry_run_makes_no_collection_where_there_is_none(diptych, model, tmp_path, gallery):
    dry = diptych("index", "add", gallery, "--store", tmp_path / "none", *model, "--dry-run", "--json")
    assert (dry.code, dry.json["added"], dry.json["total"]) == (0, 12, 0)
    assert not (tmp_path / "none").exists()


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


def test_what_is_named_twice_is_removed_once_and_was_there(diptych, store, gallery):
    twice = ("index", "remove", gallery / "more", gallery / "more" / "00.jpg", gallery / "more", gallery / "01.jpg")
    result = diptych(*twice, "--store", store)
    assert (result.code, result.out, result.err) == (0, "5 removed, 7 pictures left\n", "")


def test_what_is_unknown_is_named_and_the_rest_is_removed_all_the_same(diptych, store, gallery):
    names = ("0" * 32, gallery / "01.jpg", gallery / "none")
    result = diptych("index", "remove", *names, "--store", store)
    assert (result.code, result.out) == (1, "1 removed, 11 pictures left\n")
    assert result.err.endswith(f"has nothing under {'0' * 32}, {gallery / 'none'}\n")
    again = diptych("index", "remove", *names, "--store", store, "--json")
    assert (again.code, again.json["removed"], again.json["total"]) == (1, 0, 11)
    assert again.json["unknown"] == [str(name) for name in names]
    assert (gallery / "01.jpg").exists(), "files are left alone"


def test_a_name_that_is_not_utf_8_is_unknown_like_any_other(diptych, store):
    result = diptych("index", "remove", "caf\udce9.jpg", "--store", store, "--json")
    assert (result.code, result.json["removed"], result.json["total"]) == (1, 0, 12)


def test_a_relative_path_names_what_was_added_under_an_absolute_one(diptych, store, gallery, monkeypatch):
    monkeypatch.chdir(gallery)
    assert diptych("index", "remove", "01.jpg", "./more", "--store", store).out == "5 removed, 7 pictures left\n"


def test_a_verified_cache_of_another_state_is_noted_and_the_collection_is_healthy(diptych, store, scorer, gallery):
    cache = {name: (store / name).read_bytes() for name in ("candidates.json", "candidates.faiss")}
    with Collection.open(store, scorer) as collection:
        collection.remove(collection.list(1)[0].id)
    for name, data in cache.items():
        (store / name).write_bytes(data)
    assert diptych("index", "verify", "--store", store).out == (
        "11 pictures checked, no problem found\n  note: index cache: 1 change behind, replayed when it is opened\n"
    )
    manifest = json.loads(cache["candidates.json"]) | {"generation": 99}
    manifest["sha256"] = digest(store, manifest)
    (store / "candidates.json").write_text(json.dumps(manifest))
    ahead = diptych("index", "verify", "--store", store)
    assert ahead.code == 0
    assert "another state of the database" in ahead.out


def test_the_index_is_of_the_kind_that_was_asked_for_until_another_one_is(diptych, store, model, scorer):
    def kind() -> dict:
        return diptych("index", "stats", "--store", store, "--json").json["index"]

    assert (kind()["asked"], kind()["kind"]) == ("auto", "exact")
    assert "  index     exact\n" in diptych("index", "stats", "--store", store).out
    assert diptych("index", "rebuild", "--store", store, "--index", "ivf", *model).code == 0
    assert (kind()["asked"], kind()["kind"], kind()["lists"]) == ("ivf", "ivf", 4)
    shown = diptych("index", "stats", "--store", store).out
    assert re.search(
        r"index     ivf, 4 lists, [\d.]+% of the exact candidates when it was made \(ivf asked for\)", shown
    )
    assert "the index finds" in diptych("index", "verify", "--store", store).out
    assert diptych("index", "rebuild", "--store", store, *model).code == 0
    (store / "candidates.faiss").unlink()
    with Collection.open(store, scorer):
        pass
    assert (kind()["asked"], kind()["kind"]) == ("ivf", "ivf"), "it outlives the cache"
    assert diptych("doctor", "--store", store, *model, "--json").json["store"]["index"]["measured_recall"] > 0.8
    assert diptych("index", "rebuild", "--store", store, "--index", "auto", *model).code == 0
    assert (kind()["asked"], kind()["kind"]) == ("auto", "exact")


def test_a_collection_that_one_model_here_embedded_is_opened_with_it_unnamed(diptych, gallery, tmp_path):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", "omniglot", "--threads", 1).code == 0
    picture = str(_records(store)[0].path)
    for words in (("search", picture), ("index", "rebuild"), ("index", "add", gallery)):
        done = diptych(*words, "--store", store, "--threads", 1)
        assert done.code == 0, done.err
    assert {record.revision for record in _records(store)} == {models_by_name()["omniglot"].revision}
    Path(picture).unlink()
    changed = diptych("index", "rebuild", "--store", store, "--model", "photo", "--threads", 1)
    assert changed.code == 1
    assert re.match(r"11 pictures embedded again by photo \(\w+\), 11 in the index\n", changed.out)
    assert (
        "1 picture still of another model: put their files back or use --drop-missing, and run this again"
        in changed.out
    )
    mixed = diptych("search", _records(store)[1].path, "--store", store, "--threads", 1)
    assert mixed.code == 1
    assert "1 of the 12 pictures in" in mixed.err
    assert "or the same with --model omniglot; with --drop-missing it removes those whose files are gone" in mixed.err
    assert diptych("index", "rebuild", "--store", store, "--drop-missing", "--threads", 1).code == 0
    assert diptych("search", _records(store)[1].path, "--store", store, "--threads", 1).code == 0


def test_an_interrupted_change_of_model_goes_on_without_a_name(diptych, gallery, tmp_path, monkeypatch):
    store = tmp_path / "store"
    assert diptych("index", "add", gallery, "--store", store, "--model", "omniglot", "--threads", 1).code == 0
    with monkeypatch.context() as during:
        during.setattr(rebuilding, "BATCH", 4)
        during.setattr(Store, "replace_features", _first_batch_alone(Store.replace_features))
        assert diptych("index", "rebuild", "--store", store, "--model", "photo-small", "--threads", 1).code == 130
    assert len({record.revision for record in _records(store)}) == 2
    verified = diptych("index", "verify", "--store", store)
    assert "embedded by several models: omniglot (8), photo-small (4); `diptych index rebuild` brings" in verified.out
    assert diptych("index", "rebuild", "--store", store, "--threads", 1).code == 0
    assert {record.revision for record in _records(store)} == {models_by_name()["photo-small"].revision}


def _first_batch_alone(replace):
    done = []

    def replaced(*words):
        if done:
            raise KeyboardInterrupt
        done.append(replace(*words))

    return replaced


@pytest.mark.parametrize("revisions", [["0123456789ab"], ["0123456789ab", "fedcba987654"]])
def test_pictures_of_a_model_that_is_not_here_are_not_embedded_by_one_that_nobody_named(diptych, store, revisions):
    with Store.open(store) as opened:
        for record, revision in zip(opened.page(100), itertools.cycle(revisions)):
            opened.replace_features([(record.id, *_features(opened, record.id))], revision)
    before = _records(store)
    refused = diptych("index", "rebuild", "--store", store)
    assert refused.code == 2
    assert "name the model to embed them with (--model NAME)" in refused.err
    assert f"0123456789ab ({12 // len(revisions)}, none of the models here)" in refused.err
    assert _records(store) == before


def test_pictures_of_an_earlier_release_are_embedded_by_the_present_one_without_its_name(diptych, store):
    with Store.open(store) as opened:
        for record in opened.page(100):
            opened.replace_features([(record.id, *_features(opened, record.id))], "890d5beb348c")
    told = diptych("index", "stats", "--store", store)
    assert "  model     an earlier release of photo (890d5beb348c), 12 pictures" in told.out
    remark = "890d5beb348c (an earlier release of photo); nothing can be searched until `diptych index rebuild`"
    for words in (("index", "verify"), ("doctor",)):
        assert remark in diptych(*words, "--store", store).out
    made = diptych("index", "rebuild", "--store", store)
    assert made.code == 0, made.err
    with Store.open(store) as opened:
        assert list(opened.revisions()) == [models_by_name()["photo"].revision]


def _features(store: Store, id: str) -> tuple[bytes, bytes]:
    tokens, embedding = store.panels([id])[id]
    return embedding, tokens


def test_verify_names_files_that_changed_or_are_missing(diptych, store, gallery, photo_bytes):
    def verified(*words: object) -> tuple[int, list[str], list[str]]:
        found = diptych("index", "verify", "--store", store, *words, "--json")
        assert found.json["healthy"], "the collection itself is whole"
        return found.code, found.json["files"]["changed"], found.json["files"]["missing"]

    one, two, three, four = (gallery / f"{number:02d}.jpg" for number in (1, 2, 4, 5))
    assert verified() == verified("--checksum") == (0, [], [])
    os.utime(one)  # with the same content it is the same picture
    two.unlink()
    assert verified() == (0, [], [str(two)])
    three.write_bytes(photo_bytes(40))
    assert verified() == (1, [str(three)], [str(two)])
    before = four.stat()
    four.write_bytes(four.read_bytes()[:-1] + b"x")
    os.utime(four, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert verified() == (1, [str(three)], [str(two)]), "its size and time say nothing"
    assert verified("--checksum") == (1, [str(three), str(four)], [str(two)])
    shown = diptych("index", "verify", "--store", store)
    assert (shown.code, "no problem found" in shown.out) == (1, False)
    assert f"1 file changed since it was added:\n  {three}\n" in shown.out
    assert f"1 file missing or unreadable:\n  {two}\n" in shown.out
    assert "diptych index sync" in shown.out


def test_files_of_an_earlier_versions_collection_are_compared_by_digest(diptych, store, gallery, photo_bytes):
    with sqlite3.connect(store / "collection.sqlite") as connection:
        connection.executescript(f"{BEFORE_5} PRAGMA user_version=4;")
    connection.close()
    assert diptych("index", "verify", "--store", store).code == 0
    (gallery / "01.jpg").write_bytes(photo_bytes(40))
    assert diptych("index", "verify", "--store", store, "--json").json["files"]["changed"] == [str(gallery / "01.jpg")]


def test_frames_are_listed_and_what_is_damaged_is_named(diptych, model, tmp_path, photo, photo_bytes):
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    photo(0).save(shelf / "film.gif", save_all=True, append_images=[photo(1), photo(2)])
    whole = photo_bytes(1, (400, 300))
    (shelf / "cut.jpg").write_bytes(whole[:-2000] + bytes(1998) + whole[-2:])
    added = diptych("index", "add", shelf, "--store", tmp_path / "store", *model)
    assert added.code == 0
    assert f"{shelf / 'cut.jpg'} is damaged" in added.err
    assert "film.gif is" not in added.err
    listed = diptych("index", "list", "--store", tmp_path / "store", "--json").json["pictures"]
    assert {Path(one["path"]).name: one["frames"] for one in listed} == {"film.gif": 3, "cut.jpg": 1}
    assert "x 3" in diptych("index", "list", shelf / "film.gif", "--store", tmp_path / "store").out
