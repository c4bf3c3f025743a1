"""A closer look: what two pictures laid over each other say, on pictures drawn here."""

import re
from dataclasses import asdict, replace
from functools import cache
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

from diptych_runtime.calibration.evidence import (
    FEATURES,
    FEWEST,
    KEYPOINTS,
    Evidence,
    Hidden,
    Verification,
    feature_rows,
)
from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.closer_look.verification import describe, placement, verify

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
    assert seen.agreement > 0.9
    assert seen.containment > 0.9
    assert seen.error < 2


def test_one_other_line_is_seen():
    same, other = look(page(1), page(1).resize((470, 590))), look(page(1), page(1, other=3))
    assert other.is_registered
    assert (other.worst, other.detail) < (same.worst - 0.05, same.detail)
    assert other.detail < same.detail - 0.02


def test_one_part_in_another_colour_is_seen_and_a_brighter_picture_is_not():
    picture, changed = page(1), page(1)
    ImageDraw.Draw(picture).rectangle((60, 100, 300, 400), "darkred")
    ImageDraw.Draw(changed).rectangle((60, 100, 300, 400), "darkgreen")
    brighter = ImageEnhance.Brightness(picture).enhance(1.2)
    assert look(picture, changed).recoloured > 0.05
    assert look(picture, brighter).recoloured < 0.02


def test_the_order_does_not_matter_nor_what_was_looked_at_before():
    a, b = describe(shapes(1)), describe(shapes(1).crop((20, 50, 400, 500)))
    expected = verify(a, b)
    verify(describe(page(5)), describe(page(6)))
    assert verify(b, a) == expected == verify(describe(shapes(1)), describe(shapes(1).crop((20, 50, 400, 500))))


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
    return Verification(0.9, dict.fromkeys(FEATURES, 0.0) | weights, {"0.001": 0.8, "0.0001": 0.95})


def test_a_probability_is_a_logistic_regression_on_the_features():
    seen = [replace(Evidence(300, 40, 30, 0.5), agreement=agreement) for agreement in (0.5, 0.9)]
    relevance = np.array([0.95, 0.99])
    weights = {name: 0.1 * place for place, name in enumerate(FEATURES)}
    odds = feature_rows(relevance, seen) @ np.array(list(weights.values()))
    assert verification(**weights).relevance(relevance, seen) == pytest.approx(1 / (1 + np.exp(-odds)))
    assert verification(odds=4.0).relevance(relevance, seen) == pytest.approx(relevance)
    assert verification(odds=4.0).relevance(np.array([1.0]), seen[:1])[0] == pytest.approx(1 - 1e-6)


def test_what_cannot_be_laid_over_each_other_passes_no_threshold():
    fitted = verification(odds=4.0)
    assert fitted.relevance(np.array([0.3, 0.99]), [Evidence(FEWEST)] * 2) == pytest.approx([0.3, 0.8])
    assert fitted.relevance(np.array([0.3, 0.99]), [Evidence(FEWEST - 1)] * 2) == pytest.approx([0.3, 0.5])


def test_windows_beside_each_other_are_no_copies_but_of_one_thing():
    wide = Image.new("RGB", (960, 600))
    for place in (0, 480):
        wide.paste(shapes(place), (place, 0))
    fitted = verification(odds=4.0, registered=5.0)
    for shift, beside in ((100, False), (260, True)):
        seen = look(wide.crop((0, 0, 480, 600)), wide.crop((shift, 0, 480 + shift, 600)))
        assert seen.containment == pytest.approx(1 - shift / 480, abs=0.02)
        assert (seen.is_registered, seen.is_beside) == (True, beside)
        assert fitted.relevance(np.array([0.99]), [seen])[0] > 0.99
        assert (fitted.shown_relevance(np.array([0.99]), [seen])[0] < min(fitted.thresholds.values())) == beside


def test_what_deserves_no_look_has_a_line_of_its_own():
    fitted = replace(verification(odds=4.0), apart={"bias": -1.0, "odds": 0.5})
    known = np.array([0.1, 0.5, 0.89])
    odds = 0.5 * np.log(known / (1 - known)) - 1
    assert fitted.shown_relevance(known, [None] * 3) == pytest.approx(1 / (1 + np.exp(-odds)), abs=1e-7)
    # Never above what the network took for likelier, and what was looked at in vain.
    fitted = replace(verification(odds=4.0, unmatched=-3.0), apart={"bias": 0.0, "odds": 1.0})
    in_vain = fitted.shown_relevance(np.array([0.9]), [Evidence(KEYPOINTS)])[0]
    assert in_vain < 0.5
    assert fitted.shown_relevance(np.array([0.1, 0.5, 0.89]), [None] * 3) == pytest.approx([0.1, in_vain, in_vain])
    assert (
        fitted.shown_relevance(np.array([0.95]), [None])
        == verification(odds=4.0).shown_relevance(np.array([0.95]), [None])
    ).all()


HIDDEN = {"features": ("registered", "spot"), "weights": ((1.0, -2.0), (0.5, 1.0)), "out": (1.0, -1.0)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"features": ("registered", "blurs")}, "features are each one of .*, once; got 'blurs'"),
        ({"out": (1.0,)}, "a row of 2 weights, .*; got 2 rows for 1 units"),
        ({"weights": ((1.0, -2.0), (0.5,))}, "got 2 rows for 2 units, one of 1 weights"),
        ({"weights": ((1.0, float("inf")), (0.5, 1.0))}, "needs finite weights"),
    ],
)
def test_a_hidden_layer_adds_to_the_odds_and_one_that_is_none_is_refused(wrong, message):
    plain, seen = verification(), [Evidence(300, 100, 60, 0.4, spot=0.3)]
    one, other = (each.relevance(np.array([0.95]), seen) for each in (replace(plain, hidden=Hidden(**HIDDEN)), plain))
    assert log_odds(one) - log_odds(other) == pytest.approx([max(0, 1 - 2 * 0.3) - (0.5 + 0.3)])
    with pytest.raises(ValueError, match=message):
        Hidden(**(HIDDEN | wrong))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"above": 1.0}, "needs weights of bias, odds"),
        ({"weights": {"bias": 1.0, "blurs": 1.0}}, "needs weights of bias, odds"),
        ({"weights": {"bias": float("nan")}}, "needs finite weights"),
        ({"in_collection": {"0.01": 0.1}}, "in a collection must not be lower than 0.8"),
        ({"apart": {"bias": 1.0}}, "'apart' needs the weights bias, odds"),
        ({"apart": {"bias": 0.0, "odds": -1.0}}, "'apart' needs the weights bias, odds, the last 0 or more"),
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


@pytest.mark.parametrize(
    ("picture", "copied"),
    [
        (page(1), lambda picture: written(picture, quality=90)),
        (page(1), ImageOps.mirror),
        (shapes(1), lambda picture: ImageOps.scale(picture, 0.75)),
    ],
    ids=["page written", "page mirrored", "shapes smaller"],
)
def test_what_is_only_written_scaled_or_mirrored_is_unaltered_and_called_the_same(picture, copied):
    seen = look(copied(picture), picture)
    assert seen.is_unaltered
    weights = dict.fromkeys(FEATURES, 0.0)
    judged = Verification(0.1, weights, {"0.01": 0.8, "0.001": 0.9935617000000001}).shown_relevance(
        np.array([0.9]), [seen]
    )
    assert judged >= 0.9935617000000001
    assert judged < 0.99357


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (lambda: page(1), lambda: page(1, 2)),
        (lambda: shapes(1), lambda: ImageEnhance.Color(shapes(1)).enhance(0.2)),
        (lambda: shapes(1), lambda: shapes(1).crop((60, 40, 400, 300))),
    ],
    ids=["another line", "other colours", "a crop"],
)
def test_what_was_edited_is_not_unaltered(a, b):
    assert not look(a(), b()).is_unaltered


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
    assert placement(*pair) == pytest.approx(beyond if swapped else within, abs=0.02)


def test_without_the_look_that_it_deserves_no_pair_is_the_same_by_itself_or_in_a_collection():
    low, high = {"0.01": 0.8, "0.001": 0.97}, {"0.01": 0.8, "0.001": 0.99}
    for stated, together in ((low, high), (high, low), (low, {})):
        one = Verification(0.5, dict.fromkeys(FEATURES, 0.0), stated, in_collection=together)
        assert 0.9699 < one.shown_relevance(np.array([0.9999]), [None])[0] < 0.97
