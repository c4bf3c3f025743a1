"""The shape of imagededup: for each picture those that match it."""

from dataclasses import replace

import pytest

from diptych.dedupe.duplicates import Duplicates, Group, Member


@pytest.fixture
def found(picture):
    """Two files of content 1, one of 2 and one of 3: 1 and 2 match, 2 and 3 nearly."""
    a, b, c, d = (picture(path=path, id=id) for path, id in (("/a", "1"), ("/b", "1"), ("/c", "2"), ("/d", "3")))
    groups = [Group(a, (Member(b, 1.0, True, replaced_by=a), Member(c, 0.97, False)))]
    pairs = [("1", "2", 0.97), ("2", "3", 0.94)]
    return Duplicates(groups, [a, b, c, d], [0, 1, 2, 3], pairs, 0.95, 0.9, 6, 6, {}, "copy")


def test_each_picture_has_those_that_match_it_best_first(found):
    assert dict(found) == {"/a": ["/b", "/c"], "/b": ["/a", "/c"], "/c": ["/a", "/b"], "/d": []}
    assert found.scores["/a"] == [("/b", 1.0), ("/c", 0.97)]
    assert found.scores["/c"] == [("/a", 0.97), ("/b", 0.97)]
    assert len(found) == 4
    assert "/e" not in found


def test_only_what_another_picture_stands_for_can_be_removed_and_the_rest_is_counted(found):
    assert (found.to_remove, found.undecided) == (["/b"], 1)


def test_two_in_reference_folders_are_not_compared(found):
    a, b, c, d = found.pictures
    kept = [replace(picture, reference=True) for picture in (a, b)]
    found = replace(found, pictures=[*kept, c, d])
    assert dict(found) == {"/a": ["/c"], "/b": ["/c"], "/c": ["/a", "/b"], "/d": []}


def test_the_reasons_of_a_group_are_said_once_each(found):
    (group,) = found.groups
    why = [replace(one, kept_because="more pixels", replaced_by=group.keeper) for one in (*group.others, *group.others)]
    left = replace(group.others[1], kept_because="their tones differ")
    other = replace(left, kept_because="sharper", replaced_by=left.picture)
    assert replace(group, others=(*why, left, other)).kept_because == ["more pixels"]
