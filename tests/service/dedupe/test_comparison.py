"""Each measure on a drawn picture and an edit of it that it is for, whichever of the two comes first."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter

from diptych.dedupe.comparison import Comparison, Side, compare_pixels

WIDTH, HEIGHT = 480, 360
WHOLE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float64)


def scene(seed: int = 1) -> np.ndarray:
    """Coarse shapes and hues all over, uint8 (360, 480, 3), and from the middle on to the right fine detail."""
    rng = np.random.default_rng(seed)
    right = np.clip((np.arange(WIDTH) - WIDTH / 4) / (WIDTH / 4), 0, 1)[None, :, None]
    total = np.full((HEIGHT, WIDTH, 3), 128.0)
    for step in (120, 60, 30, 15, 8, 4, 2):
        grid = rng.normal(size=(HEIGHT // step + 2, WIDTH // step + 2, 3)).astype(np.float32)
        shapes = cv2.resize(grid, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
        total += 2.5 * step**0.6 * shapes * (right if step < 30 else 1)
    return np.clip(total, 0, 255).astype(np.uint8)


def saved(picture: np.ndarray, quality: int) -> np.ndarray:
    """The picture as JPEG, decoded."""
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer).convert("RGB"))


def cropped(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A tenth of each side cut off, and where the corners of the whole lie in that."""
    inner = picture[HEIGHT // 10 : -HEIGHT // 10, WIDTH // 10 : -WIDTH // 10].copy()
    return inner, (WHOLE - 0.1) / 0.8


def barred(picture: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Black bars above and below, and where the corners of the picture lie between them."""
    framed = np.zeros((HEIGHT + 100, WIDTH, 3), np.uint8)
    framed[50:-50] = picture
    return framed, (WHOLE * (1, HEIGHT) + (0, 50)) / (1, HEIGHT + 100)


def captioned(picture: np.ndarray) -> np.ndarray:
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.rectangle((60, 280, 420, 340), fill="white")
    draw.text((80, 290), "some words on it", fill="black", font_size=36)
    return np.asarray(image)


def smaller(picture: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).resize((WIDTH // 2, HEIGHT // 2), Image.Resampling.LANCZOS))


def blurred(picture: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).filter(ImageFilter.GaussianBlur(2)))


def grey(picture: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(picture).convert("L").convert("RGB"))


def inverse(corners: np.ndarray) -> np.ndarray:
    """Where the corners of the second picture lie in the first, if those of the first lie here in the second."""
    moved = cv2.getPerspectiveTransform(corners.astype(np.float32), WHOLE.astype(np.float32))
    return cv2.perspectiveTransform(WHOLE[None], moved.astype(np.float64))[0]


def compare(a: np.ndarray, b: np.ndarray, corners: np.ndarray = WHOLE) -> Comparison:
    found = compare_pixels(a, b, corners)
    assert found is not None
    return found


# Of each edit: the pictures as (edited, corners), and what is true of the measures of the original and of the edited.
MEASURES = {
    "a crop shows less": (
        cropped,
        lambda one, other: one.outside == pytest.approx(0.36, abs=0.02) and not other.outside,
    ),
    "a bar is drawn around": (
        barred,
        lambda one, other: other.drawn_around and other.outside > 0.2 and not one.outside,
    ),
    "a smaller one has fewer pixels": (smaller, lambda one, other: (one.pixels, other.pixels) == (2.0, 0.5)),
    "a blurred one lacks detail": (blurred, lambda one, other: other.lack > 0.7 and one.lack < 0.1),
    "a grey one has no hues": (grey, lambda one, other: one.colour > 30 and other.colour < 1e-6),
    "a posterised one has lost shades": (
        lambda picture: picture // 64 * 64 + 32,
        lambda one, other: other.flattened > 10 and one.flattened < 1,
    ),
    "a compressed one has blocks": (
        lambda picture: saved(picture, 30),
        lambda one, other: other.blocks > 1 and one.blocks == 0,
    ),
    "a caption is drawn on it": (captioned, lambda one, other: other.is_marked and not one.is_marked),
}


@pytest.fixture(scope="module")
def original() -> np.ndarray:
    return scene()


@pytest.mark.parametrize("law", MEASURES)
def test_a_measure_answers_for_the_side_that_was_edited_in_both_orders(original, law):
    edit, holds = MEASURES[law]
    made = edit(original)
    edited, corners = made if isinstance(made, tuple) else (made, WHOLE)
    seen = compare(original, edited, corners)
    assert not seen.equal
    assert not seen.a.drawn_around
    assert holds(seen.a, seen.b)
    assert not holds(seen.b, seen.a), "it tells the two apart"
    again = compare(edited, original, inverse(corners))
    assert holds(again.b, again.a)
    assert again.swapped.differing == pytest.approx(seen.differing, abs=0.01)
    assert again.swapped.tone == pytest.approx(seen.tone, abs=0.5)


QUARTERS = {
    "as it is": (lambda picture: picture.copy(), WHOLE, False, 0),
    "mirrored": (lambda picture: picture[:, ::-1], WHOLE[[1, 0, 3, 2]], True, 0),
    "turned by a quarter": (lambda picture: np.rot90(picture, -1), np.roll(WHOLE, -1, 0), False, 90),
    "upside down": (lambda picture: picture[::-1, ::-1], np.roll(WHOLE, -2, 0), False, 180),
}


@pytest.mark.parametrize("turn", QUARTERS)
def test_the_same_pixels_turned_or_mirrored_are_equal(original, turn):
    edit, corners, mirrored, angle = QUARTERS[turn]
    seen = compare(original, np.ascontiguousarray(edit(original)), corners)
    assert (seen.equal, seen.mirrored, abs(seen.angle)) == (True, mirrored, pytest.approx(angle, abs=1e-6))
    assert (seen.a, seen.b) == (Side(), Side())


def test_corners_that_are_nearly_whole_are(original):
    assert compare(original, original[:, ::-1].copy(), WHOLE[[1, 0, 3, 2]] + 0.01).equal


def test_swapping_twice_is_the_same_and_sides_change_places(original):
    seen = compare(original, *cropped(original))
    assert seen.swapped.swapped == seen
    assert (seen.swapped.a, seen.swapped.b) == (seen.b, seen.a)
    turned = Comparison(Side(pixels=2.0), Side(pixels=0.5), angle=30.0)
    assert (turned.swapped.angle, Comparison(Side(), Side(), mirrored=True, angle=30.0).swapped.angle) == (-30.0, 30.0)


def test_tones_that_differ_are_no_marks(original):
    seen = compare(original, np.clip(original * 1.2, 0, 255).astype(np.uint8))
    assert (seen.tone > 15, seen.a.is_marked, seen.b.is_marked) == (True, False, False)


def test_what_is_saved_well_keeps_its_detail(original):
    seen = compare(original, saved(original, 97))
    assert (seen.equal, seen.differing) == (False, 0)
    assert seen.coherence > 0.8
    assert max(abs(seen.a.lack), abs(seen.b.lack)) < 0.25


def test_pictures_that_cannot_be_laid_over_each_other_are_not_compared(original):
    assert compare_pixels(original, scene(2), None) is None
    assert compare_pixels(original, scene(2), WHOLE + 0.95) is None, "what overlaps is too little"


def test_a_comparison_comes_back_from_json(original):
    seen = compare(original, *barred(original))
    assert Comparison.from_json(seen.as_json()) == seen
    with pytest.raises(TypeError):
        Comparison.from_json(seen.as_json() | {"sharp": 1})
