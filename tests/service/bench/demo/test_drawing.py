import numpy as np
import pytest
from PIL import Image, ImageChops

from diptych.bench.demo.drawing import indoors, outdoors
from diptych.bench.demo.drawing.canvas import Canvas, box, ellipse, mix, stroke
from diptych.bench.demo.drawing.edits import EDITS, edited

SCENES = {**outdoors.SCENES, **indoors.SCENES}


def canvas(width: int = 96, height: int = 48, seed: int = 0) -> Canvas:
    return Canvas(width, height, np.random.default_rng(seed))


def scene(name: str, layout: int, details: int) -> Image.Image:
    painted = canvas(160, 120, details)
    SCENES[name](painted, np.random.default_rng(layout))
    return painted.finish()


def test_one_unit_is_the_height_of_the_picture() -> None:
    painted = canvas()
    painted.paint(box(1.5, 0.25, 2.0, 0.75), (0.0, 0.0, 0.0))
    assert np.all(painted.pixels[13:35, 73:95] == 0)
    assert np.all(painted.pixels[:, :71] == 1)
    assert np.all(painted.pixels[:11] == 1)


def test_a_shape_covers_its_area_whatever_falls_between_pixels() -> None:
    painted = canvas(200, 200)
    painted.paint(ellipse(0.503, 0.497, 0.31, 0.17, turn=0.4, corners=200), (0.0, 0.0, 0.0))
    assert (1 - painted.pixels[..., 0]).mean() == pytest.approx(np.pi * 0.31 * 0.17, rel=0.01)


def test_a_shape_beside_the_canvas_changes_nothing() -> None:
    painted = canvas()
    painted.paint(box(-2, -2, -1, -1), (0.0, 0.0, 0.0))
    painted.paint(stroke((5, 5), (6, 6), 0.1), (0.0, 0.0, 0.0), soft=0.05)
    assert np.all(painted.pixels == 1)


def test_a_soft_shape_fades_and_keeps_its_light() -> None:
    hard, soft = canvas(200, 200), canvas(200, 200)
    hard.paint(box(0.3, 0.3, 0.7, 0.7), (0.0, 0.0, 0.0))
    soft.paint(box(0.3, 0.3, 0.7, 0.7), (0.0, 0.0, 0.0), soft=0.03)
    assert soft.pixels.mean() == pytest.approx(hard.pixels.mean(), abs=0.01)
    assert 0.3 < soft.pixels[100, 60, 0] < 0.7


def test_a_gradient_goes_from_stop_to_stop_and_a_glow_never_burns_out() -> None:
    painted = canvas()
    painted.wash(painted.gradient((0, (0.0, 0.2, 0.4)), (1, (1.0, 0.2, 0.0))))
    assert painted.pixels[0, 0] == pytest.approx([0, 0.2, 0.4], abs=0.02)
    assert painted.pixels[-1, 7] == pytest.approx([1, 0.2, 0.0], abs=0.02)
    painted.glow(1.0, 0.5, 0.3, (1.0, 1.0, 1.0), 1.0)
    assert painted.pixels.max() <= 1
    assert painted.pixels[24, 48] == pytest.approx([1, 1, 1], abs=0.02)


def test_mixing_two_colours_begins_with_the_first_and_ends_with_the_second() -> None:
    assert mix((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), 0) == (0.1, 0.2, 0.3)
    assert mix((0.1, 0.2, 0.3), (0.5, 0.6, 0.7), 1) == pytest.approx((0.5, 0.6, 0.7))


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
