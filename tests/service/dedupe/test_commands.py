import csv
import json
import re
import resource
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image, ImageOps
from typed import parsed

from diptych.bench.demo.collection import draw_scenes
from diptych.cli.dedupe import search_lines
from diptych.collection.collection import Collection
from diptych.dedupe.candidates import CANDIDATES
from diptych.dedupe.keeper import DEFAULT
from diptych.dedupe.scan import scan_files
from diptych.pictures.walk import TRASH

ORIGINALS = {"a/1.jpg", "a/2.jpg", "a/3.jpg"}


def test_the_command_line_has_the_defaults_of_the_library():
    typed = parsed("dedupe", "photos")
    assert (typed["candidates"], tuple(typed["keep"]), typed["threshold"]) == (CANDIDATES, DEFAULT, None)


def test_it_says_what_could_go_and_touches_nothing(dedupe, photos, tmp_path, bytes_of):
    before = bytes_of(photos)
    found = dedupe(photos, "--report", tmp_path / "r.html", "-o", tmp_path / "g.json")
    assert found.code == 0
    assert "6 pictures: 6 new, 0 changed, 0 gone\n" in found.err
    assert "2 groups; 3 pictures can be removed (3 exact copies), " in found.out
    assert f"report: {tmp_path}/r.html\n" in found.out
    assert "nothing was moved or deleted" in found.err
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert len(json.loads((tmp_path / "g.json").read_text())["rows"]) == 5
    assert bytes_of(photos) == before
    quiet = dedupe(photos, "--quiet")
    assert (quiet.out, quiet.err) == (found.out.splitlines(keepends=True)[0], ""), "all else is a remark"


def test_a_run_on_a_grown_folder_gives_what_one_from_nothing_does(
    dedupe, diptych, photos, tmp_path, artifact, photo_bytes
):
    dedupe(photos, threshold=0.2)
    (photos / "a/3.jpg").unlink()
    (photos / "b/2.jpg").write_bytes(photo_bytes(8))
    (photos / "new.png").write_bytes(photo_bytes(1, format="PNG"))
    grown = dedupe(photos, "-o", tmp_path / "grown.csv", "--json", threshold=0.2)
    assert (grown.json["new"], grown.json["changed"], grown.json["gone"]) == (1, 1, 1)
    words = (photos, "--store", tmp_path / "other", "--model", artifact, "--threads", 1, "--threshold", 0.2)
    assert diptych("dedupe", *words, "-o", tmp_path / "fresh.csv").code == 0
    assert (tmp_path / "grown.csv").read_text() == (tmp_path / "fresh.csv").read_text()


def test_without_a_store_features_are_kept_in_the_users_cache_and_forgotten_with_their_files(
    diptych, photos, tmp_path, artifact, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = ("dedupe", photos, "--model", artifact, "--threads", 1, "--threshold", 1, "--json")
    assert diptych(*words).json["new"] == 6
    (photos / "a/3.jpg").unlink()
    assert diptych(*words).json["gone"] == 1
    (store,) = (tmp_path / "cache" / "diptych" / "dedupe").iterdir()
    assert diptych("index", "stats", "--store", store, "--json").json["pictures"] == 2
    turned = diptych("dedupe", photos / "b", photos, *words[2:])
    assert turned.json["new"] == 5, "other folders are another store"


def test_the_rules_of_the_keeper_are_the_users(dedupe, photos, tmp_path):
    def kept(*words) -> set[str]:
        assert dedupe(*words, "-o", tmp_path / "g.csv").code == 0
        with (tmp_path / "g.csv").open(newline="") as file:
            keepers = [Path(row["path"]) for row in csv.DictReader(file) if row["keeper"] == "1"]
        return {path.relative_to(photos).as_posix() for path in keepers}

    assert kept(photos) == {"a/1.jpg", "a/2.jpg"}
    assert kept(photos, "--keep", "newest") == {"b/c/1 once more.jpg", "b/2.jpg"}
    assert kept(photos / "b", photos / "a", "--keep", "first-dir,newest") == {"b/c/1 once more.jpg", "b/2.jpg"}
    refused = dedupe(photos, "--keep", "best")
    assert (refused.code, "first-dir, got 'best'" in refused.err.replace(" or ", ", ")) == (2, True)


@pytest.mark.parametrize("act", ["move", "delete"])
def test_an_act_can_be_undone_to_the_last_byte_and_undone_twice(dedupe, diptych, photos, tmp_path, bytes_of, act):
    before = bytes_of(photos)
    words = ("--move-to", tmp_path / "out") if act == "move" else ("--action", "delete")
    dry = dedupe(photos, *words, "--dry-run")
    assert re.search(r"^3 pictures \([\d.]+ kB\) would be ", dry.out, re.MULTILINE)
    assert bytes_of(photos) == before
    done = dedupe(photos, *words, "--json").json
    assert (done["done"], done["left"], done["act"]) == (3, [], act)
    assert {name for name in bytes_of(photos) if TRASH not in name} == ORIGINALS
    if act == "move":
        assert {name: data for name, data in bytes_of(tmp_path / "out").items() if name.endswith(".jpg")} == {
            name: data for name, data in before.items() if name not in ORIGINALS
        }
    assert dedupe(photos, "--json").json["groups"] == 0, "what was put aside is not found again"
    undone = diptych("dedupe", "--undo", done["journal"])
    assert (undone.code, undone.out) == (0, "3 pictures put back, 0 already in place\n")
    assert {name: data for name, data in bytes_of(photos).items() if TRASH not in name} == before
    assert diptych("dedupe", "--undo", done["journal"]).out == "0 pictures put back, 3 already in place\n"


def test_only_a_step_of_its_own_deletes_for_good(dedupe, diptych, photos, bytes_of):
    journal = dedupe(photos, "--delete", "--json").json["journal"]
    aside = bytes_of(photos)
    assert len(aside) == 3 + 3 + 1
    dry = diptych("dedupe", "--empty", journal, "--dry-run")
    assert dry.out.startswith("3 pictures would be deleted for good, 0 already deleted\n3 files would be deleted:\n  ")
    assert (dry.code, f"  {Path(journal).parent}/b/2.jpg\n" in dry.out, bytes_of(photos)) == (0, True, aside)
    assert diptych("dedupe", "--empty", journal).out == "3 pictures deleted for good, 0 already deleted\n"
    assert diptych("dedupe", "--empty", journal).out == "0 pictures deleted for good, 3 already deleted\n"
    assert bytes_of(photos).keys() == ORIGINALS | {str(Path(journal).relative_to(photos))}
    (photos / "b/2.jpg").write_bytes(b"another file of that name")
    assert diptych("dedupe", "--empty", journal).out == "0 pictures deleted for good, 3 already deleted\n"
    undone = diptych("dedupe", "--undo", journal)
    assert (undone.code, "\n3 files cannot be put back: deleted for good " in undone.out) == (1, True)
    assert str(photos / "b/2.jpg") in diptych("dedupe", "--undo", journal, "--json").json["lost"]


def test_what_goes_and_its_journal_are_said_before_it_goes_and_ctrl_c_once(
    dedupe, diptych, photos, tmp_path, monkeypatch
):
    result = dedupe(photos, "--move-to", tmp_path / "out")
    assert re.search(r"^3 pictures \([\d.]+ kB\) to be moved:$", result.err, re.MULTILINE)
    assert f"  {photos}/b/2.jpg -> {tmp_path}/out/b/2.jpg (kept: {photos}/a/2.jpg)\n" in result.err
    (undo,) = re.findall(r"^undo: diptych dedupe --undo (.*)$", result.out, re.MULTILINE)
    assert f"journal: {undo}\n" in result.err
    assert diptych("dedupe", "--undo", undo).code == 0

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("diptych.dedupe.actions.plan.move_file", interrupted)
    stopped = dedupe(photos, "--delete")
    assert (stopped.code, stopped.out, stopped.err.count("interrupted")) == (130, "", 1)
    assert re.search(r"interrupted; `diptych dedupe --undo \S+/journal.jsonl` puts back what was moved\n", stopped.err)


def test_unreadable_files_are_told_and_the_run_goes_on(dedupe, photos, bad_pictures):
    shutil.copytree(bad_pictures["empty"].parent, photos / "bad")
    result = dedupe(photos)
    assert result.code == 0
    assert "5 files or folders could not be read:\n" in result.out
    assert dedupe(photos, "--strict").code == 1
    assert "2 groups; 3 pictures can be removed" in result.out
    refused = {Path(entry["path"]).name for entry in dedupe(photos, "--json").json["refused"]}
    assert refused == {path.name for path in (photos / "bad").iterdir()}


@pytest.mark.parametrize("output", ["groups.csv", "report.html"])
def test_outputs_that_cannot_be_written_are_an_error_before_any_work(dedupe, photos, tmp_path, output):
    flag = "--report" if output.endswith("html") else "-o"
    result = dedupe(photos, flag, tmp_path / "none" / output)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert f"{output} cannot be written: {tmp_path}/none is no folder; make it first" in result.err
    assert not (tmp_path / "store").exists()


def test_a_folder_that_vanishes_midway_is_an_error_and_nothing_is_forgotten(dedupe, photos, tmp_path, monkeypatch):
    def vanish(*args, **words):
        found = scan_files(*args, **words)
        photos.rename(tmp_path / "elsewhere")
        return found

    monkeypatch.setattr("diptych.dedupe.folders.scan_files", vanish)
    result = dedupe(photos)
    assert (result.code, f"expected a folder of pictures, and {photos} does not exist" in result.err) == (1, True)
    monkeypatch.undo()
    (tmp_path / "elsewhere").rename(photos)
    assert dedupe(photos, "--json").json["new"] == 0


def test_ctrl_c_keeps_what_was_done_and_the_same_command_goes_on(dedupe, photos, monkeypatch):
    monkeypatch.setattr("diptych.collection.ingest.BATCH", 2)
    commit, calls = Collection.commit, []

    def interrupted(self, arrivals):
        calls.append(arrivals)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return commit(self, arrivals)

    monkeypatch.setattr(Collection, "commit", interrupted)
    result = dedupe(photos)
    assert (result.code, result.out) == (130, "")
    assert "what was done is kept, and the same command goes on from here" in result.err
    monkeypatch.setattr(Collection, "commit", commit)
    assert dedupe(photos, "--json").json["new"] == 4


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        ["photos", "--move-to", "out", "--delete"],
        ["photos", "--action", "move"],
        ["photos", "--action", "hardlink", "--move-to", "out"],
        ["photos", "--action", "hardlink", "--delete"],
        ["--reference", "photos", "--undo", "j.jsonl"],
        ["photos", "--action", "delete", "--empty", "j.jsonl"],
        ["photos", "--dry-run"],
        ["--undo", "j.jsonl", "--dry-run"],
        ["photos", "--selection", "list.txt"],
        ["photos", "-o", "groups.txt"],
        ["photos", "--threshold", "1.5"],
        ["photos", "--candidates", "0"],
    ],
)
def test_wrong_usage_exits_with_2(diptych, wrong):
    result = diptych("dedupe", *wrong)
    assert (result.code, result.out) == (2, "")
    assert "error: " in result.err.splitlines()[-1]


def test_names_with_line_ends_and_escapes_are_shown_as_one_line_and_can_be_selected(dedupe, photos, tmp_path):
    odd = photos / "b" / "1\nnothing was moved\x1b[2J.jpg"
    (photos / "b" / "1 again.jpg").rename(odd)
    (tmp_path / "list.txt").write_text(json.dumps(str(odd)) + "\n")
    moved = dedupe(photos, "--move-to", tmp_path / "out", "--selection", tmp_path / "list.txt")
    assert not odd.exists()
    assert rf"/b/1\nnothing was moved\x1b[2J.jpg -> {tmp_path}" in moved.err
    assert "\x1b" not in moved.err + moved.out
    assert "\nnothing was moved" not in moved.err + moved.out


def test_it_says_how_many_pairs_came_near_and_where_they_are_shown():
    found: Any = SimpleNamespace(
        method="network",
        question="thing",
        threshold=0.98,
        bound=0.9,
        alarm_rate=0.5,
        verdicts={"same": 0.99, "likely": 0.98},
        pairs=[("a", "b", 0.99), ("a", "c", 0.97)],
    )
    data = {"pictures": 9, "new": 9, "changed": 0, "gone": 0, "pairs": 20, "pairs_scored": 20, "references": 0}
    said = search_lines(found, data)
    assert said[1:] == [
        "20 pairs scored, 20 of them now; those that score 0.98000 or more are taken for the same thing",
        "verdicts: same from 0.99000, likely from 0.98000 on",
        "1 more pair from 0.900 on, which --report shows",
        "expect about 4.5 of the 9 pictures to have a false match",
    ]
    found.alarm_rate = 0.0
    assert search_lines(found, data) == said[:-1], "none is proposed"
    found.alarm_rate, data["pictures"] = 0.01, 20_000
    assert search_lines(found, data)[-1] == "expect about 200.0 of the 20,000 pictures to have a false match"
    found.pairs.pop()
    assert "--report" not in str(search_lines(found, data))


def test_exact_copies_become_hard_links_which_are_undone_and_emptied(dedupe, diptych, photos, bytes_of):
    before = bytes_of(photos)
    words = (photos, "--action", "hardlink")
    assert "3 pictures (" in dedupe(*words, "--dry-run").out
    done = dedupe(*words, "--json").json
    assert (done["act"], done["done"], done["unlinked"], done["left"]) == ("hardlink", 3, 0, [])
    assert {name: data for name, data in bytes_of(photos).items() if TRASH not in name} == before
    assert (photos / "b/1 again.jpg").samefile(photos / "a/1.jpg")
    again = dedupe(photos, "--json").json
    assert (again["groups"], again["gone"]) == (0, 0), "names of one file are no copies, and are there"
    assert diptych("dedupe", "--undo", done["journal"]).out == "3 pictures put back, 0 already in place\n"
    assert not (photos / "b/1 again.jpg").samefile(photos / "a/1.jpg")
    back = diptych("dedupe", "--empty", done["journal"])
    assert (back.code, "\n3 files not deleted: back in their place, or never moved\n" in back.out) == (
        0,
        True,
    )
    journal = dedupe(*words, "--json").json["journal"]
    assert diptych("dedupe", "--empty", journal).out == "3 pictures deleted for good, 0 already deleted\n"
    assert diptych("dedupe", "--empty", journal).out == "0 pictures deleted for good, 3 already deleted\n"
    assert {name: data for name, data in bytes_of(photos).items() if TRASH not in name} == before


def test_what_is_no_exact_copy_becomes_no_link_and_is_counted(dedupe, photos):
    result = dedupe(photos, "--action", "hardlink", "--dry-run", threshold=0.2)
    assert "pictures left alone that may hold something that the others lack: look at the --report" in result.out
    kept = dedupe(photos, "--action", "hardlink", "--reference", photos / "a", "--dry-run")
    assert "2 pictures left alone: a hard link takes the place of an exact copy" in kept.out
    assert "of a file that stays outside of the references, and that under a single name\n" in kept.out
    assert f"{photos}/b/c/1 once more.jpg -> " in kept.out, "of two copies outside one becomes a link to the other"


def test_a_quick_pass_and_the_network_share_a_store_in_which_other_pictures_stay(
    dedupe, diptych, photos, gallery, tmp_path, artifact
):
    store = ("--store", tmp_path / "store")
    assert diptych("index", "add", gallery, *store, "--model", artifact, "--threads", 1).code == 0
    quick = ("dedupe", photos, "--method", "phash", *store, "--json")
    assert diptych(*quick).json["new"] == 6
    first = dedupe(photos, "--json", threshold=0.2).json
    assert (first["pictures"], first["pairs_scored"]) == (6, 3)
    assert diptych(*quick).json["new"] == 0
    again = dedupe(photos, "--json", threshold=0.2).json
    assert (again["new"], again["pairs_scored"], again["groups"]) == (0, 0, first["groups"])
    assert diptych("index", "stats", *store, "--json").json["pictures"] >= 12


def test_a_selection_and_folders_may_be_in_another_normal_form(dedupe, photos, tmp_path):
    nfd = photos / "Gro\u0308\u00dfe"
    (photos / "b").rename(nfd)
    selection = tmp_path / "list.txt"
    selection.write_text(f"{photos}/Gr\u00f6\u00dfe/2.jpg\n", "utf-8")
    found = dedupe(photos / "Gr\u00f6\u00dfe", photos / "a", "--delete", "--selection", selection, "--json")
    assert (found.json["done"], (nfd / "2.jpg").exists()) == (1, False)


def test_files_of_formats_that_are_not_read_are_named_as_by_index_add(dedupe, photos):
    for name in ("x.jxl", "x.CR3", "y.cr3", "x.mov"):
        (photos / name).write_bytes(bytes(100))
    found = dedupe(photos)
    assert "4 files skipped because of their endings:\n" in found.out
    assert f"  2 .cr3 (camera RAW, which is not read: export JPEG or TIFF), the first is {photos}/x.CR3\n" in found.out
    entries = dedupe(photos, "--json").json["skipped"]
    assert {entry["ending"]: entry["files"] for entry in entries} == {".jxl": 1, ".cr3": 2, ".mov": 1}


def test_files_that_cannot_grow_are_an_error_of_one_line_and_nothing_is_half_written(
    environment, photos, photo_bytes, tmp_path
):
    """By hash, which loads no model; what is written is written as by the network."""
    report, store = tmp_path / "report.html", tmp_path / "store"
    for number in range(60):
        (photos / f"{number}.jpg").write_bytes(photo_bytes(number // 2))
    program = "import sys; from diptych.cli.main import main; sys.exit(main())"
    words = ("dedupe", photos, "--method", "phash", "--store", store, "--threads", 1, "--report", report)
    command = [sys.executable, "-c", program, *map(str, words)]
    assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
    before, largest = report.read_bytes(), max(path.stat().st_size for path in store.iterdir())
    assert largest < len(before)
    for limit, said in ((largest, f"{report} cannot be written: File too large; nothing is left"), (300, "e.sqlite")):
        grow = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=grow)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert said in done.stderr
        assert report.read_bytes() == before
        assert sorted(path.name for path in tmp_path.iterdir()) == ["photos", "report.html", "store"]


def test_copies_that_lie_another_way_are_named_so_and_can_be_left_out(diptych, tmp_path):
    (scene,) = draw_scenes(1, seed=3)
    folder = tmp_path / "turned"
    folder.mkdir()
    scene = scene.resize((400, 300))
    scene.save(folder / "a.png")
    scene.resize((200, 150)).save(folder / "smaller.png")
    ImageOps.mirror(scene).save(folder / "mirrored.png")
    scene.transpose(Image.Transpose.ROTATE_180).save(folder / "upside-down.png")

    def groups(*words: str) -> list[dict[str, str]]:
        done = diptych("dedupe", folder, "--store", tmp_path / "store", "--model", "photo-small", "--json", *words)
        found: dict[int, dict[str, str]] = {}
        for row in done.json["rows"]:
            found.setdefault(row["group"], {})[Path(row["path"]).stem] = row["edit"]
        return list(found.values())

    (together,) = groups()
    assert together.keys() == {"a", "smaller", "mirrored", "upside-down"}
    assert ("mirrored" in together["mirrored"], "turned by 180°" in together["upside-down"]) == (True, True)
    apart = groups("--same-orientation")
    assert {"a", "smaller"} in [set(group) for group in apart]
    assert not any({"a", turned} <= set(group) for group in apart for turned in ("mirrored", "upside-down"))
