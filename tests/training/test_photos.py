import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from diptych_training.errors import DataError
from diptych_training.photos import SPLITS, data_folder, list_photos, load_photos, split_of, unpack
from diptych_training.tables import read_column

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
