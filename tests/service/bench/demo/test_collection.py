import csv
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported import drawn_collection
from PIL import Image

from diptych.bench.demo.collection import draw_collection
from diptych_runtime.errors import DiptychError

COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "collection"
    drawn_collection(folder, COUNT)
    return folder


def truth(folder: Path) -> list[dict[str, str]]:
    with (folder / "truth.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def digests(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.rglob("*.*")}


def small(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB").resize((24, 24)), float)


def test_the_collection_has_the_count_asked_for_and_every_picture_is_a_jpeg_of_its_own(folder: Path) -> None:
    photos = sorted((folder / "photos").iterdir())
    assert len(photos) == COUNT
    for path in photos:
        with Image.open(path) as picture:
            assert picture.format == "JPEG"
            assert picture.mode == "RGB"
            if not path.stem.endswith("-copy"):
                assert 320 <= min(picture.size) <= max(picture.size) <= 480
    assert len(set(digests(folder).values())) == len(digests(folder))


def test_the_same_seed_draws_the_same_bytes_and_another_seed_other_pictures(tmp_path: Path) -> None:
    for name, seed in (("one", 3), ("again", 3), ("other", 4)):
        drawn = draw_collection(tmp_path / name, count=3, seed=seed)
        assert sorted(drawn) == sorted((tmp_path / name / "photos").iterdir())
    assert digests(tmp_path / "again") == digests(tmp_path / "one")
    assert not set(digests(tmp_path / "other").values()) & set(digests(tmp_path / "one").values())


def test_a_disk_that_takes_no_more_leaves_no_picture_cut_short_and_no_truth(folder: Path, tmp_path: Path) -> None:
    whole = digests(folder)
    shutil.copytree(folder, tmp_path / "again")
    line = [sys.executable, "-m", "diptych", "demo", str(tmp_path / "again"), "--count", str(COUNT)]
    limited = ["bash", "-c", 'ulimit -f 24; exec "$@"', "bash", *line]  # no file above 24 kB
    assert subprocess.run(limited, capture_output=True).returncode == 1
    left = {name: digest for name, digest in digests(tmp_path / "again").items() if name in whole}
    assert "truth.csv" not in left
    assert left.items() <= whole.items()


@pytest.mark.slow
def test_several_processes_draw_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    draw_collection(tmp_path / "two", count=COUNT, processes=2)
    assert digests(tmp_path / "two") == digests(folder)


def test_the_truth_names_every_query_once_and_only_pictures_that_are_there(folder: Path) -> None:
    rows = truth(folder)
    assert sorted(row["query"] for row in rows) == sorted(path.name for path in (folder / "queries").iterdir())
    references = [row["reference"] for row in rows if row["reference"]]
    assert len(references) == (COUNT - COUNT // 20) // 8
    assert len(set(references)) == len(references)
    assert all((folder / "photos" / name).is_file() for name in references)
    assert [row for row in rows if not row["reference"]], "some queries have no copy in the collection"


def test_a_query_without_reference_is_not_in_the_collection_but_its_look_alikes_are(folder: Path) -> None:
    for row in truth(folder):
        if not row["reference"]:
            assert not (folder / "photos" / row["query"]).exists()
            series = Path(row["query"]).stem[:-1]
            assert list((folder / "photos").glob(f"{series}?.jpg"))


def test_a_look_alike_is_nearer_in_colour_than_a_picture_of_another_kind(folder: Path) -> None:
    def mean_colour(name: str) -> np.ndarray:
        return small(folder / "photos" / name).mean((0, 1))

    names = [path.name for path in (folder / "photos").iterdir() if "-copy" not in path.name]
    series = {stem: [n for n in names if Path(n).stem[:-1] == stem] for stem in {Path(n).stem[:-1] for n in names}}
    alike = [np.abs(mean_colour(m[0]) - mean_colour(m[1])).mean() for m in series.values() if len(m) > 1]
    firsts = [m[0] for m in series.values()]
    unlike = [np.abs(mean_colour(a) - mean_colour(b)).mean() for a in firsts for b in firsts if a < b]
    assert len(alike) >= 5
    assert np.mean(alike) < 0.5 * np.mean(unlike)


def test_pictures_are_no_flat_drawings(folder: Path) -> None:
    for path in (folder / "photos").iterdir():
        with Image.open(path) as picture:
            assert len(np.unique(np.asarray(picture)[::5, ::5].reshape(-1, 3), axis=0)) > 200, path.name


def test_a_folder_with_foreign_files_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"mine")
    with pytest.raises(DiptychError, match=r"holds 1 file .*holiday\.jpg.*new or empty folder"):
        draw_collection(tmp_path, count=5)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["holiday.jpg"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiptychError, match="is a file"):
        draw_collection(tmp_path / "file", count=5)


def test_a_count_below_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DiptychError, match="at least 1 picture, got 0"):
        draw_collection(tmp_path / "none", count=0)
    assert not (tmp_path / "none").exists()


def test_drawing_again_into_its_own_folder_goes_on_where_it_was_interrupted(tmp_path: Path) -> None:
    draw_collection(tmp_path, count=3)
    before = digests(tmp_path)
    (tmp_path / "truth.csv").unlink()
    next((tmp_path / "photos").iterdir()).unlink()
    draw_collection(tmp_path, count=3)
    assert digests(tmp_path) == before
