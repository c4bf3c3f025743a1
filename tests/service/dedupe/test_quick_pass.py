"""`--method phash` and `find_duplicates(..., method="phash")`: no model, the same table, and every act."""

import csv
import io
import re
import shutil
import sqlite3
from pathlib import Path

import pytest
from PIL import Image

from diptych import find_duplicates
from diptych.dedupe import hashes as scan
from diptych.errors import StoreError
from diptych_runtime.runtime import Runtime


@pytest.fixture(autouse=True)
def no_model(monkeypatch, tmp_path):
    monkeypatch.setattr(Runtime, "open", lambda *_, **__: pytest.fail("a model was loaded"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def hashed(diptych, photos, photo_bytes):
    """`hashed(...)` runs the command on six files of three contents, and one that was saved again."""
    picture = Image.open(io.BytesIO(photo_bytes(3)))
    picture.save(photos / "b" / "3 saved again.jpg", quality=40)
    return lambda *words: diptych("dedupe", photos, "--method", "phash", "--threads", 1, *words)


def rows(path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_it_finds_exact_copies_as_the_same_and_what_was_saved_again_as_likely(hashed, photos, tmp_path):
    found = hashed("-o", tmp_path / "g.csv", "--report", tmp_path / "r.html")
    assert (
        "7 pictures: 7 new, 0 changed, 0 gone\ncompared by digest and perceptual hash, of which at most 4 of"
        in found.err
    )
    assert re.search(
        r"^3 groups; 3 exact copies can be removed, [\d.]+ kB; 1 more picture to be looked at, which only a hash takes "
        "for a copy$",
        found.out,
        re.M,
    )
    table = rows(tmp_path / "g.csv")
    told = {(row["verdict"], row["method"]) for row in table if row["goes"] == "1"}
    left = [(row["verdict"], row["method"], row["kept_because"]) for row in table if "saved again" in row["path"]]
    assert told == {("same", "digest")}
    assert left == [("likely", "phash", "only a hash takes it for a copy")]
    assert '"told_by":"By digest and perceptual hash, at most 4 of 64 bits apart"' in (tmp_path / "r.html").read_text()
    assert (tmp_path / "cache" / "diptych" / "dedupe").is_dir()
    for number, colour in enumerate(("white", "black")):
        Image.new("RGB", (80, 60), colour).save(photos / f"{number}.png")
    (photos / "cut.jpg").write_bytes((photos / "a/1.jpg").read_bytes()[:300])
    plain = hashed()
    assert "2 pictures too plain to be hashed, of which only exact copies match" in plain.err
    assert f"{photos}/cut.jpg is damaged" in plain.out


def test_a_second_run_reads_no_file_and_finds_the_same(hashed, photos, tmp_path, monkeypatch):
    first = hashed("--json", "-o", tmp_path / "1.csv").json
    monkeypatch.setattr("diptych.dedupe.scan.read_file", lambda *_, **__: pytest.fail("a file was read"))
    again = hashed("--json", "-o", tmp_path / "2.csv").json
    assert (first["new"], again["new"], again["method"], again["max_distance"]) == (7, 0, "phash", 4)
    assert (tmp_path / "1.csv").read_text() == (tmp_path / "2.csv").read_text()
    (photos / "b/2.jpg").rename(photos / "moved.jpg")
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(scan, "reduce_picture", lambda *_, **__: pytest.fail("a content was decoded again"))
    assert hashed("--json").json["groups"] == 3


def test_acts_and_references_are_those_of_the_network(hashed, photos, diptych, tmp_path, bytes_of):
    before = bytes_of(photos)
    hashed("-o", tmp_path / "groups.csv")
    going = [row for row in rows(tmp_path / "groups.csv") if row["goes"] == "1" or "saved again" in row["path"]]
    (tmp_path / "seen.txt").write_text("".join(f"{row['path']}\n" for row in going))
    done = hashed("--delete", "--selection", tmp_path / "seen.txt", "--json").json
    assert (done["done"], done["act"]) == (4, "delete")
    assert diptych("dedupe", "--undo", done["journal"]).code == 0
    assert {name: data for name, data in bytes_of(photos).items() if "trash" not in name} == before
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "2.jpg").write_bytes((photos / "a/2.jpg").read_bytes())
    found = diptych("dedupe", tmp_path / "new", "--reference", photos, "--method", "phash", "--json").json
    assert (found["could_go"], found["groups"], found["references"]) == (1, 1, 7)


def test_what_only_a_hash_takes_for_a_copy_goes_by_a_selection_alone(hashed, photos, bytes_of, monkeypatch):
    before = bytes_of(photos)
    monkeypatch.chdir(photos)
    assert f" -> {photos.parent / 'out'}/" in hashed("--move-to", "../out", "--dry-run").out, "without steps up"
    done = hashed("--delete")
    gone = before.keys() - bytes_of(photos).keys()
    kept = {content for name, content in before.items() if name not in gone}
    assert gone
    assert {before[name] for name in gone} <= kept
    said = "left alone that only a hash takes for a copy: look at the --report"
    assert (done.code, f"{4 - len(gone)} picture" in done.out, said in done.out) == (0, True, True)


@pytest.mark.parametrize("change", ["hashes SET phash='abc'", "files SET width='x'", "files SET id=7"])
def test_a_table_with_other_values_is_one_error_that_says_what_to_do(hashed, photos, tmp_path, change):
    hashed("--store", tmp_path / "store")
    table = change.split()[0]
    database = sqlite3.connect(tmp_path / "store" / "dedupe.sqlite")
    with database:
        database.execute(f"UPDATE {change} WHERE id IN (SELECT id FROM {table} LIMIT 1)")
    database.close()
    failed = hashed("--store", tmp_path / "store")
    assert failed.code == 1
    said = rf"error: \S+dedupe.sqlite is damaged: its table {table} has values .*; delete it: the next run computes"
    assert re.search(said, failed.err)
    (tmp_path / "store" / "dedupe.sqlite").unlink()
    assert hashed("--store", tmp_path / "store").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--threshold", "0.9"), "threshold is for the method network; phash has max_distance alone"),
        (("--engine", "ray"), "engine is for the method network"),
        (("--max-distance", "11"), "at most 10, got 11"),
        (("--method", "network", "--max-distance", "4"), "max_distance is for the method phash"),
    ],
)
def test_options_of_the_other_method_are_wrong_usage(hashed, words, said):
    refused = hashed(*words)
    assert (refused.code, said in refused.err) == (2, True)


def test_find_duplicates_takes_the_method_too(hashed, photos, tmp_path):
    found = find_duplicates(photos, method="phash", max_distance=4, store=tmp_path / "store")
    assert [str(photos / name) in found.to_remove for name in ("b/1 again.jpg", "b/3 saved again.jpg")] == [True, False]
    assert (len(found.to_remove), found.undecided) == (3, 1)
    assert found[str(photos / "a/3.jpg")] == [str(photos / "b/3 saved again.jpg")]
    with pytest.raises(ValueError, match="threshold and question are for the method network; phash has max_distance"):
        find_duplicates(photos, method="phash", threshold=0.9, question="thing")
    with scan.kept_hashes(tmp_path / "store"), pytest.raises(StoreError, match="is being written by process"):
        find_duplicates(photos, method="phash", store=tmp_path / "store")
    with pytest.raises(ValueError, match=r"0 to 10 bits, a whole number, got 2\.5"):
        find_duplicates(photos, method="phash", max_distance=2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_distance is for the method phash"):
        find_duplicates(photos, max_distance=4)
    with pytest.raises(ValueError, match="method must be one of network, phash, got 'dhash'"):
        find_duplicates(photos, method="dhash")  # type: ignore[arg-type]


def test_a_selection_leaves_each_copy_beside_one_with_its_own_bytes(hashed, photos, tmp_path):
    first = photos / "b" / "3 saved again.jpg"
    twins = [Path(shutil.copy(first, first.with_name(f"3 saved again {number}.jpg"))) for number in (2, 3)]
    (tmp_path / "seen.txt").write_text("".join(f"{twin}\n" for twin in twins))
    would = hashed("--delete", "--selection", tmp_path / "seen.txt", "--dry-run").out
    assert would.count(f"(kept: {first})") == 2
