import csv
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_training.edits import EDITS, edit_picture, picture_names, write_queries
from diptych_training.errors import DataError


@pytest.fixture
def folder(tmp_path: Path, photo_bytes) -> Path:
    for i in range(6):
        (tmp_path / "photos" / "deep").mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / ("deep" if i % 2 else ".") / f"{i}.jpg").write_bytes(photo_bytes(i, (120, 90)))
    (tmp_path / "photos" / "notes.txt").write_text("not a picture")
    return tmp_path / "photos"


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_gives_another_rgb_picture_and_leaves_the_photo_alone(name: str, photo) -> None:
    picture = photo(3, (160, 120))
    before = picture.tobytes()
    changed = EDITS[name](picture, np.random.default_rng(0))
    assert changed.mode == "RGB"
    assert changed.size != picture.size or changed.tobytes() != before
    assert picture.tobytes() == before


def test_one_to_three_different_edits_are_applied_and_named(photo) -> None:
    rng = np.random.default_rng(0)
    chosen = [edit_picture(photo(1), rng)[1] for _ in range(40)]
    assert {len(names) for names in chosen} == {1, 2, 3}
    assert all(len(set(names)) == len(names) for names in chosen)
    assert {name for names in chosen for name in names} == set(EDITS)


def test_queries_and_their_truth_are_written_and_the_same_seed_writes_the_same(folder: Path, tmp_path: Path) -> None:
    truth = write_queries(folder, tmp_path / "one", count=4, seed=3)
    write_queries(folder, tmp_path / "two", count=4, seed=3)
    with (tmp_path / "one" / "truth.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == truth
    assert len({row["reference"] for row in truth}) == 4
    for row in truth:
        assert (folder / row["reference"]).is_file()
        assert (tmp_path / "one" / row["query"]).read_bytes() == (tmp_path / "two" / row["query"]).read_bytes()
        Image.open(tmp_path / "one" / row["query"]).load()


def test_queries_are_chosen_only_among_the_photos_named(folder: Path, tmp_path: Path) -> None:
    truth = write_queries(folder, tmp_path / "out", count=2, among=["0.jpg", "deep/1.jpg"])
    assert {row["reference"] for row in truth} == {"0.jpg", "deep/1.jpg"}


def test_only_pictures_are_listed_relative_to_the_folder(folder: Path) -> None:
    assert picture_names(folder) == ["0.jpg", "2.jpg", "4.jpg", "deep/1.jpg", "deep/3.jpg", "deep/5.jpg"]


def test_too_few_photos_a_full_folder_and_no_folder_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="7 queries need as many photos to choose from, got 6"):
        write_queries(folder, tmp_path / "out", count=7)
    with pytest.raises(DataError, match="is not empty"):
        write_queries(folder, folder, count=2)
    with pytest.raises(DataError, match="expected a folder of pictures"):
        picture_names(tmp_path / "nowhere")
