import pytest

from diptych.dedupe.keeper import (
    DEFAULT,
    RULES,
    checked_rules,
    preference_order,
    preferred_reason,
)
from diptych.errors import DedupeError

BETTER = {
    "resolution": ({"width": 800}, {"width": 640}),
    "with-exif": ({"exif": 1}, {"exif": 0}),
    "format": ({"format": "PNG"}, {"format": "WEBP"}),
    "exif": ({"exif": 9}, {"exif": 2}),
    "oldest": ({"taken": 5.0}, {"taken": 6.0}),
    "newest": ({"taken": 6.0}, {"taken": 5.0}),
    "largest": ({"bytes": 2000}, {"bytes": 1000}),
    "shortest": ({"path": "/z.jpg"}, {"path": "/a/b.jpg"}),
    "first-dir": ({"root": 0}, {"root": 1}),
}


def test_every_rule_is_tried_below_and_a_format_that_nobody_ranked_comes_last(picture):
    assert BETTER.keys() == RULES.keys()
    assert set(DEFAULT) <= RULES.keys()
    assert preference_order([picture(format="XYZ"), picture(format="GIF")], ["format"]) == [1, 0]


def test_one_rule_is_a_text_and_several_a_sequence(picture):
    assert checked_rules("resolution") == ("resolution",)
    assert preference_order([picture(width=640), picture(width=800)], "resolution") == [1, 0]
    with pytest.raises(DedupeError, match=r"'resolutoin' is not a rule .*; did you mean resolution\?"):
        checked_rules("resolutoin")


@pytest.mark.parametrize("rule", BETTER)
def test_a_rule_prefers_what_it_says_whichever_comes_first_and_is_the_reason(picture, rule):
    good, bad = (picture(**facts) for facts in BETTER[rule])
    assert preference_order([good, bad], [rule]) == [0, 1]
    assert preference_order([bad, good], [rule]) == [1, 0]
    assert (preferred_reason(good, bad, [rule]), preferred_reason(bad, good, [rule])) == (RULES[rule].reason, None)
    assert preferred_reason(good, good, [rule]) is None


def test_a_later_rule_only_parts_what_earlier_ones_tie(picture):
    large, old, older = picture(width=700, taken=9.0), picture(taken=2.0), picture(taken=1.0)
    assert preference_order([old, large, older], ["resolution", "oldest"]) == [1, 2, 0]
    assert preference_order([old, large, older], ["oldest", "resolution"]) == [2, 0, 1]


def test_what_a_camera_took_is_kept_and_not_the_png_that_was_saved_from_it(picture):
    camera, saved = picture(format="JPEG", exif=40, bytes=2), picture(format="PNG", exif=0, bytes=9)
    assert preference_order([saved, camera]) == [1, 0]
    assert preferred_reason(camera, saved) == "its EXIF entries"
    telephone, shared = picture(format="HEIF", exif=40), picture(format="JPEG", exif=42)
    assert preference_order([shared, telephone]) == [1, 0], "both have some, and the format decides"


def test_what_no_rule_parts_is_ordered_by_path_the_shortest_first(picture):
    b, a = picture(path="/b.jpg"), picture(path="/a.jpg")
    assert preference_order([b, a]) == [1, 0]
    assert preference_order([b, a], []) == [1, 0]
    again, first = picture(path="/IMG_1 (1).jpg"), picture(path="/IMG_1.jpg")
    assert preference_order([again, first]) == [1, 0]
    assert preferred_reason(first, again) == "a shorter path"


def test_of_two_that_were_taken_at_once_the_file_that_was_changed_last_goes(picture):
    later, first = picture(path="/a.jpg", taken=5.0, modified=9), picture(path="/b.jpg", taken=5.0, modified=8)
    assert preference_order([later, first]) == [1, 0]
    assert preferred_reason(first, later) == "an earlier date"
    assert preference_order([later, first], ["newest"]) == [0, 1]


def test_a_few_bytes_more_decide_nothing(picture):
    turned, original = picture(bytes=261_348, modified=9), picture(bytes=260_832, modified=8)
    assert preference_order([turned, original]) == [1, 0]
    assert preferred_reason(original, turned) == "an earlier date"
    assert preference_order([picture(bytes=290_000), picture(bytes=260_832, modified=0)]) == [0, 1]


def test_a_reference_is_kept_before_any_rule(picture):
    reference, better = picture(path="/z", reference=True), picture(path="/a", width=9_000)
    assert preference_order([better, reference]) == [1, 0]
    assert preferred_reason(reference, better) == "its reference folder"


@pytest.mark.parametrize("modified", [0, -(10**18), 4 * 10**18, 2**63 - 1])
@pytest.mark.parametrize("taken", [None, 5.0])
def test_a_date_that_cannot_be_wins_neither_as_the_oldest_nor_as_the_newest(picture, modified, taken):
    odd, known = picture(modified=modified, taken=taken), picture(modified=10**18, taken=taken)
    assert preference_order([odd, known], ["oldest"]) == preference_order([odd, known], ["newest"]) == [1, 0]
