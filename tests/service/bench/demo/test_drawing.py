import numpy as np
import pytest
from PIL import Image, ImageChops

from diptych.bench.demo.drawing import indoors, outdoors
from diptych.bench.demo.drawing.canvas import Canvas
from diptych.bench.demo.drawing.edits import EDITS, edited

SCENES = {**outdoors.SCENES, **indoors.SCENES}


def canvas(width: int = 96, height: int = 48, seed: int = 0) -> Canvas:
    return Canvas(width, height, np.random.default_rng(seed))


def scene(name: str, layout: int, details: int) -> Image.Image:
    painted = canvas(160, 120, details)
    SCENES[name](painted, np.random.default_rng(layout))
    return painted.finish()


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_is_the_same_for_the_same_numbers_and_differs_in_its_details(name: str) -> None:
    first, again, sibling, stranger = scene(name, 1, 1), scene(name, 1, 1), scene(name, 1, 2), scene(name, 8, 2)
    assert first.size == (160, 120)
    assert ImageChops.difference(first, again).getbbox() is None
    assert ImageChops.difference(first, sibling).getbbox() is not None
    assert ImageChops.difference(sibling, stranger).getbbox() is not None


@pytest.mark.parametrize("name", EDITS)
def test_every_edit_changes_the_copy_and_not_the_picture(name: str) -> None:
    picture = scene("landscape", 1, 1)
    before = picture.tobytes()
    copy = EDITS[name](picture, np.random.default_rng(5))
    assert picture.tobytes() == before
    assert copy.mode == "RGB"
    assert copy.size != picture.size or copy.tobytes() != before


def test_an_edited_copy_names_one_to_three_different_edits() -> None:
    picture = scene("coast", 1, 1)
    for seed in range(12):
        copy, names = edited(picture, np.random.default_rng(seed))
        assert 1 <= len(names) == len(set(names)) <= 3
        assert set(names) <= set(EDITS)
        assert copy.mode == "RGB"
        assert min(copy.size) > 40


@pytest.mark.parametrize("name", SCENES)
def test_almost_every_layout_of_a_scene_gives_a_picture_of_its_own(name: str) -> None:
    assert len({scene(name, layout, 0).tobytes() for layout in range(12)}) > 10
