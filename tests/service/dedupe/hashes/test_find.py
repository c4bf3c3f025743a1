"""Groups by hashes: those of all pairs, exact copies the same and others likely."""

from dataclasses import replace

import numpy as np
import pytest

from diptych.dedupe import hashes as module
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.hashes import check_distance, duplicates_by_hash, score_of
from diptych.dedupe.keeper import preference_order
from diptych.dedupe.report.table import summarize_groups
from diptych.errors import DedupeError
from diptych_runtime.errors import ArgumentError


def names(found) -> list[list[str]]:
    return [[group.keeper.path, *(member.picture.path for member in group.others)] for group in found.groups]


def test_exact_copies_are_the_same_and_near_ones_likely_however_near(picture):
    keeper, near, equal, far = (picture(path=f"/p/{name}.jpg", bytes=90 - n) for n, name in enumerate("abcd"))
    twin = replace(keeper, path="/p/z.jpg")
    hashes = {keeper.id: 0b0, near.id: 0b1111, equal.id: 0b0, far.id: 0b11111111}
    found = duplicates_by_hash([far, equal, twin, near, keeper], hashes)
    assert names(found) == [["/p/a.jpg", "/p/z.jpg", "/p/b.jpg", "/p/c.jpg"]]
    told = [(one.relevance_score, one.exact, one.verdict, one.closer_look) for one in found.groups[0].others]
    assert told == [
        (1.0, True, "same", None),
        (round(60 / 65, 7), False, "likely", None),
        (round(64 / 65, 7), False, "likely", None),
    ]
    assert (found.method, found.max_distance, found.threshold) == ("phash", 4, score_of(4))
    assert found.scores["/p/d.jpg"] == [("/p/b.jpg", score_of(4))]


def test_plain_pictures_and_files_of_several_frames_match_exact_copies_alone(picture):
    plain, other, film, still = (picture(path=f"/p/{name}", frames=8 if name == "c" else 1) for name in "abcd")
    twins = [replace(plain, path="/p/e"), replace(film, path="/p/f")]
    hashes = {plain.id: None, other.id: None, film.id: 7, still.id: 7}
    found = duplicates_by_hash([plain, other, film, still, *twins], hashes, max_distance=10)
    assert names(found) == [["/p/a", "/p/e"], ["/p/c", "/p/f"]]
    assert found.unhashed == 5


def test_groups_are_those_of_all_pairs_of_contents_and_references_are_never_removed(picture):
    rng = np.random.default_rng(7)
    centres = rng.integers(0, 2**64, 9, np.uint64)
    pictures, hashes = [], {}
    for number in range(120):
        one = picture(path=f"/p/{number:03d}.jpg", bytes=int(rng.integers(1, 9)), reference=bool(rng.random() < 0.3))
        flips = sum(1 << int(bit) for bit in rng.integers(0, 64, rng.integers(0, 4)))
        hashes[one.id] = int(centres[rng.integers(9)]) ^ flips
        pictures.append(one)
    found = duplicates_by_hash(pictures, hashes)
    ordered = [pictures[place] for place in preference_order(pictures)]
    pairs = {
        (a, b): score_of(distance)
        for a, one in enumerate(ordered)
        for b, other in enumerate(ordered[:a])
        if (distance := (hashes[one.id] ^ hashes[other.id]).bit_count()) <= 4
        if not (one.reference and other.reference)
    }
    expected = group_items(range(len(ordered)), matches_of(list(pairs), list(pairs.values()), 0.0), 0.0)
    assert len(expected) > 8
    assert sorted(map(sorted, names(found))) == sorted(sorted(ordered[one].path for one in group) for group in expected)
    assert not any(member.picture.reference for group in found.groups for member in group.others)
    assert len(found.pairs) == len(pairs)


def test_many_contents_of_close_hashes_make_no_more_pairs_than_are_allowed_and_the_same_groups(picture, monkeypatch):
    pictures = [picture(path=f"/p/{number:02d}.jpg") for number in range(60)]
    hashes = {one.id: 0b11 << number % 6 for number, one in enumerate(pictures)}
    whole = duplicates_by_hash(pictures, hashes)
    assert len(whole.pairs) == 60 * 59 // 2
    with monkeypatch.context() as patch:
        patch.setattr(module, "_PAIRS", 10)
        assert len(duplicates_by_hash(pictures, hashes).pairs) == 6 * 9 + 15 * 19
    monkeypatch.setattr(module, "MOST_PAIRS", 400)
    starred = duplicates_by_hash(pictures, hashes)
    assert len(starred.pairs) == 6 * 9 + 15 * 19
    assert starred.groups == whole.groups
    assert len(starred.groups) == 1
    monkeypatch.setattr(module, "MOST_PAIRS", 15 * 19 - 1)
    with pytest.raises(DedupeError, match=r"more than 284 pairs of pictures .* 4 bits; name a smaller --max-distance"):
        duplicates_by_hash(pictures, hashes)


def test_copies_of_one_that_is_not_kept_are_proven_by_their_bytes(picture):
    best, other = picture(path="/p/A.png", bytes=90), picture(path="/p/B1.jpg", bytes=50)
    twins = [replace(other, path=f"/p/B{number}.jpg") for number in (2, 3)]
    found = duplicates_by_hash([*twins, best, other], {best.id: 0, other.id: 0b11})
    assert names(found) == [["/p/A.png", "/p/B1.jpg", "/p/B2.jpg", "/p/B3.jpg"]]
    stands = {one.picture.path: one.replaced_by and one.replaced_by.path for one in found.groups[0].others}
    assert stands == {"/p/B1.jpg": None, "/p/B2.jpg": "/p/B1.jpg", "/p/B3.jpg": "/p/B1.jpg"}
    assert found.groups[0].others[0].kept_because == "only a hash takes it for a copy"
    assert (found.to_remove, found.undecided) == ([one.path for one in twins], 1)
    assert (
        summarize_groups(found, [])["could_go"],
        summarize_groups(found, [])["bytes"],
        summarize_groups(found, [])["to_look_at"],
    ) == (
        2,
        100,
        1,
    )


@pytest.mark.parametrize("wrong", [-1, 11, 2.5, "4"])
def test_a_distance_out_of_its_range_is_refused(wrong):
    with pytest.raises(ArgumentError, match=f"max_distance must be 0 to 10 bits, a whole number, got {wrong!r}"):
        check_distance(wrong)
