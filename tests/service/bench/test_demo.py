"""The demonstration collection: what is drawn, and that a drawing which was ended goes on to the same bytes."""

import csv
import hashlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from exported import drawn_collection
from PIL import Image
from waiting import until

from diptych.bench.demo import collection
from diptych.bench.demo.collection import draw_collection
from diptych.bench.demo.drawing import SCENES, Canvas
from diptych.bench.demo.edits import EDITS, edit_copy
from diptych.cli.main import main
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
    picture = scene("landscape", 1, 1)
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
            if not path.stem.endswith("-copy"):
                assert 320 <= min(picture.size) <= max(picture.size) <= 480
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


def test_a_look_alike_is_nearer_in_colour_than_a_picture_of_another_kind(folder: Path) -> None:
    series: dict[str, list[np.ndarray]] = {}
    for path in (folder / "photos").iterdir():
        if "-copy" not in path.name:
            with Image.open(path) as picture:
                series.setdefault(path.stem[:-1], []).append(np.asarray(picture, float).mean((0, 1)))
    alike = [np.abs(one - other).mean() for one, other, *_ in (each for each in series.values() if len(each) > 1)]
    firsts = [each[0] for each in series.values()]
    unlike = [np.abs(a - b).mean() for place, a in enumerate(firsts) for b in firsts[:place]]
    assert len(alike) >= 5
    assert np.mean(alike) < 0.5 * np.mean(unlike)


@pytest.mark.slow
def test_several_processes_draw_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    draw_collection(tmp_path / "two", count=COUNT, processes=2)
    assert digests(tmp_path / "two") == digests(folder)


def test_another_seed_draws_other_pictures(folder: Path, tmp_path: Path) -> None:
    drawn = draw_collection(tmp_path / "other", count=3, seed=4)
    assert sorted(drawn) == sorted((tmp_path / "other" / "photos").iterdir())
    assert not set(digests(tmp_path / "other").values()) & set(digests(folder).values())


def test_what_cannot_be_drawn_into_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.jpg").write_bytes(b"mine")
    (tmp_path / "file").write_text("")
    for name, count, said in (
        (".", 5, r"holds 2 files .*new or empty folder"),
        ("file", 5, "is a file"),
        ("none", 0, "at least 1 picture, got 0"),
    ):
        with pytest.raises(DiptychError, match=said):
            draw_collection(tmp_path / name, count=count)
    assert sorted(digests(tmp_path)) == ["file", "photos/holiday.jpg"]


def test_a_disk_that_takes_no_more_leaves_no_picture_cut_short_and_no_truth(folder: Path, tmp_path: Path) -> None:
    whole = digests(folder)
    shutil.copytree(folder, tmp_path / "again")
    line = [sys.executable, "-m", "diptych", "demo", str(tmp_path / "again"), "--count", str(COUNT)]
    limited = ["bash", "-c", 'ulimit -f 24; exec "$@"', "bash", *line]  # no file above 24 kB
    assert subprocess.run(limited, capture_output=True).returncode == 1
    left = {name: digest for name, digest in digests(tmp_path / "again").items() if name in whole}
    assert "truth.csv" not in left
    assert left.items() <= whole.items()


@pytest.mark.parametrize(
    "sent", [signal.SIGKILL, *(pytest.param(sent, marks=pytest.mark.slow) for sent in (signal.SIGINT, signal.SIGTERM))]
)
def test_a_drawing_that_was_ended_goes_on_to_the_same_bytes(folder, environment, tmp_path, sent):
    line = [sys.executable, "-m", "diptych", "demo", str(tmp_path), "--count", str(COUNT)]
    with subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(list(tmp_path.glob("photos/*.jpg"))) > 3, 30)
        process.send_signal(sent)
        said = process.communicate()[1]
    assert ("the same command goes on from here" in said) == (sent != signal.SIGKILL)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("photos/*.jpg")}
    assert 3 < len(kept) < COUNT
    assert not (tmp_path / "truth.csv").exists()
    draw_collection(tmp_path, count=COUNT, processes=2)
    assert digests(tmp_path) == digests(folder)
    assert all(path.stat().st_mtime_ns == then for path, then in kept.items())


@pytest.mark.parametrize(("seed", "program"), [(2, b""), (1, b"another")])
def test_what_other_settings_or_another_program_have_drawn_is_drawn_anew(tmp_path, monkeypatch, seed, program):
    def interrupt(after: int, seed: int, program: bytes = b"") -> None:
        """Ctrl-C when a drawing, perhaps by another program, has so many pictures more."""
        draw, left = collection._draw_picture, iter(range(after))

        def stop_or_draw(*args):
            if next(left, None) is None:
                raise KeyboardInterrupt
            return draw(*args)

        with monkeypatch.context() as patch:
            patch.setattr(collection, "_draw_picture", stop_or_draw)
            if program:
                patch.setattr(collection, "_describe_drawing", lambda *_: program)
            assert main(["demo", str(tmp_path / "again"), "--count", "4", "--seed", str(seed)]) == 130

    draw_collection(tmp_path / "whole", count=4, seed=1)
    interrupt(2, seed, program)
    interrupt(1, 1)
    assert len(list((tmp_path / "again/photos").iterdir())) == 1, "pictures of two drawings lie side by side"
    draw_collection(tmp_path / "again", count=4, seed=1)
    assert digests(tmp_path / "again") == digests(tmp_path / "whole")
