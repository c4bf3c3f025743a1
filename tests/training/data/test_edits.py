import csv
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typed import parsed

from diptych.cli.main import main
from diptych_training.data import canvas
from diptych_training.data.edits import (
    EDITS,
    REPERTOIRES,
    Props,
    edit_hard,
    edit_picture,
    hard_edits,
    picture_names,
    write_queries,
)
from diptych_training.data.edits.repertoires import BEFORE_SMALLER, LIMITS, SMALLER
from diptych_training.errors import DataError

HARD = hard_edits(Props())
Folders = dict[str, Path]


@pytest.fixture
def folders(tmp_path: Path, photo_bytes) -> Folders:
    """Six photos, some of them deeper; five others to be distractors, and five to be pasted into."""
    for i in range(6):
        (tmp_path / "photos" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / ("deep" if i % 2 else ".") / f"{i}.jpg").write_bytes(photo_bytes(i, (120, 90)))
    (tmp_path / "photos" / "notes.txt").write_text("not a picture")
    for name in ("more", "scenes"):
        (tmp_path / name).mkdir()
        for i in range(5):
            (tmp_path / name / f"{i}.jpg").write_bytes(photo_bytes(100 + i, (90, 90)))
    return {name: tmp_path / name for name in ("photos", "more", "scenes", "out")}


def read_files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_what_trains_and_what_measures_may_both_use_leaves_nothing_to_chance() -> None:
    # That neither repertoire imports the other is a contract of the imports.
    source = Path(canvas.__file__).read_text()
    assert "rng" not in source
    assert "random" not in source


def test_the_easy_repertoire_draws_what_it_always_did(photo) -> None:
    rng, said, sizes = np.random.default_rng(7), [], hashlib.sha256()
    for i in range(12):
        picture, names = edit_picture(photo(i, (96, 64)), rng)
        said.append("+".join(names))
        sizes.update(repr(picture.size).encode())
    assert list(EDITS) == ["crop", "flip", "rotate", "colour", "jpeg", "overlay", "border"]
    assert said[:4] == ["crop", "jpeg+rotate", "flip+border+rotate", "border"]
    assert sizes.hexdigest()[:12] == "1968a9e902d6"
    chosen = [edit_picture(photo(1), rng)[1] for _ in range(40)]
    assert {len(names) for names in chosen} == {1, 2, 3}
    assert all(len(set(names)) == len(names) for names in chosen)
    assert {name for names in chosen for name in names} == set(EDITS)


@pytest.mark.parametrize("size", [(157, 101), (60, 241), (24, 720), (24, 24)])
@pytest.mark.parametrize("name", HARD)
def test_every_edit_gives_an_rgb_picture_of_sane_size_the_same_for_the_same_numbers(
    name: str, size: tuple[int, int], photo
) -> None:
    picture = photo(3, size)
    before = picture.tobytes()
    for seed in range(5):
        changed, again = (HARD[name](picture, np.random.default_rng(seed)) for _ in range(2))
        assert changed.mode == "RGB"
        assert 8 <= min(changed.size) <= max(changed.size) <= 5 * max(size) + 400
        assert changed.size != picture.size or changed.tobytes() != before
        assert (changed.size, changed.tobytes()) == (again.size, again.tobytes())
    assert picture.tobytes() == before


def test_one_to_five_different_hard_edits_are_made_within_the_limits_and_all_of_them_in_time(photo) -> None:
    assert list(HARD)[: len(EDITS)] == list(EDITS)
    assert {name for group, _ in LIMITS for name in group} | set(SMALLER) | set(BEFORE_SMALLER) <= set(HARD)
    rng, picture = np.random.default_rng(0), photo(1, (24, 24))
    drawn = [edit_hard(picture, rng, Props())[1] for _ in range(300)]
    assert min([len(names) for names in drawn].count(n) for n in range(1, 6)) > 30
    assert {name for names in drawn for name in names} == set(HARD)
    for names in drawn:
        assert len(set(names)) == len(names) <= 5
        assert all(len(set(names) & set(group)) <= most for group, most in LIMITS)
        at = [i for i, name in enumerate(names) if name in SMALLER]
        assert not [name for name in names[at[0] :] if name in BEFORE_SMALLER] if at else True


@pytest.mark.parametrize("size", [(8, 8), (8, 500), (1100, 700), (160, 120)])
def test_hard_edits_together_keep_every_side_between_24_and_720_pixels(size: tuple[int, int], photo) -> None:
    rng = np.random.default_rng(1)
    for i in range(12):
        picture, names = edit_hard(photo(i, size), rng, Props())
        assert 24 <= min(picture.size) <= max(picture.size) <= 720, names


@pytest.mark.parametrize("repertoire", REPERTOIRES)
def test_the_same_seed_writes_the_same_and_distractors_change_none_of_the_other_queries(
    folders: Folders, repertoire: str
) -> None:
    given: dict[str, Any] = {"count": 3, "seed": 2, "repertoire": repertoire}
    if repertoire == "hard":
        given["props"] = Props([folders["scenes"] / f"{i}.jpg" for i in range(5)])
    more: dict[str, Any] = {"distractors": 4, "distractors_from": folders["more"]}
    out = folders["out"]
    alone = write_queries(folders["photos"], out / "alone", **given)
    truth, _, _ = (write_queries(folders["photos"], out / name, **given, **more) for name in ("both", "again", "once"))
    write_queries(folders["photos"], out / "other", **given | {"seed": 3}, **more)
    both, before = read_files(out / "both"), read_files(out / "alone")
    assert both == read_files(out / "again")
    assert both != read_files(out / "other")
    if repertoire == "hard":
        write_queries(folders["photos"], out / "plain", **given | {"props": None}, **more)
        assert both != read_files(out / "plain")
    with (out / "both" / "truth.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == truth
    assert truth[:3] == alone
    assert all((folders["photos"] / row["reference"]).is_file() for row in alone)
    assert len({row["reference"] for row in alone}) == 3
    assert [row["reference"] for row in truth[3:]] == [""] * 4
    assert all(set(row["edits"].split("+")) <= set(HARD) for row in truth)
    assert {row["query"] for row in truth} | {"truth.csv"} == set(both)
    assert all(both[row["query"]] == before[row["query"]] for row in alone)
    assert all(both[row["query"]].startswith(b"\xff\xd8\xff") for row in truth)


def test_queries_are_chosen_among_the_pictures_of_the_folder_or_those_named(folders: Folders) -> None:
    assert picture_names(folders["photos"]) == ["0.jpg", "2.jpg", "4.jpg", "deep/1.jpg", "deep/3.jpg", "deep/5.jpg"]
    truth = write_queries(folders["photos"], folders["out"], count=2, among=["0.jpg", "deep/1.jpg"])
    assert {row["reference"] for row in truth} == {"0.jpg", "deep/1.jpg"}


def test_folders_that_share_a_picture_are_refused_whichever_way_they_do(folders: Folders) -> None:
    photos, linked = folders["photos"], folders["scenes"]
    (linked / "link.jpg").symlink_to(photos / "0.jpg")
    for shared in (photos, photos / "deep", photos.parent, linked):
        with pytest.raises(DataError, match=r"expected no reference among the distractors, got .* name another"):
            write_queries(photos, folders["out"], count=2, distractors=1, distractors_from=shared)
    assert not folders["out"].exists()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"count": 7}, "7 queries need as many photos to choose from, got 6"),
        ({"queries": "more"}, "is not empty"),
        ({"references": "out"}, "expected a folder of pictures"),
        ({"distractors": 6, "distractors_from": "more"}, "6 distractors need a folder of as many pictures, got 5"),
        ({"distractors": 2}, "2 distractors need a folder of as many pictures, got 0 in None"),
        ({"distractors_from": "more"}, "0 distractors need"),
        ({"distractors": -1, "distractors_from": "more"}, "-1 distractors need"),
        ({"repertoire": "harder"}, "no repertoire is called 'harder'; known are easy, hard"),
    ],
)
def test_what_cannot_be_chosen_from_is_refused(given: dict[str, Any], said: str, folders: Folders) -> None:
    options: dict[str, Any] = {"references": "photos", "queries": "out", "count": 2} | given
    options = {key: folders.get(value, value) for key, value in options.items()}
    with pytest.raises(DataError, match=said):
        write_queries(**options)
    assert not folders["out"].exists()


def test_the_command_writes_hard_queries_with_distractors_and_knows_the_repertoires(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = parsed("edit", "photos", "-o", "queries")
    assert (typed["repertoire"], typed["distractors"]) == ("easy", 0)
    line = ["edit", str(folders["photos"]), "-o", str(folders["out"]), "--count", "4", "--repertoire", "hard", "--json"]
    line += ["--distractors", "2", "--distractors-from", str(folders["more"])]
    assert main(line) == 0
    written = json.loads(capsys.readouterr().out)
    assert (written["queries"], written["distractors"]) == (6, 2)
    with Path(written["truth"]).open(newline="") as file:
        assert [bool(row["reference"]) for row in csv.DictReader(file)] == [True] * 4 + [False] * 2
    for name in REPERTOIRES:
        assert parsed("edit", "photos", "-o", "queries", "--repertoire", name)["repertoire"] == name
