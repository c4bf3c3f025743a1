"""Perceptual hashes: the bits of imagehash, pairs held against all pairs, and the groups of all pairs."""

import io
from dataclasses import replace

import imagehash
import numpy as np
import pytest
from PIL import Image, ImageOps

from diptych.dedupe import hashes as module
from diptych.dedupe.groups import group_items, matches_of
from diptych.dedupe.hashes import (
    check_distance,
    close_pairs,
    duplicates_by_hash,
    perceptual_hashes,
    reduce_picture,
    score_of,
)
from diptych.dedupe.keeper import preference_order
from diptych.dedupe.report.table import summarize_groups
from diptych.errors import DedupeError
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import ArgumentError, PictureError

LIMITS = PictureLimits()


def hash_of(picture) -> int | None:
    return perceptual_hashes([reduce_picture(picture, LIMITS)])[0]


def saved(picture: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(2))
def test_it_has_the_bits_of_imagehash(photo_bytes, seed):
    picture = Image.open(io.BytesIO(photo_bytes(seed, (170, 110), "PNG"))).convert("RGB")
    assert hash_of(picture) == int(str(imagehash.phash(picture)), 16)


def test_saving_smaller_and_again_changes_few_bits_and_another_picture_many(photo_bytes):
    picture = Image.open(io.BytesIO(photo_bytes(3, (1200, 900), "PNG"))).convert("RGB")
    again = saved(picture.resize((400, 300)), format="JPEG", quality=60)
    large = saved(picture, format="JPEG", quality=90)  # decoded at an eighth
    other = photo_bytes(4, (1200, 900), "PNG")
    hashes = perceptual_hashes([reduce_picture(one, LIMITS) for one in (picture, again, large, other)])
    first, *others = [phash for phash in hashes if phash is not None]
    distances = [(first ^ one).bit_count() for one in others]
    assert max(distances[:2]) <= 4 < 16 < distances[2]


def test_blank_pictures_and_gradients_have_none():
    ramp = Image.linear_gradient("L").convert("RGB")
    noise = np.random.default_rng(0).integers(250, 253, (200, 300, 3), np.uint8)
    plain = [Image.new("RGB", (64, 64), "white"), ramp, ImageOps.flip(ramp), ramp.rotate(90), noise]
    assert list(map(hash_of, plain)) == [None] * 5
    assert perceptual_hashes([]) == []


def test_bombs_and_damaged_files_are_refused_before_they_are_decoded(photo_bytes):
    with pytest.raises(PictureError, match=r"big is 90x60, 0\.0 megapixels; at most 0\.0 are allowed"):
        reduce_picture(photo_bytes(1, (90, 60)), PictureLimits(pixels=5000), name="big")
    with pytest.raises(PictureError, match="more than the 100 that are allowed"):
        reduce_picture(photo_bytes(1), PictureLimits(bytes=100))
    with pytest.raises(PictureError, match="cut is damaged or cut short"):
        reduce_picture(photo_bytes(1, (300, 200))[:900], LIMITS, name="cut")


def test_it_is_of_the_picture_as_it_is_seen(photo_bytes):
    picture = Image.open(io.BytesIO(photo_bytes(5, (120, 90), "PNG"))).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    sideways = saved(picture.rotate(90, expand=True), format="PNG", exif=exif)
    assert hash_of(sideways) == hash_of(picture)


def drawn(count: int, clusters: int = 12) -> np.ndarray:
    """Hashes, most of which are a few bits from one of some, with some that are equal."""
    rng = np.random.default_rng(count)
    hashes = rng.integers(0, 2**64, clusters, np.uint64)[rng.integers(0, clusters, count)]
    for _ in range(6):
        hashes ^= np.where(rng.random(count) < 0.5, np.uint64(1) << rng.integers(0, 64, count, np.uint64), np.uint64(0))
    return hashes


def all_pairs(hashes: np.ndarray, distance: int) -> list[tuple[int, int, int]]:
    apart = np.bitwise_count(hashes[:, None] ^ hashes[None])
    first, second = np.nonzero(np.triu(apart <= distance, 1))
    return list(zip(first.tolist(), second.tolist(), apart[first, second].tolist(), strict=True))


@pytest.mark.parametrize("distance", [0, 3, 4, 7, 10])
def test_all_pairs_that_are_close_are_found_each_once(distance):
    hashes = drawn(401)
    pairs, distances = close_pairs(hashes, distance)
    expected = all_pairs(hashes, distance)
    assert len(expected) > 3
    assert [(a, b, d) for (a, b), d in zip(pairs.tolist(), distances.tolist(), strict=True)] == expected


def test_two_that_do_not_ask_are_no_pair_and_others_the_same_however_few_are_compared_at_once(monkeypatch):
    hashes, asking = drawn(211), np.arange(211) % 3 == 0
    monkeypatch.setattr(module, "_AT_ONCE", 7)
    for few in (np.empty(0, np.uint64), hashes[:1]):
        assert [one.shape for one in close_pairs(few, 4)] == [(0, 2), (0,)]
    pairs, _ = close_pairs(hashes, 6, asking=asking)
    assert list(map(tuple, pairs.tolist())) == [(a, b) for a, b, _ in all_pairs(hashes, 6) if asking[a] or asking[b]]


def test_pairs_are_counted_once_in_however_many_bands_they_meet(monkeypatch):
    hashes = drawn(211)
    count = len(all_pairs(hashes, 6))
    monkeypatch.setattr(module, "MOST_PAIRS", count)
    assert len(close_pairs(hashes, 6)[0]) == count
    monkeypatch.setattr(module, "MOST_PAIRS", count - 1)
    with pytest.raises(DedupeError, match="pairs of pictures have hashes that differ in at most 6 bits; name"):
        close_pairs(hashes, 6)


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
    data = summarize_groups(found, [])
    assert (data["could_go"], data["bytes"], data["to_look_at"]) == (2, 100, 1)


@pytest.mark.parametrize("wrong", [-1, 11, 2.5, "4"])
def test_a_distance_out_of_its_range_is_refused(wrong):
    with pytest.raises(ArgumentError, match=f"max_distance must be 0 to 10 bits, a whole number, got {wrong!r}"):
        check_distance(wrong)
