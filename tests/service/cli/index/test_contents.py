"""`diptych index list`, `stats`, `verify` and `remove`."""

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from embedded import BEFORE_5

from diptych_runtime.own_calibration import CALIBRATION, OwnCalibration, OwnQuestion, released_digest


@pytest.fixture
def of_13(collection, photo_bytes) -> Path:
    """The folder of a collection of 13 pictures, the last of which has no path."""
    collection.add(photo_bytes(30, (50, 40)), metadata={"label": "shoe"}, keep_originals=True)
    collection.close()
    return collection.directory


def test_the_pictures_are_listed_in_the_order_in_which_they_were_added(diptych, of_13, gallery):
    listed = diptych("index", "list", "--store", of_13)
    header, *lines = listed.out.splitlines()
    assert (listed.code, header.split()) == (0, ["id", "pixels", "added", "path"])
    assert [line.split()[-1] for line in lines] == [*map(str, sorted(gallery.rglob("*.jpg"))), "-"]
    assert "50 x 40" in lines[-1]
    found = diptych("index", "list", "--store", of_13, "--json").json
    assert [picture["id"] for picture in found["pictures"]] == [line.split()[0] for line in lines]
    assert (found["total"], found["pictures"][-1]["metadata"]) == (13, {"label": "shoe"})


def test_a_list_can_be_limited_to_folders_and_filtered(diptych, of_13, gallery):
    assert len(diptych("index", "list", "--store", of_13, "--limit", 2).out.splitlines()) == 3
    found = diptych("index", "list", "--store", of_13, "--filter", '{"label": "shoe"}', "--json").json
    assert ([picture["path"] for picture in found["pictures"]], found["total"]) == ([None], 13)
    (one,) = diptych("index", "list", gallery / "01.jpg", "--store", of_13, "--json").json["pictures"]
    assert one["path"] == str(gallery / "01.jpg")
    assert len(diptych("index", "list", gallery, "--limit", 5, "--store", of_13, "--json").json["pictures"]) == 5
    assert diptych("index", "list", gallery / "0", "--store", of_13, "--json").json["pictures"] == []
    none = diptych("index", "list", "--store", of_13, "--filter", '{"label": "boot"}')
    assert (none.code, none.out) == (0, "")
    assert f"0 of 13 pictures in {of_13}" in none.err


def test_what_is_named_is_removed_once_and_what_is_unknown_is_said_and_files_are_left_alone(
    diptych, store, gallery, monkeypatch
):
    monkeypatch.chdir(gallery)
    (two,) = diptych("index", "list", gallery / "02.jpg", "--store", store, "--json").json["pictures"]
    names = (two["id"], "./more", gallery / "more/00.jpg", "more", "01.jpg")
    removed = diptych("index", "remove", *names, "--store", store)
    assert (removed.code, removed.out, removed.err) == (0, "6 removed, 6 pictures left\n", "")
    names = ("0" * 32, gallery / "01.jpg", "caf\udce9.jpg", gallery / "04.jpg")
    again = diptych("index", "remove", *names, "--store", store)
    assert (again.code, again.out) == (1, "1 removed, 5 pictures left\n")
    assert again.err.endswith(f"has nothing under {'0' * 32}, {gallery / '01.jpg'}, caf\\udce9.jpg\n")
    last = diptych("index", "remove", *names, "--store", store, "--json")
    assert (last.code, last.json) == (1, {"removed": 0, "unknown": [str(name) for name in names], "total": 5})
    assert (gallery / "01.jpg").exists()


def test_verify_exits_with_1_on_damage(diptych, store):
    with sqlite3.connect(store / "collection.sqlite") as connection:
        connection.execute("UPDATE pictures SET embedding=zeroblob(length(embedding)) WHERE row=2")
    connection.close()
    result = diptych("index", "verify", "--store", store, "--json")
    assert (result.code, result.json["healthy"], len(result.json["problems"])) == (1, False, 1)
    shown = diptych("index", "verify", "--store", store).out
    assert shown.startswith("1 problem in 12 pictures\n")
    assert f"`diptych index rebuild --store {store}` mends what the files still allow" in shown


def test_verify_names_files_that_changed_or_are_missing(diptych, store, gallery, photo_bytes):
    def verify(*words: object) -> tuple[int, list[str], list[str]]:
        found = diptych("index", "verify", "--store", store, *words, "--json")
        assert found.json["healthy"], "the collection itself is whole"
        return found.code, found.json["files"]["changed"], found.json["files"]["missing"]

    one, two, three, four = (gallery / f"{number:02d}.jpg" for number in (1, 2, 4, 5))
    assert verify() == verify("--checksum") == (0, [], [])
    os.utime(one)  # with the same content it is the same picture
    two.unlink()
    assert verify() == (0, [], [str(two)])
    three.write_bytes(photo_bytes(40))
    assert verify() == (1, [str(three)], [str(two)])
    before = four.stat()
    four.write_bytes(four.read_bytes()[:-1] + b"x")
    os.utime(four, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert verify() == (1, [str(three)], [str(two)]), "its size and time say nothing"
    assert verify("--checksum") == (1, [str(three), str(four)], [str(two)])
    shown = diptych("index", "verify", "--store", store)
    assert (shown.code, "no problem found" in shown.out) == (1, False)
    assert f"1 file changed after adding, which searches do not know:\n  {three}\n" in shown.out
    assert f"1 file missing or unreadable:\n  {two}\n" in shown.out


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


def test_stats_name_the_model_that_the_pictures_are_of(diptych, store, monkeypatch, artifact):
    (revision,) = diptych("index", "stats", "--store", store, "--json").json["revisions"]
    assert f"  model     not here by name ({revision}), " in diptych("index", "stats", "--store", store).out
    monkeypatch.setenv("DIPTYCH_MODELS", str(artifact.parent))
    assert f"  model     {artifact.name} ({revision}), " in diptych("index", "stats", "--store", store).out
    assert diptych("index", "stats", "--store", store, "--json").json["models"] == {revision: artifact.name}


def test_stats_name_the_calibration_in_force_and_why_one_is_not(diptych, store, scorer, artifact, monkeypatch):
    def calibration() -> dict:
        return diptych("index", "stats", "--store", store, "--json").json["calibration"]

    assert "  verdicts  as released\n" in diptych("index", "stats", "--store", store).out
    manifest = scorer.runtime.released
    own = OwnQuestion(0.5, -1.0, {"0.01": 0.6}, same=30, different=40)
    made = OwnCalibration("tiny", manifest.revision, released_digest(manifest), "2026-11-25", {"match": own})
    made.save(store / CALIBRATION)
    monkeypatch.setenv("DIPTYCH_MODELS", str(artifact.parent))
    assert "own calibration of 2026-11-25\n" in diptych("index", "stats", "--store", store).out
    assert (calibration()["in_force"], calibration()["questions"]) == (True, {"match": {"same": 30, "different": 40}})
    for other in (replace(made, revision="0" * 12), replace(made, released="0" * 12)):
        other.save(store / CALIBRATION)
        assert not calibration()["in_force"]
        assert "was made over another model" in diptych("index", "stats", "--store", store).out
    replace(made, questions={"hat": own}).save(store / CALIBRATION)
    assert (calibration()["in_force"], "the question 'hat', which the model" in calibration()["error"]) == (False, True)
    (store / CALIBRATION).write_text("{")
    assert "cannot be read as JSON" in diptych("index", "stats", "--store", store).out
