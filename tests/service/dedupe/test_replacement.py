"""Tables of what was seen of two pictures, or what their files hold, and which of them may go."""

from typing import Any

import pytest

from diptych.dedupe.comparison import Comparison, Side
from diptych.dedupe.replacement import UNKNOWN, better_because, can_replace, name_edits

PLAIN = Side()
FRAMED = Side(outside=0.2, drawn_around=True)
# Of the picture that has something before the other: the two sides, and the reason.
ADVANTAGES = [
    (Side(outside=0.2), PLAIN, "it shows more"),
    (PLAIN, Side(is_marked=True), "nothing drawn on it"),
    (PLAIN, FRAMED, "nothing around it"),
    (Side(pixels=2.0), Side(pixels=0.5), "more pixels"),
    (Side(colour=30), Side(colour=1), "its colours"),
    (PLAIN, Side(lack=0.5), "sharper"),
    (PLAIN, Side(flattened=5), "more shades"),
    (PLAIN, Side(noise=25), "more shades"),
    (PLAIN, Side(blocks=0.5), "less compressed"),
]
# Neither has anything before the other.
TIES = [
    (PLAIN, PLAIN),
    (Side(outside=0.02), PLAIN),
    (Side(pixels=1.02), Side(pixels=0.98)),
    (Side(colour=30), Side(colour=25)),
    (Side(lack=0.3), Side(lack=0.35)),
    (Side(flattened=1), Side(flattened=2)),
    (Side(blocks=0.2), Side(blocks=0.3)),
    (Side(is_marked=True), Side(is_marked=True)),
]
# A picture by the facts of its file, and another one for which it cannot go.
HELD = [
    ({"frames": 12}, {}, "more frames or pages"),
    ({"trailing": 4000}, {}, "a film or other data behind the picture"),
    ({"bits": 16}, {}, "finer shades"),
    ({"has_alpha": True}, {}, "its transparency"),
    ({}, {"is_damaged": True}, "an undamaged file"),
]


def seen(a: Side, b: Side, **facts: Any) -> Comparison:
    return Comparison(a, b, **{"coherence": 0.5, **facts})


@pytest.mark.parametrize(("better", "worse", "why"), ADVANTAGES)
def test_the_better_one_can_stand_for_the_other_and_not_the_other_way(picture, better, worse, why):
    one, other = picture(), picture()
    assert can_replace(one, other, seen(better, worse)) is None
    assert better_because(one, other, seen(better, worse)) == why
    assert can_replace(other, one, seen(worse, better)) == why
    assert better_because(other, one, seen(worse, better)) is None


@pytest.mark.parametrize(("a", "b"), TIES)
def test_where_neither_has_more_each_can_stand_for_the_other(picture, a, b):
    one, other = picture(), picture()
    for kept, going, said in ((one, other, seen(a, b)), (other, one, seen(b, a))):
        assert (can_replace(kept, going, said), better_because(kept, going, said)) == (None, None)


@pytest.mark.parametrize(("better", "worse", "why"), HELD)
def test_what_only_one_file_holds_stays_even_where_all_pixels_agree(picture, better, worse, why):
    one, other = picture(**better), picture(**worse)
    same = Comparison(PLAIN, PLAIN, equal=True)
    assert can_replace(other, one, same) == why
    assert can_replace(other, one, None) == why
    assert can_replace(one, other, same) is None
    assert better_because(one, other, same) == why


def test_pictures_that_were_not_compared_both_stay_but_exact_copies(picture):
    one, other = picture(), picture()
    assert can_replace(one, other, None) == UNKNOWN
    assert better_because(one, other, None) is None
    assert can_replace(one, picture(id=one.id, frames=3), None) is None
    assert better_because(one, picture(id=one.id), None) is None


@pytest.mark.parametrize(
    ("kept", "going", "facts", "why"),
    [
        (PLAIN, PLAIN, {"differing": 0.01}, "they differ in a part"),
        (PLAIN, Side(is_marked=True), {"differing": 0.01}, None),
        (PLAIN, Side(lack=0.5), {"coherence": 0.95}, "one may have been sharpened"),
        (PLAIN, PLAIN, {"tone": 6}, "their tones differ"),
        (Side(pixels=2.0), Side(pixels=0.5), {"tone": 6}, "their tones differ"),
        (Side(pixels=2.0, noise=3), Side(pixels=0.5, noise=1), {}, "one is noisier"),
        (Side(soft=0.1), Side(soft=0.1), {}, "sharper in a part"),
        (Side(pixels=1.5, blocks=1.0), Side(pixels=0.6), {}, "far less compressed"),
        (Side(pixels=2.0), Side(pixels=0.5), {"mirrored": True}, "they do not lie the same way"),
        (Side(pixels=2.0), Side(pixels=0.5), {"angle": 90.0}, "they do not lie the same way"),
        (PLAIN, Side(margin=0.2), {}, "one has a margin that the other lacks"),
        (Side(noise=3), Side(noise=1), {}, "one is noisier"),
        (Side(pixels=2.0, lack=0.2), Side(pixels=0.5), {}, "sharper for its size"),
        # Blocks count only where nothing else does.
        (Side(blocks=0.5), Side(outside=0.2, drawn_around=True), {}, None),
        # What is lost below the steps of few shades is neither detail nor hues.
        (Side(colour=20), Side(flattened=9, colour=90, lack=-2), {}, None),
        (PLAIN, Side(flattened=9, colour=30, lack=-2), {}, "its colours"),
        (Side(outside=0.2), Side(outside=0.2), {}, "it shows more"),
        (Side(is_marked=True, pixels=2.0), Side(pixels=0.5), {"differing": 0.01}, "nothing drawn on it"),
    ],
)
def test_what_is_open_or_only_one_has_leaves_both(picture, kept, going, facts, why):
    assert can_replace(picture(), picture(), seen(kept, going, **facts)) == why


@pytest.mark.parametrize(
    ("kept", "going", "facts", "edits"),
    [
        (PLAIN, PLAIN, {"equal": True}, ["the same pixels"]),
        (PLAIN, PLAIN, {"equal": True, "mirrored": True, "angle": 90.0}, ["mirrored", "turned by 90°"]),
        (Side(outside=0.3), PLAIN, {}, ["cropped"]),
        (Side(outside=0.3), Side(outside=0.2), {}, ["cropped"]),
        (PLAIN, Side(outside=0.3), {}, ["showing more"]),
        (PLAIN, FRAMED, {}, ["framed"]),
        (Side(pixels=2.0), Side(pixels=0.5), {"mirrored": True}, ["mirrored", "smaller"]),
        (Side(pixels=0.5), Side(pixels=2.0), {}, ["larger"]),
        (Side(colour=30), Side(colour=1), {}, ["without its colours"]),
        (PLAIN, Side(is_marked=True), {"differing": 0.1}, ["with something drawn on it"]),
        (PLAIN, PLAIN, {"differing": 0.1}, ["different in a part"]),
        (PLAIN, Side(lack=0.5), {}, ["blurred"]),
        (PLAIN, Side(flattened=5), {}, ["with fewer shades"]),
        (PLAIN, PLAIN, {"tone": 9}, ["with other tones"]),
        (PLAIN, PLAIN, {"angle": 2.0}, ["saved again"]),
        (PLAIN, PLAIN, {"angle": -12.4}, ["turned by 12°"]),
    ],
)
def test_edits_are_named_from_what_was_seen(picture, kept, going, facts, edits):
    assert name_edits(picture(), picture(), seen(kept, going, **facts)) == edits


def test_exact_copies_and_what_was_not_compared_have_no_edits(picture):
    one = picture()
    assert name_edits(one, picture(id=one.id), None) == []
    assert name_edits(one, picture(), None) == []
