"""What belongs to a picture: found by its name, and it goes and comes back with the picture, or that stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from diptych.dedupe.companions import Companions
from diptych.pictures.walk import TRASH

FILM, RAW_FILE = b"\0\0\0\x14ftypqt  film", b"II*\0raw"


def make(folder: Path, *names: str) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(name.encode())
    return [str(folder / name) for name in names]


@pytest.mark.parametrize(
    ("picture", "companion"),
    [
        *(("IMG_0.HEIC", film) for film in ("IMG_0.MOV", "img_0.mov", "IMG_0_HEVC.MOV", "IMG_0.HEIC.MOV", "IMG_0.mp4")),
        ("PXL_1.MP.jpg", "PXL_1.MP"),
        ("PXL_1.MP.jpg", "PXL_1.MP.mp4"),
        *(("IMG_1.JPG", name) for name in ("IMG_1.xmp", "IMG_1.JPG.xmp", "img_1.jpg.XMP", "IMG_1_02.JPG.xmp")),
        *(("IMG_1.JPG", name) for name in ("IMG_1.AAE", "IMG_O1.AAE", "IMG_E1.JPG", "IMG_1.THM", "IMG_1.WAV")),
        *(("IMG_1.JPG", name) for name in ("IMG_1.JPG.pp3", "IMG_1.JPG.out.pp3", "IMG_1.JPG.dop", "IMG_1.on1")),
        *(("IMG_1.JPG", name) for name in ("IMG_1.vrd", "IMG_1.dr4", "IMG_1.acr", "IMG_1.cos")),
        *(("IMG_2.JPG", name) for name in ("IMG_2.ARW", "IMG_2.cr3", "IMG_2.dng")),
        *(("IMG_1.jpg", f"IMG_1.jpg.{cut}json") for cut in ("", "s.", "suppl.", "supplemental-metadata.")),
        ("IMG_1.jpg", "IMG_1.supplemental-metadata.json"),
        ("IMG_1.JPG", "IMG_1.ARW, IMG_1.ARW.xmp, IMG_1.MOV, IMG_1.MOV.json"),
        *(("IMG_1(2).jpg", f"IMG_1{rest}.json") for rest in (".jpg(2)", ".jpg.supplemental-metadata(2)", "(2).jpg")),
        ("a" * 50 + ".jpg", "a" * 46 + ".json"),
        ("a" * 40 + ".jpg", "a" * 40 + ".jpg.s.json"),
    ],
)
def test_what_programs_and_cameras_write_beside_a_picture_belongs_to_it(tmp_path, picture, companion):
    one, *others = make(tmp_path, picture, *companion.split(", "))
    assert [found.path for found in Companions().find_for(one)] == others


@pytest.mark.parametrize(
    "other",
    [
        *("IMG_11.xmp", "IMG_1.txt", "IMG_1.json", "IMG_10.MOV", "IMG_1.jpg.supplementary.json", "IMG_1", ".IMG_1.xmp"),
        *("IMG_2.JPG", "IMG_E11.JPG", "IMG_O11.AAE", "IMG_1.jpg.supplemental-metadata(1).json"),
    ],
)
def test_what_only_looks_like_it_does_not(tmp_path, other):
    make(tmp_path, "IMG_1.jpg", other)
    assert Companions().find_for(str(tmp_path / "IMG_1.jpg")) == []


def test_only_regular_files_in_the_same_folder_count(tmp_path):
    (one,) = make(tmp_path, "IMG_1.jpg")
    make(tmp_path / "sub", "IMG_1.xmp")
    (tmp_path / "IMG_1.mov").symlink_to(tmp_path / "sub" / "IMG_1.xmp")
    (tmp_path / "IMG_1.xmp").mkdir()
    os.mkfifo(tmp_path / "IMG_1.aae")
    assert Companions().find_for(one) == []
    assert Companions().find_for(str(tmp_path / "gone" / "a.jpg")) == []


@pytest.mark.parametrize(
    ("beside", "reason"),
    [
        ({"IMG_1.MOV": b"IMG_1.MOV"}, None),
        ({"img_1.mov": b"IMG_1.MOV"}, None),
        ({"IMG_1.MOV": b"IMG_1.MOX"}, "its film IMG_1.MOV has no equal beside the picture to keep, "),
        ({"IMG_2.MOV": b"IMG_1.MOV"}, "its film IMG_1.MOV has no equal beside the picture to keep, "),
    ],
)
def test_a_film_stays_with_its_picture_unless_an_equal_one_is_beside_the_keeper(tmp_path, beside, reason):
    going, _, _ = make(tmp_path / "b", "IMG_1.JPG", "IMG_1.MOV", "IMG_1.xmp")
    (kept,) = make(tmp_path / "a", "IMG_1.JPG")
    for name, data in beside.items():
        (tmp_path / "a" / name).write_bytes(data)
    assert Companions().reason_to_stay(going, kept) == (reason and f"{reason}{kept}")


def test_what_the_keeper_shares_is_no_reason_to_stay(tmp_path):
    going, kept, *_ = make(tmp_path, "IMG_1.JPG", "IMG_1.HEIC", "IMG_1.MOV", "IMG_1.ARW", "IMG_1.xmp")
    assert Companions().reason_to_stay(going, kept) is None
    going, kept = make(tmp_path / "edited", "IMG_1.JPG", "IMG_E1.JPG")
    assert Companions().reason_to_stay(going, kept) is None, "the edited version itself is kept"


# By the command line.


@pytest.fixture
def album(tmp_path, photo_bytes) -> tuple[Path, Path]:
    """Two folders with the same three pictures; the second has more beside them."""
    one, two = tmp_path / "a", tmp_path / "b"
    for folder in (one, two):
        folder.mkdir()
        for number in range(3):
            (folder / f"IMG_{number}.JPG").write_bytes(photo_bytes(number))
        (folder / "IMG_0.MOV").write_bytes(FILM)
    (two / "IMG_1.JPG.xmp").write_text("<x:xmpmeta/>")
    (two / "IMG_1.AAE").write_text("<plist/>")
    (two / "IMG_2.ARW").write_bytes(RAW_FILE)
    return one, two


@pytest.fixture
def act(dedupe, album):
    """`act("--delete", ...)` keeps what is in the first folder and acts on the other."""
    return lambda *words: dedupe(*album, "--keep", "first-dir", *words)


GOING = {"IMG_0.JPG", "IMG_0.MOV", "IMG_1.AAE", "IMG_1.JPG", "IMG_1.JPG.xmp"}


@pytest.mark.parametrize("how", ["move", "delete"])
def test_companions_go_with_their_picture_and_come_back(act, album, diptych, tmp_path, bytes_of, how):
    words = ("--move-to", tmp_path / "out") if how == "move" else ("--delete",)
    before = bytes_of(album[1])
    dry = act(*words, "--dry-run")
    assert "2 pictures and 3 files that belong to them (" in dry.out
    assert bytes_of(album[1]) == before
    done = act(*words, "--json").json
    assert (done["done"], done["companions"], done["left"]) == (2, 3, [])
    assert {name for name in bytes_of(album[1]) if TRASH not in name} == before.keys() - GOING
    went = bytes_of(tmp_path / "out" / "b" if how == "move" else album[1] / TRASH)
    assert {Path(name).name: data for name, data in went.items()} == {name: before[name] for name in GOING}
    undone = diptych("dedupe", "--undo", done["journal"])
    assert undone.out == "2 pictures and 3 files that belong to them put back, 0 already in place\n"
    assert {name: data for name, data in bytes_of(album[1]).items() if TRASH not in name} == before


def test_a_picture_whose_raw_file_is_nowhere_else_stays_and_the_reason_is_said(act, album, tmp_path):
    found = act("-o", tmp_path / "groups.json").out
    assert "; 1 more picture left to you, which --report shows with the reasons\n" in found
    rows = json.loads((tmp_path / "groups.json").read_text())["rows"]
    assert [row["goes"] for row in rows if row["path"] == f"{album[1]}/IMG_2.JPG"] == [False]
    said = act("--delete")
    named = f"  {album[1]}/IMG_1.AAE\n  {album[1]}/IMG_1.JPG.xmp\n"
    assert f"2 files went along that the kept pictures have no equal of:\n{named}" in said.out
    path = album[1] / "IMG_2.JPG"
    reason = f"its raw file IMG_2.ARW has no equal beside the picture to keep, {album[0]}/IMG_2.JPG"
    assert f"1 file left alone, as a picture and what belongs to it stay together:\n  {path}: {reason}\n" in said.out
    assert path.exists()
    assert (said.code, path.with_suffix(".ARW").exists()) == (0, True)
    again = act("--delete", "--json").json
    assert again["staying"] == [{"path": str(path), "reason": reason}]


def test_a_person_who_chooses_the_picture_takes_its_raw_file_along(act, album, tmp_path, diptych, bytes_of):
    before = bytes_of(album[1])
    (tmp_path / "list.txt").write_text(f"{album[1]}/IMG_2.JPG\n")
    done = act("--delete", "--selection", tmp_path / "list.txt", "--json").json
    assert (done["done"], done["companions"]) == (1, 1)
    assert not {"IMG_2.JPG", "IMG_2.ARW"} & bytes_of(album[1]).keys()
    assert diptych("dedupe", "--undo", done["journal"]).code == 0
    assert {name: data for name, data in bytes_of(album[1]).items() if TRASH not in name} == before


def test_a_companion_of_two_pictures_goes_with_the_last_of_them(act, album, tmp_path, photo_bytes, bytes_of):
    (album[1] / "IMG_1.PNG").write_bytes(photo_bytes(9, (64, 64), "PNG"))
    act("--delete")
    assert {"IMG_1.PNG", "IMG_1.AAE"} <= bytes_of(album[1]).keys(), "which is the other picture's too"
    assert not (album[1] / "IMG_1.JPG.xmp").exists()
    (album[0] / "IMG_1.PNG").write_bytes(photo_bytes(9, (64, 64), "PNG"))
    act("--delete")
    assert not {"IMG_1.PNG", "IMG_1.AAE"} & bytes_of(album[1]).keys()


def test_emptying_deletes_companions_with_their_picture_alone(act, album, diptych, bytes_of):
    journal = act("--delete", "--json").json["journal"]
    (album[0] / "IMG_1.JPG").write_bytes(b"another")
    (album[0] / "IMG_0.MOV").unlink()
    emptied = diptych("dedupe", "--empty", journal, "--json").json
    assert (emptied["done"], emptied["companions"], len(emptied["left"])) == (1, 0, 4)
    assert "IMG_0.MOV, is gone, so this may be the last one" in str(emptied["left"])
    left = {Path(name).name for name in bytes_of(album[1] / TRASH)}
    assert left == {"IMG_0.MOV", "IMG_1.JPG", "IMG_1.AAE", "IMG_1.JPG.xmp"}


def test_where_a_companion_cannot_go_along_the_picture_stays(act, album, tmp_path):
    there = tmp_path / "out" / "b" / "IMG_0.MOV"
    there.parent.mkdir(parents=True)
    there.write_bytes(b"another")
    done = act("--move-to", tmp_path / "out", "--json").json
    reasons = {Path(one["path"]).name: one["reason"] for one in done["left"]}
    assert reasons.keys() == {"IMG_0.JPG", "IMG_0.MOV"}
    assert reasons["IMG_0.JPG"].startswith(f"{album[1]}/IMG_0.MOV, which belongs to it, cannot go along: there is a")
    assert {"IMG_0.JPG", "IMG_0.MOV"} <= {path.name for path in album[1].iterdir()}
    assert there.read_bytes() == b"another"


def test_a_hard_link_leaves_the_companions_where_they_are(act, album, bytes_of):
    before = bytes_of(album[1])
    done = act("--action", "hardlink", "--json").json
    assert (done["done"], done["companions"], done["staying"]) == (3, 0, [])
    assert {name: data for name, data in bytes_of(album[1]).items() if TRASH not in name} == before


def test_a_folder_is_listed_once_for_all_of_its_pictures(tmp_path, monkeypatch):
    names = [f"{number:06d}.{ending}" for number in range(200) for ending in ("jpg", "mov", "xmp")]
    paths = make(tmp_path, *names)
    scans, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scans.append(folder) or scandir(folder))
    companions = Companions()
    assert all(len(companions.find_for(path)) == 2 for path in paths[::3])
    assert scans == [str(tmp_path)]
