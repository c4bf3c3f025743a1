"""A closer look: what two pictures laid over each other say, on pictures drawn here."""

import re
from dataclasses import asdict, replace
from functools import cache
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont, ImageOps

from diptych_runtime.calibration.evidence import (
    FEWEST,
    NUMBERS,
    SQUARE,
    Evidence,
    Verification,
    corners_by,
)
from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.closer_look.homography import import_opencv
from diptych_runtime.closer_look.verification import _shared_areas, describe, verify

WORDS = re.findall(
    "[a-z]+", "quick brown foxes jump over one lazy dog while many small birds sing in tall green trees near stone"
)
FONTS = {size: ImageFont.load_default(size) for size in (20, 24)}


def page(seed: int, other: int | None = None) -> Image.Image:
    """A page of words; with `other` the same page but for its ninth line."""
    rng = np.random.default_rng(seed)
    lines = [" ".join(rng.choice(WORDS, 8)) for _ in range(18)]
    if other is not None:
        lines[8] = " ".join(np.random.default_rng(other).choice(WORDS, 8))
    picture = Image.new("RGB", (480, 600), "white")
    draw = ImageDraw.Draw(picture)
    for number, line in enumerate(lines):
        draw.text((30, 30 + 30 * number), line, "black", FONTS[20])
    return picture


def shapes(seed: int) -> Image.Image:
    """Rectangles and words on each other."""
    return _shapes(seed).copy()


@cache
def _shapes(seed: int) -> Image.Image:
    rng = np.random.default_rng(seed)
    picture = Image.new("RGB", (480, 600), "white")
    draw = ImageDraw.Draw(picture)
    for _ in range(120):
        x, y, width, height = (int(value) for value in rng.integers((-40, -40, 8, 8), (460, 580, 120, 120)))
        draw.rectangle((x, y, x + width, y + height), tuple(rng.integers(0, 256, 3).tolist()))
        draw.text((x, y), str(rng.choice(WORDS)), "black", FONTS[24])
    return picture


def look(a: Image.Image, b: Image.Image) -> Evidence:
    return verify(describe(a), describe(b))


@pytest.mark.parametrize(
    "edit",
    [
        lambda p: p.crop((0, 100, 480, 420)),
        lambda p: p.rotate(7, Image.Resampling.BICUBIC, expand=True, fillcolor="white"),
        lambda p: p.resize((300, 520)),
        ImageOps.mirror,
    ],
    ids=["crop", "rotated", "squashed", "mirrored"],
)
def test_a_copy_lies_on_its_original(edit):
    seen = look(shapes(1), edit(shapes(1)))
    assert seen.is_registered
    assert seen.aligned_odds > 1
    assert seen.containment > 0.9


def test_the_order_does_not_matter_nor_what_was_looked_at_before():
    a, b = describe(shapes(1)), describe(shapes(1).crop((20, 50, 400, 500)))
    expected = verify(a, b)
    verify(describe(page(5)), describe(page(6)))
    assert verify(describe(shapes(1)), describe(shapes(1).crop((20, 50, 400, 500)))) == expected
    back = verify(b, a).with_sides_swapped
    assert replace(back, corners=expected.corners) == expected
    assert np.array(back.corners) == pytest.approx(np.array(expected.corners), abs=1e-3)


@pytest.mark.parametrize("picture", [Image.new("RGB", (300, 200), "white"), Image.new("RGB", (9, 9))])
def test_where_nothing_is_to_be_seen_only_colours_are_compared(picture):
    assert look(picture, picture) == Evidence(0, identical=True, equal=True)
    other = look(picture, page(1))
    assert other == Evidence(0, apart=other.apart)
    assert (other.apart > 200) == (picture.getpixel((0, 0)) == (0, 0, 0))


@pytest.mark.parametrize(
    ("one", "other", "limit"),
    [
        ("white", "#fafafa", 0.5),
        ("#0000fe", "white", 1e-3),
        ("#0000fe", "black", 1e-3),
        ("#808080", "#b08080", 0.01),
        ("#808080", "#868686", 0.5),
    ],
)
def test_plain_pictures_are_as_different_as_their_colours(one, other, limit):
    seen = look(Image.new("RGB", (300, 200), one), Image.new("RGB", (200, 300), other))
    shown = verification(bias=9.0).shown_relevance(np.array([0.99]), [seen])[0]
    assert shown <= limit
    assert limit < 0.5 or shown == 0.5, "nobody can say more"


STRIPES = Image.fromarray(np.array([[0, 255] * 100] * 150, np.uint8).repeat(3, 1).repeat(2, 0)).convert("RGB")


@pytest.mark.parametrize("picture", [Image.new("RGB", (300, 200), "white"), STRIPES, page(1)])
def test_equal_pixels_are_the_same_however_they_are_written(picture):
    files = [saved(picture, kind, **options) for kind, options in LOSSLESS]
    for data in files[1:]:
        seen = verify(describe(files[0]), describe(data))
        assert seen.equal
        assert verification(bias=-9.0).shown_relevance(np.array([0.99]), [seen])[0] == 1.0
    touched = picture.copy()
    touched.putpixel((5, 5), tuple(value ^ 1 for value in picture.getpixel((5, 5))))
    assert not verify(describe(files[0]), describe(saved(touched, "PNG"))).equal


LOSSLESS = [
    ("PNG", {}),
    ("PNG", {"compress_level": 1}),
    ("BMP", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("WEBP", {"lossless": True}),
]


def saved(picture: Image.Image, kind: str, **options) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()


def test_files_of_several_frames_are_copies_only_where_all_agree():
    frames = [shapes(seed).resize((120, 150)) for seed in range(3)]
    others = [frames[0], shapes(10).resize((120, 150)), frames[2]]

    def animation(pictures: list[Image.Image], kind: str) -> bytes:
        return saved(pictures[0], kind, save_all=True, append_images=pictures[1:])

    whole = describe(animation(frames, "PNG"))
    again, still = describe(animation(frames, "TIFF")), describe(saved(frames[0], "PNG"))
    assert [verify(whole, one).frames_differ for one in (again, still)] == [False, False]
    seen = verify(whole, describe(animation(others, "PNG")))
    assert seen.equal
    assert seen.frames_differ
    assert verification(bias=9.0).shown_relevance(np.array([0.99]), [seen])[0] < 0.8, "below all thresholds"


def verification(**weights: float) -> Verification:
    return Verification(0.9, dict.fromkeys(NUMBERS, 0.0) | weights, {"0.001": 0.8, "0.0001": 0.95})


def test_a_probability_is_a_logistic_regression_on_the_numbers():
    seen = [Evidence(300, 40, 30, aligned_odds=odds) for odds in (-1.0, 2.0)]
    relevance = np.array([0.95, 0.99])
    fitted = verification(bias=0.1, odds=0.2, registered=0.3, aligned_odds=0.4)
    odds = 0.1 + 0.2 * log_odds(relevance) + 0.3 + 0.4 * np.array([-1.0, 2.0])
    assert fitted.relevance(relevance, seen) == pytest.approx(1 / (1 + np.exp(-odds)))
    assert verification(odds=1.0).relevance(relevance, seen) == pytest.approx(relevance)
    assert verification(odds=1.0).relevance(np.array([1.0]), seen[:1])[0] == pytest.approx(1 - 1e-6)


def test_what_cannot_be_laid_over_each_other_passes_no_threshold():
    fitted = verification(odds=1.0)
    assert fitted.relevance(np.array([0.3, 0.99]), [Evidence(FEWEST)] * 2) == pytest.approx([0.3, 0.8])
    assert fitted.relevance(np.array([0.3, 0.99]), [Evidence(FEWEST - 1)] * 2) == pytest.approx([0.3, 0.5])


def test_what_deserves_no_look_is_judged_by_the_same_numbers_and_below_all_thresholds():
    fitted = verification(bias=-1.0, odds=0.5, registered=9.0)
    known = np.array([0.1, 0.5, 0.89])
    odds = 0.5 * log_odds(known) - 1
    assert fitted.shown_relevance(known, [None] * 3) == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-7)
    sure = replace(fitted, weights=fitted.weights | {"bias": 9.0})
    assert (sure.shown_relevance(known, [None] * 3) == sure.limit_without_look).all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"above": 1.0}, "needs the weights bias, odds"),
        ({"weights": {"bias": 1.0, "blurs": 1.0}}, "needs the weights bias, odds"),
        ({"weights": dict.fromkeys(NUMBERS, float("nan"))}, "needs finite weights"),
        ({"weights": dict.fromkeys(NUMBERS, -1.0)}, "that of the odds 0 or more"),
    ],
)
def test_a_verification_that_is_none_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        Verification(**(asdict(verification()) | wrong))


def written(picture: Image.Image, **options) -> Image.Image:
    """A picture as JPEG has it."""
    buffer = BytesIO()
    picture.save(buffer, "JPEG", **options)
    return Image.open(buffer)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_the_corners_of_a_crop_lie_where_it_was_cut_and_those_of_its_original_beyond_it(mirrored, swapped):
    whole = shapes(3)
    width, height = whole.size
    box = round(0.2 * width), round(0.1 * height), round(0.8 * width), round(0.9 * height)
    crop = whole.crop(box)
    crop = ImageOps.mirror(crop) if mirrored else crop
    (left, right), (top, bottom) = np.array(box[::2]) / width, np.array(box[1::2]) / height
    left, right = (right, left) if mirrored else (left, right)
    square = np.array([(0, 0), (1, 0), (1, 1), (0, 1)])
    within = square * (right - left, bottom - top) + (left, top)
    beyond = (square - (left, top)) / (right - left, bottom - top)
    pair = [describe(picture) for picture in ((whole, crop) if swapped else (crop, whole))]
    seen = verify(*pair)
    assert np.array(seen.corners) == pytest.approx(beyond if swapped else within, abs=0.02)
    assert np.array(seen.with_sides_swapped.corners) == pytest.approx(within if swapped else beyond, abs=0.04)


def test_two_pictures_share_what_points_of_both_do_though_one_reaches_beyond_the_horizon_of_the_other():
    corners = ((0.1, 0.2), (0.5, 0.45), (0.5, 0.55), (0.1, 0.8))  # their sides meet at x = 0.58
    moved = import_opencv().getPerspectiveTransform(*(np.array(one, np.float32) for one in (SQUARE, corners)))
    assert np.array(corners_by(moved)) == pytest.approx(np.array(corners), abs=1e-4)
    assert _shared_areas(moved) == pytest.approx((1, 0.4 * (0.6 + 0.1) / 2), abs=1e-4)
    aside = {across: _shared_areas(np.array([[1, 0, across], [0, 1, 0], [0, 0, 1]])) for across in (0.75, 1.25)}
    assert aside == {0.75: pytest.approx((0.25, 0.25)), 1.25: (0, 0)}


def test_without_the_look_that_it_deserves_no_pair_is_the_same():
    one = Verification(0.5, dict.fromkeys(NUMBERS, 0.0), {"0.01": 0.8, "0.001": 0.97})
    assert 0.9699 < one.shown_relevance(np.array([0.9999]), [None])[0] < 0.97
