"""Collections with planted copies: what they hold, and which of their pairs match."""

import zipfile

import numpy as np
import pytest
from PIL import Image

from diptych_studies.kinds import planted as module
from diptych_studies.kinds.planted import open_planted
from diptych_training.errors import DataError


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(module, "PICTURES", 12)
    monkeypatch.setattr(module, "DRAWN", 12)
    monkeypatch.setattr(module, "COPIES", 4)
    monkeypatch.setattr(module, "SIDE", 96)


@pytest.fixture
def archive(tmp_path):
    """Two shots of one thing, and three photos of a class."""
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "sfm_sets.zip", "w") as file:
        for name in ("same_mug/1.png", "same_mug/2.png", "class_cat/1.png", "class_cat/2.png", "class_cat/3.png"):
            with file.open(name, "w") as entry:
                Image.fromarray(rng.integers(0, 256, (40, 50, 3), np.uint8)).save(entry, "PNG")
    return tmp_path


def test_documents_are_drawn_copied_and_kept(small, tmp_path):
    found = open_planted("pages", tmp_path, tmp_path / "sets")
    assert len(found.names) == 12 + 2 * 4
    assert found.original[:12].tolist() == list(range(12))
    assert all((found.folder / name).is_file() for name in found.names)
    times = [(found.folder / name).stat().st_mtime_ns for name in found.names]
    again = open_planted("pages", tmp_path, tmp_path / "sets")
    assert [(again.folder / name).stat().st_mtime_ns for name in again.names] == times


def test_copies_match_to_either_question_and_other_shots_to_thing_alone(small, archive, tmp_path):
    found = open_planted("sfm_sets", archive, tmp_path / "sets")
    of_class, of_thing = (np.flatnonzero((found.group[:5] >= 0) == known) for known in (True, False))
    assert (len(of_class), len(of_thing)) == (3, 2)
    mugs, cats = of_thing[None], of_class[None, :2]
    assert not found.is_match(mugs, "copy").any()
    assert found.is_match(mugs, "thing").all()
    assert not found.is_unknown(mugs, "thing").any()
    assert not found.is_match(cats, "thing").any()
    assert found.is_unknown(cats, "thing").all()
    assert not found.is_unknown(cats, "copy").any()
    copies = np.array([(copy, found.original[copy]) for copy in range(5, len(found.names))])
    assert found.is_match(copies, "copy").all()
    assert found.is_match(copies, "thing").all()


def test_a_photo_that_an_archive_has_twice_is_a_copy_of_itself_to_either_question(small, tmp_path):
    rng = np.random.default_rng(0)
    photo, other = (Image.fromarray(rng.integers(0, 256, (5, 5, 3), np.uint8)).resize((90, 90)) for _ in range(2))
    with zipfile.ZipFile(tmp_path / "sfm_sets.zip", "w") as file:
        for name, picture in (("same_a/1", photo), ("same_b/1", other), ("same_b/2", photo)):
            with file.open(f"{name}.jpg", "w") as entry:
                picture.save(entry, "JPEG", quality=95 if name == "same_a/1" else 90)
    found = open_planted("sfm_sets", tmp_path, tmp_path / "sets")
    assert [found.original[0] == found.original[number] for number in range(3)] == [True, False, True]
    assert found.is_match(np.array([[0, 2], [1, 2]]), "thing").tolist() == [True, True]
    assert found.is_match(np.array([[0, 2], [1, 2]]), "copy").tolist() == [True, False]


def test_screenshots_are_one_where_no_pixel_differs(small, tmp_path):
    page = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    other = page.copy()
    other[20, 20] ^= 255
    with zipfile.ZipFile(tmp_path / "screens.zip", "w") as file:
        for name, pixels, level in (("same_a/1.png", page, 1), ("same_a/2.png", other, 1), ("same_b/1.png", page, 9)):
            with file.open(name, "w") as entry:
                Image.fromarray(pixels).save(entry, "PNG", compress_level=level)
    found = open_planted("screens", tmp_path, tmp_path / "sets")
    assert [found.original[0] == found.original[number] for number in range(3)] == [True, False, True]


def test_every_pair_of_copies_is_counted(small, tmp_path):
    found = open_planted("pages", tmp_path, tmp_path / "sets")
    pairs = np.array([(a, b) for b in range(len(found.names)) for a in range(b)])
    assert found.count_copies() == found.is_match(pairs, "copy").sum() >= 8


def test_unknown_kinds_are_refused(tmp_path):
    with pytest.raises(DataError, match="there is no kind 'stamps': kinds are clothing"):
        open_planted("stamps", tmp_path, tmp_path)


def test_variants_are_pictures_of_their_own_of_which_it_is_not_known_whether_they_show_the_same(
    small, tmp_path, monkeypatch
):
    monkeypatch.setattr(module, "SHOWN", ("trashnet",))
    rng = np.random.default_rng(0)
    with zipfile.ZipFile(tmp_path / "trashnet.zip", "w") as file:
        for number in range(120):  # one in ten is held out from training
            photo = np.full((48, 64, 3), 240, np.uint8)
            photo[12:36, 16:48] = rng.integers(0, 200, 3)
            with file.open(f"class_x/{number}.png", "w") as entry:
                Image.fromarray(photo).save(entry, "PNG")
    found = open_planted("variants", tmp_path, tmp_path / "sets")
    assert len(found.names) == 4 + 8 + 2 * 4
    assert set(found.original[12:].tolist()) <= set(range(4))  # copies are made of what has no variant
    twos = np.arange(4, 12).reshape(-1, 2)
    for one, other in twos:
        a, b = (np.asarray(Image.open(found.folder / found.names[place])).astype(int) for place in (one, other))
        assert 0.05 < (np.abs(a - b).max(-1) > 12).mean() < 0.6
    assert not found.is_match(twos, "thing").any()
    assert found.is_unknown(twos, "thing").all()
    assert not found.is_unknown(twos, "copy").any()
    assert not found.is_unknown(np.array([[0, 4], [4, 6]]), "thing").any()
