"""What each of two copies shows that the other lacks: of each edit, on a drawn picture that nothing learnt from."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from diptych.bench.demo.collection import draw_scenes
from diptych_runtime.closer_look.comparison import LOSSES, NOTHING, Comparison, Side, compare_pixels

WHOLE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)


def cropped(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tenth of each side cut off, and where the corners of the whole lie in that."""
    height, width = picture.shape[:2]
    rows, columns = (slice(side // 10, side - side // 10) for side in (height, width))
    corners = (WHOLE * (width, height) - (columns.start, rows.start)) / (
        columns.stop - columns.start,
        rows.stop - rows.start,
    )
    return picture[rows, columns].copy(), corners


def barred(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Black bars above and below, and where the corners of the picture lie between them."""
    height, width = picture.shape[:2]
    framed = np.zeros((height + 100, width, 3), np.uint8)
    framed[50:-50] = picture
    return framed, (WHOLE * (1, height) + (0, 50)) / (1, height + 100)


def captioned(picture: np.ndarray) -> np.ndarray:
    image = Image.fromarray(picture)
    place = image.width / 2, 0.85 * image.height
    rim = {"stroke_width": 2, "stroke_fill": "black"}
    ImageDraw.Draw(image).text(place, "some words on it", fill="white", font_size=36, anchor="mm", **rim)
    return np.asarray(image)


def saved(picture: np.ndarray) -> np.ndarray:
    Image.fromarray(picture).save(buffer := io.BytesIO(), "JPEG", quality=15)
    return np.asarray(Image.open(buffer).convert("RGB"))


def inverse(corners: np.ndarray) -> np.ndarray:
    """Where the corners of the second picture lie in the first, if those of the first lie here in the second."""
    moved = cv2.getPerspectiveTransform(corners.astype(np.float32), WHOLE.astype(np.float32))
    return cv2.perspectiveTransform(WHOLE[None], moved.astype(np.float64))[0]


def compare(a: np.ndarray, b: np.ndarray, corners: np.ndarray = WHOLE) -> Comparison:
    found = compare_pixels(a, b, corners)
    assert found is not None
    return found


# Of each edit what the original has and the edited picture lacks.
EDITS = {
    "scope": cropped,
    "sharpness": lambda picture: np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(3))),
    "colours": lambda picture: np.asarray(Image.fromarray(picture).convert("L").convert("RGB")),
    "shades": lambda picture: picture // 64 * 64,
    "quality": saved,
}


@pytest.fixture(scope="module")
def originals() -> list[np.ndarray]:
    # Of several hues: of a picture in one, such as a night, the grey version might be the original.
    return [np.asarray(scene) for scene in draw_scenes(2, seed=8)]


@pytest.mark.parametrize("loss", EDITS)
def test_what_an_edit_takes_is_lost_with_the_original_and_nothing_with_the_copy_in_both_orders(originals, loss):
    for original in originals:
        made = EDITS[loss](original)
        edited, corners = made if isinstance(made, tuple) else (made, WHOLE)
        seen, again = compare(original, edited, corners), compare(edited, original, inverse(corners))
        for one, other in ((seen.a, seen.b), (again.b, again.a)):
            assert one.losses["anything"] > other.losses["anything"]
            assert one.losses[loss] > other.losses[loss]
            assert one.losses[loss] > 0 or loss in ("colours", "shades"), "of which a drawn scene has few"


def test_words_are_lost_with_the_picture_that_has_them(originals):
    for original in originals:
        seen = compare(original, captioned(original))
        assert seen.a.losses["cleanness"] > 0 > seen.b.losses["cleanness"]
        assert min(seen.a.losses["anything"], seen.b.losses["anything"]) > 0


def test_bars_lie_around_the_other_and_nothing_is_lost_with_them(originals):
    for original in originals:
        seen = compare(original, *barred(original))
        assert seen.a.losses["frame"] > 0 > seen.b.losses["frame"]
        assert seen.a.losses["anything"] > 0 > seen.b.losses["anything"]


QUARTERS = {
    "as it is": (lambda picture: picture.copy(), WHOLE, False, 0),
    "mirrored": (lambda picture: picture[:, ::-1], WHOLE[[1, 0, 3, 2]], True, 0),
    "turned by a quarter": (lambda picture: np.rot90(picture, -1), np.roll(WHOLE, -1, 0), False, 90),
    "upside down": (lambda picture: picture[::-1, ::-1], np.roll(WHOLE, -2, 0), False, 180),
}


@pytest.mark.parametrize("turn", QUARTERS)
def test_the_same_pixels_turned_or_mirrored_are_equal(originals, turn):
    edit, corners, mirrored, angle = QUARTERS[turn]
    seen = compare(originals[0], np.ascontiguousarray(edit(originals[0])), corners)
    assert (seen.equal, seen.mirrored, abs(seen.angle)) == (True, mirrored, pytest.approx(angle, abs=1e-6))
    assert (seen.a, seen.b) == (NOTHING, NOTHING)


def test_small_and_narrow_pictures_can_be_compared():
    rng = np.random.default_rng(1)
    for shape in ((20, 30, 3), (9, 900, 3), (300, 40, 3)):
        one = rng.integers(256, size=shape, dtype=np.uint8)
        seen = compare_pixels(one, one // 2, WHOLE)
        assert seen is None or set(seen.a.losses) == set(LOSSES)


def test_pictures_that_cannot_be_laid_over_each_other_are_not_compared(originals):
    assert compare_pixels(originals[0], originals[1], None) is None
    assert compare_pixels(originals[0], originals[1], WHOLE + 0.95) is None, "what overlaps is too little"


def test_a_comparison_comes_back_from_json(originals):
    seen = compare(originals[0], *barred(originals[0]))
    assert Comparison.from_json(seen.as_json()) == seen
    with pytest.raises(TypeError):
        Comparison.from_json(seen.as_json() | {"sharp": 1})
    assert Side(NOTHING.losses) == NOTHING
