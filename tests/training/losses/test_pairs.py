"""Examples of the network of losses: what is said to be lost, and what the network sees of it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diptych_runtime.closer_look.comparison import LOSSES, SIDE
from diptych_training.losses.pairs import draw_examples, find_losses
from diptych_training.losses.versions import PLACES, Version, make_original

FIRST = make_original(Image.new("RGB", (96, 64)))
DETAIL = np.ones((PLACES, PLACES))
ONE, OTHER = frozenset([1]), frozenset([2])


def without(share: float) -> np.ndarray:
    shown = np.ones((PLACES, PLACES), bool)
    shown[: round(share * PLACES)] = False
    return shown


def lost(kept: Version, going: Version, *, has_hues: bool = True) -> tuple[set[str], set[str]]:
    """What is lost with `going`, and of what nobody could say."""
    answers, weights = find_losses(kept, going, DETAIL, has_hues=has_hues)
    assert set(answers[weights > 0]) <= {0.0, 1.0}
    named = dict(zip(LOSSES, zip(answers, weights, strict=True), strict=True))
    assert {loss for loss, (answer, weight) in named.items() if answer and weight and loss != "anything"} or not (
        named["anything"][0] and named["anything"][1]
    )
    return (
        {loss for loss, (answer, weight) in named.items() if answer and weight} - {"anything"},
        {loss for loss, (_, weight) in named.items() if not weight},
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"shown": without(0.2)}, {"scope"}),
        ({"blur": 2.0}, {"sharpness"}),
        ({"softened": ONE}, {"sharpness"}),
        ({"colour": 0.0}, {"colours"}),
        ({"shades": 8}, {"shades"}),
        ({"quality": 30}, {"quality"}),
        ({"tones": ONE}, {"tones"}),
        ({"grain": ONE}, {"grain"}),
        ({"frames": ONE}, {"frame"}),
    ],
)
def test_what_an_edit_took_is_lost_with_the_original_and_nothing_with_the_copy(changes, expected):
    copy = replace(FIRST, **changes)
    assert lost(copy, FIRST) == (expected, set())
    assert lost(FIRST, copy) == (set(), set())
    assert lost(copy, copy) == (set(), set())


def test_of_two_edits_each_lacks_what_the_other_has():
    one, other = replace(FIRST, grain=ONE), replace(FIRST, tones=OTHER)
    assert (lost(one, other)[0], lost(other, one)[0]) == ({"grain"}, {"tones"})


def test_words_and_marks_are_lost_with_the_picture_that_has_them_and_hide_what_is_under_them():
    marked = replace(FIRST, marks=ONE)
    assert (lost(marked, FIRST)[0], lost(FIRST, marked)[0]) == ({"cleanness"}, {"part"})
    assert lost(marked, marked)[0] == set()


def test_a_part_that_shows_something_else_is_lost_either_way_and_so_is_a_scene_beside_it():
    assert lost(FIRST, replace(FIRST, parts=ONE))[0] == lost(replace(FIRST, parts=ONE), FIRST)[0] == {"part"}
    wider = replace(FIRST, scope=ONE, marks=ONE)
    assert (lost(FIRST, wider)[0], lost(wider, FIRST)[0]) == ({"scope", "part"}, {"cleanness"})


@pytest.mark.parametrize(
    ("changes", "has_hues", "loss"),
    [
        ({"shown": without(0.008)}, True, "scope"),
        ({"blur": 0.65}, True, "sharpness"),
        ({"colour": 0.9}, True, "colours"),
        ({"colour": 0.0}, False, "colours"),
        ({"quality": 70}, True, "quality"),
        ({"shades": 200.0}, True, "shades"),
    ],
)
def test_what_nobody_could_see_does_not_count_nor_whether_anything_is_lost(changes, has_hues, loss):
    assert lost(replace(FIRST, **changes), FIRST, has_hues=has_hues) == (set(), {loss, "anything"})


def test_the_same_seed_draws_the_same_examples_from_documents_and_archives(archives: Path):
    drawn = [
        draw_examples(9, [seed], ("documents", "flowers"), 8, ("writing", "covers"), archives, "train")
        for seed in (1, 1, 2)
    ]
    for one, again in zip(*drawn[:2], strict=True):
        assert all(np.array_equal(first, second) for first, second in zip(one, again, strict=True))
    assert not np.array_equal(drawn[0][0].views, drawn[2][0].views)
    for example in drawn[0]:
        assert (example.views.shape, example.views.dtype) == ((2, 2, SIDE, SIDE, 8), np.uint8)
        assert example.views[:, 0, ..., 7].any()
    assert {float(answer) for example in drawn[0] for answer in example.answers[:, -1]} == {0.0, 1.0}
