import os
from pathlib import Path

import pytest

from diptych_runtime.folders import EXCLUDED, HIDDEN_FILES, Exclusion, pictures_below, walk_folder

OUT = {
    ".Trash/a.jpg": ".Trash",
    ".Trash-1000/files/a.jpg": ".Trash-1000",
    "#recycle/a.jpg": "#recycle",
    "share/@Recycle/a.jpg": "@Recycle",
    "$RECYCLE.BIN/S-1-5/a.jpg": "$RECYCLE.BIN",
    "System Volume Information/a.jpg": "System Volume Information",
    "lost+found/a.jpg": "lost+found",
    ".stversions/a.jpg": ".stversions",
    ".snapshot/hourly/a.jpg": ".snapshot",
    ".zfs/snapshot/a.jpg": ".zfs",
    "album/@eaDir/a.jpg/SYNOPHOTO_THUMB_M.jpg": "@eaDir",
    ".thumbnails/a.jpg": ".thumbnails",
    "Catalog Previews.lrdata/a.jpg": "Catalog Previews.lrdata",
    "Mine.photoslibrary/resources/derivatives/1/a.jpg": "resources",
    "iPhoto.photolibrary/Thumbnails/a.jpg": "Thumbnails",
    ".trashed-1700000000-a.jpg": HIDDEN_FILES,
    "album/._a.jpg": HIDDEN_FILES,
    ".hidden/deep/a.jpg": ".hidden",
}
IN = (
    "a.jpg",
    "Trash/a.jpg",
    "recycle/a.jpg",
    "#1 hits/a.jpg",
    "@home/a.jpg",
    "Mine.photoslibrary/originals/1/a.jpg",
    "derivatives/a.jpg",
    "Previews/a.jpg",
    "a.b.jpg",
)


def reason(exclusion: Exclusion, path: str) -> str:
    """The first reason on the way to a file below /p."""
    place = "/p"
    *folders, file = path.split("/")
    for name in folders:
        if why := exclusion.exclusion_reason(name, place, "/p", is_folder=True):
            return why
        place = f"{place}/{name}"
    return exclusion.exclusion_reason(file, place, "/p", is_folder=False)


@pytest.mark.parametrize("path", OUT)
def test_what_systems_put_away_is_left_out_with_the_name_of_its_folder_unless_it_is_asked_for(path):
    assert reason(Exclusion(), path) == OUT[path]
    assert Exclusion().leaves_out(f"/p/{path}", "/p")
    assert reason(Exclusion(include_hidden=True), path) == ""
    assert not Exclusion(include_hidden=True).leaves_out(f"/p/{path}", "/p")


@pytest.mark.parametrize("path", IN)
def test_what_a_person_may_have_named_so_is_not(path):
    assert reason(Exclusion(), path) == ""
    assert not Exclusion().leaves_out(f"/p/{path}", "/p/")


def test_what_is_named_is_not_left_out_for_its_own_name_or_for_those_above():
    assert not Exclusion().leaves_out("/home/.Trash-1000/files/a.jpg", "/home/.Trash-1000")
    assert not Exclusion().leaves_out("/x/@eaDir/.hidden/a.jpg", "/x/@eaDir/.hidden/")
    assert Exclusion().leaves_out("/x/Mine.photoslibrary/resources/a.jpg", "/x/Mine.photoslibrary")
    assert not Exclusion().leaves_out("/a.jpg", "/")
    assert Exclusion().leaves_out("/.b/a.jpg", "/")


@pytest.mark.parametrize(
    ("glob", "out", "kept"),
    [
        ("raw", ("raw/a.jpg", "x/raw/a.jpg"), ("raws/a.jpg", "a.jpg")),
        ("*.gif", ("a.gif", "x/y/a.gif"), ("a.GIF", "gif/a.jpg")),
        ("raw/", ("raw/a.jpg", "x/raw/a.jpg"), ("raw",)),
        ("x/raw", ("x/raw/a.jpg",), ("raw/a.jpg", "y/x/raw/a.jpg")),
        ("/raw", ("raw/a.jpg",), ("x/raw/a.jpg",)),
        ("**/raw/**", ("raw/a.jpg", "x/raw/a.jpg"), ("raw.jpg",)),
        ("20??/*small*", ("2024/small.jpg", "2024/x/a-small.jpg"), ("small.jpg", "224/small.jpg")),
        ("[ab].jpg", ("a.jpg", "x/b.jpg"), ("c.jpg",)),
        ("Gro\u0308\u00dfe", ("Gr\u00f6\u00dfe/a.jpg", "Gro\u0308\u00dfe/a.jpg"), ("Grosse/a.jpg",)),
    ],
)
def test_a_glob_is_of_a_name_anywhere_or_of_a_path_below_the_folder(glob, out, kept):
    exclusion = Exclusion(("nothing else", glob))
    assert [reason(exclusion, path) for path in out] == [EXCLUDED] * len(out)
    assert [reason(exclusion, path) for path in kept] == [""] * len(kept)


def test_a_walk_goes_folder_by_folder_and_stays_out_of_links_and_of_what_is_taken_from_the_list(tmp_path):
    for name in ("b/2", "b/a/1", "a/1", "c/1", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "b/loop").symlink_to(tmp_path)
    (tmp_path / "b/nowhere").symlink_to("none")
    seen = []
    for place, folders, files in walk_folder(tmp_path):
        seen.append((os.path.relpath(place, tmp_path), files))
        if "c" in folders:
            folders.remove("c")
    assert seen == [(".", ["z"]), ("a", ["1"]), ("b", ["2", "nowhere"]), ("b/a", ["1"])]


def test_a_folder_that_goes_or_becomes_a_link_while_it_is_walked_is_passed_over(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    errors, places = [], []
    for place, _, _ in walk_folder(tmp_path, errors.append):
        places.append(Path(place).name)
        if place == str(tmp_path):
            (tmp_path / "a").rmdir()
            (tmp_path / "b").rmdir()
            (tmp_path / "b").symlink_to("/")
    assert places == [tmp_path.name, "c"]
    assert [type(error) for error in errors] == [FileNotFoundError]


def test_pictures_below_a_folder_are_those_of_every_walk(tmp_path):
    for name in ("b/2.JPG", "b/notes.txt", "a.png", "@eaDir/a.jpg", "b/._2.JPG", ".x/1.jpg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert pictures_below(tmp_path) == [tmp_path / "a.png", tmp_path / "b/2.JPG"]
