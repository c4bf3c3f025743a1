import os
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from diptych.cli.main import main
from diptych_training.data import archives as module
from diptych_training.data.archives import (
    GROUPED,
    SPLITS,
    Archives,
    data_folder,
    list_photos,
    load_photos,
    split_of,
    unpack,
)
from diptych_training.data.csv import read_column
from diptych_training.errors import DataError

ALL = ("clothing", "flowers", "goods", "grocery")


def test_every_archive_is_listed_with_its_kinds(archives: Path) -> None:
    kinds = Counter(row.kind for row in list_photos(archives, ALL))
    assert kinds == {"clothing": 60, "flowers": 40, "goods": 20, "grocery": 25, "iconic": 12}


def test_splits_never_share_a_contributor_a_style_or_a_class(archives: Path) -> None:
    splits: dict[tuple[str, str], set[str]] = {}
    for row in list_photos(archives, ALL):
        held = int(Path(row.name).stem) // 2 if row.kind == "clothing" else row.subject
        splits.setdefault((row.archive, str(held)), set()).add(row.split)
    assert all(len(split) == 1 for split in splits.values())
    assert {split for names in splits.values() for split in names} == set(SPLITS)


def test_a_split_is_a_property_of_the_name_alone_and_of_the_stated_size() -> None:
    drawn = Counter(split_of(f"name {i}") for i in range(4_000))
    assert split_of("name 7") == split_of("name 7")
    assert drawn["test"] / 4_000 == pytest.approx(0.18, abs=0.02)
    assert drawn["validation"] / 4_000 == pytest.approx(0.10, abs=0.02)


def test_photos_are_decoded_in_order_and_chosen_by_kind_and_split(archives: Path) -> None:
    rows = list_photos(archives, ("clothing", "grocery"))
    photos = load_photos(archives, rows, 16)
    assert photos.pixels.shape == (97, 16, 16, 3)
    chosen = photos.where(kinds=("iconic",), split="train")
    assert len(chosen)
    assert all(photos.rows[i].kind == "iconic" and photos.rows[i].split == "train" for i in chosen)
    again = load_photos(archives, [rows[40], rows[3]], 16)
    assert np.array_equal(again.pixels, photos.pixels[[40, 3]])


def test_an_archive_is_unpacked_with_one_table_a_split(archives: Path, tmp_path: Path) -> None:
    counted = unpack(archives, "clothing", tmp_path / "out")
    named = {split: read_column(tmp_path / "out" / f"{split}.csv", "path") for split in SPLITS}
    assert {split: len(names) for split, names in named.items()} == counted
    assert sum(counted.values()) == 60
    assert all((tmp_path / "out" / name).stat().st_size for names in named.values() for name in names)
    with pytest.raises(DataError, match="is not empty; name a new folder"):
        unpack(archives, "clothing", tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["../../../evil.jpg", "a/../../../../evil.jpg", "..\\..\\evil.jpg", "a.desktop", "bashrc"]
)
def test_an_archive_that_names_a_file_elsewhere_or_no_picture_is_not_unpacked(name: str, tmp_path: Path) -> None:
    archive = tmp_path / "data" / "clothing.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("clothing/images.csv", f"path,contributor\n{name},x\n")
        file.writestr(f"clothing/{name}", "evil")
    with pytest.raises(DataError, match=r"clothing\.zip names .*; expected a picture's path within the folder"):
        unpack(archive.parent, "clothing", tmp_path / "out" / "pictures")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [archive]


@pytest.mark.parametrize("name", ["flowers/images.csv", "flowers/b.jpg"])
def test_no_more_of_a_member_is_unpacked_than_a_picture_may_have(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "flowers.zip", "w", zipfile.ZIP_DEFLATED) as file:
        members = {"flowers/images.csv": b"path\na.jpg\nb.jpg\n", "flowers/a.jpg": b"a", "flowers/b.jpg": b"b"}
        for member, data in (members | {name: bytes(200 << 20)}).items():
            file.writestr(member, data)
    tracemalloc.start()
    with pytest.raises(DataError, match=f"has more than 33,554,432 bytes in '{name}'"):
        unpack(tmp_path, "flowers", tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 110 << 20
    tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["flowers.zip"]


def test_a_group_that_leads_elsewhere_is_not_unpacked(tmp_path: Path) -> None:
    write_groups(tmp_path, "screens", ["same_x/../../../evil.jpg"])
    with pytest.raises(
        DataError, match=r"screens\.zip names 'same_x/\.\./\.\./\.\./evil\.jpg'; expected a picture's path"
    ):
        unpack(tmp_path, "screens", tmp_path / "out" / "pictures")
    assert not list(tmp_path.rglob("evil.jpg"))


def test_missing_data_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIPTYCH_DATA", raising=False)
    with pytest.raises(DataError, match=r"DIPTYCH_DATA, which is ''; set it to a folder"):
        data_folder()
    with pytest.raises(DataError, match=r"expected the archive clothing\.zip"):
        list_photos(tmp_path, ("clothing",))
    with pytest.raises(DataError, match="no archive is called 'shoes'; known are clothing"):
        list_photos(tmp_path, ("shoes",))


def test_an_archive_without_its_table_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "flowers.zip", "w") as file:
        file.writestr("flowers/readme.txt", "")
    with pytest.raises(DataError, match=r"flowers\.zip has no flowers/images\.csv"):
        list_photos(tmp_path, ("flowers",))


def write_groups(folder: Path, archive: str, names: Sequence[str]) -> None:
    with zipfile.ZipFile(folder / f"{archive}.zip", "w") as file:
        for name in names:
            file.writestr(name, "not decoded here")


def test_a_same_group_is_one_subject_and_pictures_of_a_class_group_are_their_own(tmp_path: Path) -> None:
    views = ["same_chair/0.jpg", "same_chair/1.jpg", "same_wall/0.jpg"]
    write_groups(tmp_path, "boofcv_views", [*views, "class_travel/0.jpg", "class_travel/1.jpg"])
    rows = {row.name: row for row in list_photos(tmp_path, ("boofcv_views",))}
    assert [rows[name].subject for name in views] == [
        f"boofcv_views/same_{thing}" for thing in ("chair", "chair", "wall")
    ]
    assert rows["class_travel/0.jpg"].subject == "class_travel/0.jpg"
    assert len({row.subject for row in rows.values()}) == 4
    assert {row.kind for row in rows.values()} == {"boofcv_views"}


def test_groups_are_held_out_as_a_whole_or_by_the_stated_share(tmp_path: Path) -> None:
    for archive, share in GROUPED.items():
        write_groups(tmp_path, archive, [f"class_one/{i}.jpg" for i in range(2_000)])
        splits = Counter(row.split for row in list_photos(tmp_path, (archive,)))
        assert splits["validation"] / 2_000 == pytest.approx(share, abs=0.0 if share == 1 else 0.025)
        assert splits["test"] == 0


def test_unpacked_groups_have_the_group_as_the_class_where_it_is_one_thing(tmp_path: Path) -> None:
    write_groups(tmp_path, "se_covers", ["same_cover/cover.jpg", "same_cover/cover.source.jpg", "class_other/0.jpg"])
    assert unpack(tmp_path, "se_covers", tmp_path / "out") == {"train": 0, "validation": 3, "test": 0}
    table = tmp_path / "out" / "validation.csv"
    assert read_column(table, "path") == ["class_other/0.jpg", "same_cover/cover.jpg", "same_cover/cover.source.jpg"]
    assert read_column(table, "class") == ["class_other/0.jpg", *["se_covers/same_cover"] * 2]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("readme.txt", r"trashnet\.zip has no GROUP/PICTURE\.jpg; see docs/data\.md"),
        ("0.jpg", r"trashnet\.zip has '0\.jpg'; its pictures are expected in folders same_\* or class_\*"),
        ("glass/0.jpg", r"trashnet\.zip has 'glass/0\.jpg'; its pictures are expected in folders"),
    ],
)
def test_an_archive_of_groups_in_another_layout_is_refused(name: str, message: str, tmp_path: Path) -> None:
    write_groups(tmp_path, "trashnet", [name])
    with pytest.raises(DataError, match=message):
        list_photos(tmp_path, ("trashnet",))


def test_the_splits_of_names_stay_where_they_were() -> None:
    def held_out(key: str, count: int, split: str = "validation", **shares: float) -> list[int]:
        return [i for i in range(count) if split_of(key.format(i), **shares) == split]

    assert held_out("clothing contributor {}", 30) == []
    assert held_out("clothing contributor {}", 30, "test") == [2, 12, 19, 22]
    assert held_out("flowers/roses/{}.jpg", 60, test=0.0) == [5, 6, 7, 8, 15, 17, 29, 31, 39]
    assert held_out("style {}", 60, test=0.0) == [24, 27, 36, 37, 40, 54, 58]
    assert held_out("coarse {}", 20, validation=0.25, test=0.0) == [3, 5, 6, 8, 11]


def test_the_help_of_unpack_and_the_documentation_name_every_archive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["unpack", "--help"])
    shown = capsys.readouterr().out
    written = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    for archive in (*ALL, *GROUPED):
        assert archive in shown
        assert f"| `{archive}.zip` |" in written


@pytest.mark.data
@pytest.mark.skipif("DIPTYCH_DATA" not in os.environ, reason="needs the archives that DIPTYCH_DATA names")
def test_the_archives_hold_what_their_readme_says() -> None:
    folder = data_folder()
    counted = {archive: Counter(row.split for row in list_photos(folder, (archive,))) for archive in (*ALL, *GROUPED)}
    assert {archive: sum(splits.values()) for archive, splits in counted.items()} == {
        "clothing": 3320,
        "flowers": 3667,
        "goods": 725,
        "grocery": 2030,
        "abo_samples": 11,
        "boofcv_views": 266,
        "cards_coins": 1011,
        "lookalike_objects": 265,
        "openimages_doors": 1117,
        "photos_cc0": 19,
        "screens": 762,
        "se_covers": 213,
        "sfm_sets": 129,
        "trashnet": 2527,
    }
    in_part = ("clothing", "flowers", "goods", "grocery", "openimages_doors", "screens", "trashnet")
    assert {archive: counted[archive]["validation"] for archive in in_part} == {
        "clothing": 94,
        "flowers": 367,
        "goods": 68,
        "grocery": 562,
        "openimages_doors": 391,
        "screens": 85,
        "trashnet": 261,
    }
    assert all(set(counted[archive]) == {"validation"} for archive in GROUPED if archive not in in_part)
    views = Counter(row.subject for row in list_photos(folder, ("boofcv_views", "sfm_sets", "abo_samples")))
    assert {subject: count for subject, count in views.items() if "/same_" in subject and count > 10} == {
        "boofcv_views/same_sfm_chair": 21,
        "sfm_sets/same_buddha_head": 13,
        "sfm_sets/same_drone_brighton_beach": 18,
        "sfm_sets/same_opensfm_lund": 29,
        "sfm_sets/same_skull": 66,
    }


@pytest.mark.parametrize("archive", ["drawn", "documents"])
def test_pictures_that_a_program_draws_need_no_archive_and_are_held_out_by_family(
    archive, tmp_path, monkeypatch
) -> None:
    for name in ("DRAWN_PICTURES", "DOCUMENT_PICTURES"):
        monkeypatch.setattr(module, name, 400)  # of thousands
    found = Archives(8, tmp_path).photos((archive,))
    assert found.pixels.shape == (len(found.rows), 8, 8, 3)
    assert {row.kind for row in found.rows} == {archive}
    assert len({row.subject for row in found.rows}) == len(found.rows)
    splits: dict[str, set[str]] = {}
    for row in found.rows:
        splits.setdefault(row.name.rpartition("/")[0], set()).add(row.split)
    assert all(len(held) == 1 for held in splits.values())
    assert {"train"} in splits.values()
    assert {"validation"} in splits.values()


def test_a_name_that_is_not_utf_8_has_its_split_too():
    assert split_of("class \udcff/picture.jpg") in SPLITS
