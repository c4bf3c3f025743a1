"""The demonstration collection: what is drawn, and that the same words draw the same bytes."""

import csv
import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported import drawn_collection
from PIL import Image
from waiting import until

from diptych.bench.demo.collection import draw_collection
from diptych.bench.demo.drawing import SCENES, Canvas
from diptych.bench.demo.edits import EDITS, edit_copy
from diptych_runtime.errors import DiptychError

COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "collection"
    drawn_collection(folder, COUNT)
    return folder


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def scene(name: str, layout: int, details: int) -> Image.Image:
    painted = Canvas(160, 120, np.random.default_rng(details))
    SCENES[name](painted, np.random.default_rng(layout))
    return painted.finish()


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_the_same_for_the_same_numbers_and_another_for_others(name: str) -> None:
    first = scene(name, 1, 1).tobytes()
    assert scene(name, 1, 1).tobytes() == first
    assert len({first, scene(name, 1, 2).tobytes(), *(scene(name, layout, 2).tobytes() for layout in range(2, 9))}) > 7


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_the_copy_and_not_the_picture(name: str) -> None:
    picture = scene("flowers", 1, 1)
    before = picture.tobytes()
    for copy in (EDITS[name](picture, np.random.default_rng(5)), edit_copy(picture, np.random.default_rng(5))):
        assert picture.tobytes() == before
        assert copy.mode == "RGB"
        assert copy.size != picture.size or copy.tobytes() != before


def test_the_collection_has_the_count_asked_for_and_every_picture_is_a_jpeg_of_its_own(folder: Path) -> None:
    photos = sorted((folder / "photos").iterdir())
    assert len(photos) == COUNT
    for path in photos:
        with Image.open(path) as picture:
            assert (picture.format, picture.mode) == ("JPEG", "RGB")
            colours = np.unique(np.asarray(picture)[::5, ::5].reshape(-1, 3), axis=0)
            assert len(colours) > 200, "it is no flat drawing"
    assert len(set(digests(folder).values())) == len(digests(folder))


def test_the_truth_names_every_query_once_and_a_picture_that_is_there_or_none(folder: Path) -> None:
    with (folder / "truth.csv").open(newline="") as file:
        truth = {row["query"]: row["reference"] for row in csv.DictReader(file)}
    assert sorted(truth) == sorted(path.name for path in (folder / "queries").iterdir())
    references = [reference for reference in truth.values() if reference]
    assert len(references) == len(set(references)) == (COUNT - COUNT // 20) // 8
    assert all((folder / "photos" / name).is_file() for name in references)
    strangers = [query for query, reference in truth.items() if not reference]
    assert strangers
    for query in strangers:  # which have look-alikes there
        assert not (folder / "photos" / query).exists()
        assert list((folder / "photos").glob(f"{Path(query).stem[:-1]}?.jpg"))


def test_another_seed_draws_other_pictures(folder: Path, tmp_path: Path) -> None:
    draw_collection(tmp_path / "other", count=3, seed=4)
    assert not set(digests(tmp_path / "other").values()) & set(digests(folder).values())


def test_what_cannot_be_drawn_into_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"mine")
    (tmp_path / "file").write_text("")
    for name, count in ((".", 5), ("file", 5), ("none", 0)):
        with pytest.raises(DiptychError):
            draw_collection(tmp_path / name, count=count)
    assert sorted(digests(tmp_path)) == ["file", "photos/holiday.jpg"]


def test_a_drawing_that_was_killed_has_whole_pictures_and_no_truth_and_is_drawn_again(folder, environment, tmp_path):
    line = [sys.executable, "-m", "diptych", "demo", str(tmp_path), "--count", str(COUNT)]
    with subprocess.Popen(line, env=environment) as process:
        until(lambda: len(list(tmp_path.glob("photos/*.jpg"))) > 3, 30)
        process.kill()
    assert not (tmp_path / "truth.csv").exists()
    whole = digests(folder)
    assert {name: digest for name, digest in digests(tmp_path).items() if name in whole}.items() <= whole.items()
    draw_collection(tmp_path, count=COUNT)
    assert digests(tmp_path) == whole


def test_a_demonstration_names_its_places_and_can_be_drawn_again_when_it_was_indexed_there(diptych, tmp_path) -> None:
    drawn = diptych("demo", tmp_path, "--count", "2", "--json").json
    assert (drawn["count"], len(list(Path(drawn["photos"]).iterdir())), Path(drawn["truth"]).is_file()) == (2, 2, True)
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "kept").write_text("")
    again = diptych("demo", tmp_path, "--count", "2")
    assert again.code == 0, again.err
    assert f"--store {tmp_path / 'store'}" in again.out
    assert (tmp_path / "store" / "kept").exists()
