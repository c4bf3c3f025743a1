"""Tables of what was seen of two pictures, or what their files hold, and which of them may go."""

from typing import Any

import pytest

from diptych.dedupe.replacement import UNKNOWN, better_because, can_replace, is_likelier_original, name_edits
from diptych_runtime.closer_look.comparison import NOTHING, Comparison, Side


def side(*lost: str, open: bool = False, **measures: float) -> Side:
    """One of two pictures with which surely this is lost where it goes, or nothing; or else nobody can tell."""
    odds = NOTHING.losses | dict.fromkeys(lost, 4.0) | ({"anything": 4.0} if lost else {})
    return Side(odds | ({"anything": -1.0} if open else {}), **measures)


# What is lost with one picture, and the reason for which it is kept.
ADVANTAGES: list[tuple[str, str]] = [
    ("scope", "it shows more"),
    ("sharpness", "sharper"),
    ("colours", "its colours"),
    ("shades", "more shades"),
    ("quality", "less compressed"),
    ("tones", "its tones"),
    ("grain", "neither sharpened nor noisy"),
    ("part", "they differ in a part"),
    ("frame", "nothing around it"),
]
# A picture by the facts of its file, and another one for which it cannot go.
HELD = [
    ({"frames": 12}, {}, "more frames or pages"),
    ({"trailing": 4000}, {}, "a film or other data behind the picture"),
    ({"bits": 16}, {}, "finer shades"),
    ({"has_alpha": True}, {}, "its transparency"),
    ({}, {"is_damaged": True}, "an undamaged file"),
    ({"descriptions": "0000000a 0000000b"}, {"descriptions": "0000000b"}, "words or a place in its file"),
]


@pytest.mark.parametrize(("loss", "why"), ADVANTAGES)
def test_the_better_one_can_stand_for_the_other_and_not_the_other_way(picture, loss, why):
    one, other, seen = picture(), picture(), Comparison(side(loss), NOTHING)
    assert can_replace(one, other, seen) is None
    assert better_because(one, other, seen) == why
    assert can_replace(other, one, seen.with_sides_swapped) == why
    assert better_because(other, one, seen.with_sides_swapped) is None


def test_where_nothing_is_lost_with_either_the_one_of_fewer_pixels_goes(picture):
    one, other = picture(), picture()
    for ratio, why in ((0.98, None), (0.5, "more pixels")):
        seen = Comparison(side(pixels=1 / ratio), side(pixels=ratio))
        assert (can_replace(one, other, seen), better_because(one, other, seen)) == (None, why)
        turned = seen.with_sides_swapped
        assert (can_replace(other, one, turned), better_because(other, one, turned)) == (why, None)


@pytest.mark.parametrize("facts", [{"frames": 3}, {"has_alpha": True}, {"bits": 16}])
def test_what_is_more_than_a_comparison_sees_goes_for_none_but_the_same_bytes(picture, facts):
    one, other, same = picture(**facts), picture(**facts), Comparison(NOTHING, NOTHING, equal=True)
    assert can_replace(one, other, same) == "its further frames, transparency or finer shades were not compared"
    assert can_replace(one, picture(id=one.id, **facts), None) is None


def test_of_two_alike_the_one_that_was_saved_without_loss_is_better(picture):
    one, other = picture(is_lossless=True), picture()
    assert better_because(one, other, Comparison(NOTHING, NOTHING)) == "saved without loss"
    assert better_because(other, one, Comparison(NOTHING, NOTHING)) is None
    assert better_because(one, other, Comparison(NOTHING, NOTHING, equal=True)) is None
    assert better_because(one, other, Comparison(side(pixels=0.5), side(pixels=2.0))) is None


@pytest.mark.parametrize(("better", "worse", "why"), HELD)
def test_what_only_one_file_holds_stays_even_where_all_pixels_agree(picture, better, worse, why):
    one, other = picture(**better), picture(**worse)
    same = Comparison(NOTHING, NOTHING, equal=True)
    assert can_replace(other, one, same) == why
    assert can_replace(other, one, None) == why
    assert can_replace(one, other, same) is None
    assert better_because(one, other, same) == why


@pytest.mark.parametrize(
    ("one", "other", "facts", "is_first"),
    [
        (side("colours"), NOTHING, {}, True),
        (side("part"), side("part"), {}, False),
        (side("part", "cleanness"), side("part"), {}, True),
        (NOTHING, side("shades"), {"frames": 12}, True),
        (side("scope"), NOTHING, {"is_damaged": True}, False),
    ],
)
def test_the_likelier_original_has_what_no_other_file_holds_or_shows_better(picture, one, other, facts, is_first):
    first, second, seen = picture(**facts), picture(), Comparison(one, other)
    assert is_likelier_original(first, second, seen) == is_first
    assert is_likelier_original(second, first, seen.with_sides_swapped) == (not is_first and one != other)
    assert not is_likelier_original(first, second, None)


def test_pictures_that_were_not_compared_both_stay_but_exact_copies(picture):
    one, other = picture(), picture()
    assert can_replace(one, other, None) == UNKNOWN
    assert better_because(one, other, None) is None
    assert can_replace(one, picture(id=one.id, frames=3), None) is None
    assert better_because(one, picture(id=one.id), None) is None
    assert name_edits(one, picture(id=one.id), None) == name_edits(one, other, None) == []


@pytest.mark.parametrize(
    ("kept", "going", "facts", "why"),
    [
        (NOTHING, side(open=True), {}, UNKNOWN),
        (side("scope"), side("frame"), {}, "nothing around it"),
        (side("part"), side("part"), {}, "they differ in a part"),
        (side(hues=9.0), side("tones", "colours", hues=0.2), {}, None),
        (side(hues=9.0), side("sharpness", hues=0.2), {}, "sharper"),
        (side("tones"), side("tones", "part"), {}, "its tones"),
        (side("cleanness"), NOTHING, {}, "something is drawn or written on it"),
        (side("scope"), side("scope"), {}, "it shows more"),
        (side("sharpness", pixels=2.0), side(pixels=0.5), {"mirrored": True}, "they do not lie the same way"),
        (side("sharpness", pixels=2.0), side(pixels=0.5), {"angle": 90.0}, "they do not lie the same way"),
    ],
)
def test_what_is_open_or_only_one_has_leaves_both(picture, kept, going, facts, why):
    assert can_replace(picture(), picture(), Comparison(kept, going, **facts)) == why


EDITS: list[tuple[Side, Side, dict[str, Any], list[str]]] = [
    (NOTHING, NOTHING, {"equal": True}, ["the same pixels"]),
    (NOTHING, NOTHING, {"equal": True, "mirrored": True, "angle": 90.0}, ["mirrored", "turned by 90°"]),
    (side("scope"), side("scope"), {}, ["showing more", "cropped"]),
    (NOTHING, side("scope"), {}, ["showing more"]),
    (side("sharpness", pixels=2.0), side(pixels=0.5), {"mirrored": True}, ["mirrored", "smaller"]),
    (side(pixels=0.5), side(pixels=2.0), {}, ["larger"]),
    (side("part"), side("part"), {}, ["different in a part"]),
    (side("sharpness"), NOTHING, {}, ["blurred"]),
    (side("quality"), NOTHING, {}, ["saved with loss"]),
    (NOTHING, NOTHING, {"angle": 2.0}, ["other pixels"]),
    (NOTHING, NOTHING, {"angle": -12.4}, ["turned by 12°"]),
]


@pytest.mark.parametrize(("kept", "going", "facts", "edits"), EDITS)
def test_edits_are_named_from_what_was_seen(picture, kept, going, facts, edits):
    assert name_edits(picture(), picture(), Comparison(kept, going, **facts)) == edits
