import os
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
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
    unpack_archive,
)
from diptych_training.data.csv import read_column, read_table
from diptych_training.errors import DataError

ALL = ("clothing", "flowers", "goods", "grocery")


def write_members(folder: Path, archive: str, members: Sequence[str] | Mapping[str, str | bytes]) -> None:
    """Write ARCHIVE.zip with these members, whose content is of no account where only names are given."""
    given = members if isinstance(members, Mapping) else dict.fromkeys(members, "not decoded here")
    with zipfile.ZipFile(folder / f"{archive}.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in given.items():
            file.writestr(name, data)


def test_every_archive_is_listed_with_its_kinds_and_no_split_shares_a_contributor_a_style_or_a_class(
    archives: Path,
) -> None:
    rows = list_photos(archives, ALL)
    kinds = Counter(row.kind for row in rows)
    assert kinds == {"clothing": 60, "flowers": 40, "goods": 20, "grocery": 25, "iconic": 12}
    splits: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        held = int(Path(row.name).stem) // 2 if row.kind == "clothing" else row.subject
        splits.setdefault((row.archive, str(held)), set()).add(row.split)
    assert all(len(split) == 1 for split in splits.values())
    assert {split for names in splits.values() for split in names} == set(SPLITS)


def test_the_splits_of_names_have_their_shares_and_stay_where_they_were() -> None:
    def held_out(key: str, count: int, split: str = "validation", **shares: float) -> list[int]:
        return [i for i in range(count) if split_of(key.format(i), **shares) == split]

    assert held_out("clothing contributor {}", 30) == []
    assert held_out("clothing contributor {}", 30, "test") == [2, 12, 19, 22]
    assert held_out("flowers/roses/{}.jpg", 60, test=0.0) == [5, 6, 7, 8, 15, 17, 29, 31, 39]
    assert held_out("style {}", 60, test=0.0) == [24, 27, 36, 37, 40, 54, 58]
    assert held_out("coarse {}", 20, validation=0.25, test=0.0) == [3, 5, 6, 8, 11]
    assert len(held_out("name {}", 4_000, "test")) / 4_000 == pytest.approx(0.18, abs=0.02)
    assert len(held_out("name {}", 4_000)) / 4_000 == pytest.approx(0.10, abs=0.02)
    assert split_of("class \udcff/picture.jpg") in SPLITS  # a name that is not UTF-8


def test_photos_are_decoded_in_order_and_chosen_by_kind_and_split(archives: Path) -> None:
    rows = list_photos(archives, ("clothing", "grocery"))
    photos = load_photos(archives, rows, 16)
    assert photos.pixels.shape == (97, 16, 16, 3)
    chosen = photos.find_places(kinds=("iconic",), split="train")
    assert len(chosen)
    assert all(photos.rows[i].kind == "iconic" and photos.rows[i].split == "train" for i in chosen)
    again = load_photos(archives, [rows[40], rows[70], rows[3]], 16)
    assert np.array_equal(again.pixels, photos.pixels[[40, 70, 3]])


def test_an_archive_is_unpacked_with_one_table_a_split(archives: Path, tmp_path: Path) -> None:
    counted = unpack_archive(archives, "clothing", tmp_path / "out")
    named = {split: read_column(tmp_path / "out" / f"{split}.csv", "path") for split in SPLITS}
    assert {split: len(names) for split, names in named.items()} == counted
    assert sum(counted.values()) == 60
    assert all((tmp_path / "out" / name).stat().st_size for names in named.values() for name in names)
    with pytest.raises(DataError, match="is not empty; name a new folder"):
        unpack_archive(archives, "clothing", tmp_path / "out")


@pytest.mark.parametrize(
    ("archive", "name"),
    [
        *(("clothing", name) for name in ("../../../evil.jpg", "a/../../../../evil.jpg", "..\\..\\evil.jpg")),
        *(("clothing", name) for name in ("a.desktop", "bashrc")),
        ("screens", "same_x/../../../evil.jpg"),
    ],
)
def test_an_archive_that_names_a_file_elsewhere_or_no_picture_is_not_unpacked(
    archive: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    members = {"clothing/images.csv": f"path,contributor\n{name},x\n", f"clothing/{name}": "evil"}
    write_members(tmp_path / "data", archive, members if archive == "clothing" else [name])
    with pytest.raises(DataError, match=rf"{archive}\.zip names .*; expected a picture's path within the folder"):
        unpack_archive(tmp_path / "data", archive, tmp_path / "out" / "pictures")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [f"{archive}.zip"]


@pytest.mark.parametrize("name", ["flowers/images.csv", "flowers/b.jpg"])
def test_no_more_of_a_member_is_unpacked_than_a_picture_may_have(name: str, tmp_path: Path) -> None:
    members = {"flowers/images.csv": b"path\na.jpg\nb.jpg\n", "flowers/a.jpg": b"a", "flowers/b.jpg": b"b"}
    write_members(tmp_path, "flowers", members | {name: bytes(200 << 20)})
    tracemalloc.start()
    with pytest.raises(DataError, match=f"has more than 33,554,432 bytes in '{name}'"):
        unpack_archive(tmp_path, "flowers", tmp_path / "out")
    assert tracemalloc.get_traced_memory()[1] < 110 << 20
    tracemalloc.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["flowers.zip"]


def test_an_archive_that_unpacks_to_many_times_its_size_leaves_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "trashnet.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for number in range(3):
            file.writestr(f"class_glass/{number}.jpg", bytes(20 * 2**20))
    with pytest.raises(DataError, match="holds more than 33,554,432 bytes of files"):
        unpack_archive(tmp_path, "trashnet", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["trashnet.zip"]


def test_missing_data_is_named_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DIPTYCH_DATA", raising=False)
    with pytest.raises(DataError, match=r"DIPTYCH_DATA, which is ''; set it to a folder"):
        data_folder()
    write_members(tmp_path, "flowers", ["flowers/readme.txt"])
    write_members(tmp_path, "trashnet", ["readme.txt"])
    write_members(tmp_path, "screens", ["glass/0.jpg"])
    for archive, said in (
        ("clothing", r"expected the archive clothing\.zip"),
        ("shoes", "no archive is called 'shoes'; known are clothing"),
        ("flowers", r"flowers\.zip has no flowers/images\.csv"),  # not taken for an empty one
        ("trashnet", r"trashnet\.zip has no GROUP/PICTURE\.jpg; see docs/data\.md"),
        ("screens", r"screens\.zip has 'glass/0\.jpg'; its pictures are expected in folders same_\* or class_\*"),
    ):
        with pytest.raises(DataError, match=said):
            list_photos(tmp_path, (archive,))


def test_a_same_group_is_one_subject_and_pictures_of_a_class_group_are_their_own(tmp_path: Path) -> None:
    write_members(tmp_path, "se_covers", ["same_cover/cover.jpg", "same_cover/cover.source.jpg", "class_other/0.jpg"])
    assert {row.kind for row in list_photos(tmp_path, ("se_covers",))} == {"se_covers"}
    assert unpack_archive(tmp_path, "se_covers", tmp_path / "out") == {"train": 0, "validation": 3, "test": 0}
    table = tmp_path / "out" / "validation.csv"
    assert read_column(table, "path") == ["class_other/0.jpg", "same_cover/cover.jpg", "same_cover/cover.source.jpg"]
    assert read_column(table, "class") == ["class_other/0.jpg", *["se_covers/same_cover"] * 2]


def test_groups_are_held_out_as_a_whole_or_by_the_stated_share(tmp_path: Path) -> None:
    for archive, share in GROUPED.items():
        write_members(tmp_path, archive, [f"class_one/{i}.jpg" for i in range(2_000)])
        splits = Counter(row.split for row in list_photos(tmp_path, (archive,)))
        assert splits["validation"] / 2_000 == pytest.approx(share, abs=0.0 if share == 1 else 0.025)
        assert splits["test"] == 0


def test_the_help_of_unpack_and_the_documentation_name_every_archive(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["unpack", "--help"])
    shown = capsys.readouterr().out
    written = (Path(__file__).parents[3] / "docs" / "data.md").read_text()
    for archive in (*ALL, *GROUPED):
        assert archive in shown
        assert f"| `{archive}.zip` |" in written


# How many photos each has, and how many of them are held out for validation.
COUNTS = {
    "clothing": (3320, 94), "flowers": (3667, 367), "goods": (725, 68), "grocery": (2030, 562), "abo_samples": (11, 11),
    "boofcv_views": (266, 266), "cards_coins": (1011, 1011), "lookalike_objects": (265, 265),
    "openimages_doors": (1117, 391), "photos_cc0": (19, 19), "screens": (762, 85), "se_covers": (213, 213),
    "sfm_sets": (129, 129), "trashnet": (2527, 261),
}  # fmt: skip


@pytest.mark.data
@pytest.mark.skipif("DIPTYCH_DATA" not in os.environ, reason="needs the archives that DIPTYCH_DATA names")
def test_the_archives_hold_what_their_readme_says() -> None:
    splits = {archive: Counter(row.split for row in list_photos(data_folder(), (archive,))) for archive in COUNTS}
    assert {archive: (held.total(), held["validation"]) for archive, held in splits.items()} == COUNTS


@pytest.mark.parametrize("archive", ["drawn", "documents"])
def test_pictures_that_a_program_draws_need_no_archive_and_are_held_out_by_family(
    archive, tmp_path, monkeypatch
) -> None:
    for name in ("DRAWN_PICTURES", "DOCUMENT_PICTURES"):
        monkeypatch.setattr(module, name, 400)  # of thousands
    found = Archives(8, tmp_path).load_photos((archive,))
    assert found.pixels.shape == (len(found.rows), 8, 8, 3)
    assert {row.kind for row in found.rows} == {archive}
    assert len({row.subject for row in found.rows}) == len(found.rows)
    splits: dict[str, set[str]] = {}
    for row in found.rows:
        splits.setdefault(row.name.rpartition("/")[0], set()).add(row.split)
    assert sorted(map(tuple, {frozenset(held) for held in splits.values()})) == [("train",), ("validation",)]


def test_a_table_keeps_further_columns_and_its_faults_are_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\ufeffpath,note\na.jpg,x\n", encoding="utf-8")  # a byte-order mark is no part of a name
    assert read_table(path, ["path"]) == [{"path": "a.jpg", "note": "x"}]
    assert read_column(path, "note") == ["x"]
    with pytest.raises(DataError, match="needs the columns label; it has path, note"):
        read_column(path, "label")
    with pytest.raises(DataError, match=r"the columns path, class at .*, which is no file"):
        read_table(tmp_path / "no.csv", ["path", "class"])
    path.write_text("path,note\na.jpg\n")
    with pytest.raises(DataError, match="line 2: expected 2 fields, got fewer"):
        read_table(path, ["path", "note"])
    path.write_bytes(b"path\n\xff\n")
    with pytest.raises(DataError, match=r"is not UTF-8 \(byte 5\)"):
        read_table(path, ["path"])
