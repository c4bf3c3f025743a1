"""Which pictures of a group go, with comparisons that are made up."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from diptych.dedupe import settling
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.replacement import UNKNOWN
from diptych.dedupe.settling import PixelComparisons, settle_group
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.comparison import NOTHING, Comparison, Side
from diptych_runtime.decoder import PictureLimits


def by_width(a, b) -> Comparison:
    """The wider one is sharper, and nothing else is different."""
    ratio = a.width / b.width
    sharper = NOTHING.losses | {"anything": 9.0, "sharpness": 9.0}
    one, other = (Side(sharper if share > 1 else NOTHING.losses, pixels=share) for share in (ratio, 1 / ratio))
    return Comparison(one, other)


def alike(a, b) -> Comparison:
    """Saved again: neither has more than the other, and their pixels differ."""
    return Comparison(NOTHING, NOTHING)


def same(a, b) -> Comparison:
    return Comparison(NOTHING, NOTHING, equal=True)


def without(compare, *pairs):
    """`compare`, but pairs of these ids cannot be compared."""
    unknown = {frozenset(pair) for pair in pairs}
    return lambda a, b: None if frozenset((a.id, b.id)) in unknown else compare(a, b)


@pytest.fixture
def sizes(picture):
    return [picture(width=width) for width in (100, 200, 300)]


def test_by_default_the_better_one_takes_the_place_of_the_preferred(sizes):
    small, _, large = sizes
    for members in ([small, large], [large, small]):
        found = settle_group(members, by_width)
        assert (found.stays, found.replaced) == ([large.id], {small.id: large.id})
        assert found.reasons[small.id] == "sharper"
        assert (found.edits[small.id], found.edits[large.id]) == ("smaller", "")


def test_where_nothing_goes_the_likeliest_original_comes_first_but_for_chosen_rules_and_references(sizes, picture):
    small, _, large = sizes

    def unsure(a, b):
        seen = by_width(a, b)
        one, other = (replace(part, losses=part.losses | {"anything": 9.0}) for part in (seen.a, seen.b))
        return Comparison(one, other)

    assert settle_group([small, large], unsure).stays == [large.id, small.id]
    assert settle_group([small, large], unsure, ["oldest"]).stays == [small.id, large.id]
    reference = picture(width=50, reference=True)
    assert settle_group([reference, small, large], unsure).stays[0] == reference.id


def test_rules_that_a_person_chose_are_followed_and_let_no_better_one_go(sizes):
    small, _, large = sizes
    found = settle_group([small, large], by_width, ["oldest"])
    assert (found.stays, found.replaced) == ([small.id, large.id], {})
    assert (found.reasons, found.edits[large.id]) == ({large.id: "sharper"}, "larger")
    found = settle_group([large, small], by_width, ["oldest"])
    assert (found.stays, found.replaced) == ([large.id], {small.id: large.id})


def test_of_a_chain_each_goes_for_the_one_that_stays_and_what_that_cannot_stand_for_stays(sizes):
    small, middle, large = (one.id for one in sizes)
    found = settle_group(sizes, by_width)
    assert (found.stays, found.replaced) == ([large], {small: large, middle: large})
    found = settle_group(sizes, without(by_width, (small, large)))
    assert (found.stays, found.replaced) == ([large, small], {middle: large})
    assert found.reasons[small] == UNKNOWN


def test_a_reference_stays_and_is_the_one_to_keep(picture):
    reference, middle, large = picture(width=100, reference=True), picture(width=200), picture(width=300)
    found = settle_group([reference, large, middle], by_width)
    assert (found.stays, found.replaced) == ([reference.id, large.id], {middle.id: large.id})
    assert found.reasons[large.id] == "sharper"
    found = settle_group([reference, picture(width=50)], by_width)
    assert (found.stays, list(found.reasons.values())) == ([reference.id], ["sharper"])


def test_the_reason_of_what_stays_is_what_the_one_to_keep_lacks_or_the_rule_that_prefers_it(sizes):
    small, middle, large = (one.id for one in sizes)
    older = replace(sizes[0], taken=1.0)
    found = settle_group([older, sizes[2], sizes[1]], by_width, ["oldest"])
    assert (found.stays, found.replaced) == ([large, small], {middle: large})
    assert found.reasons == {middle: "sharper", small: "an earlier date"}


def test_the_one_for_which_most_go_comes_first(picture):
    alone, kept, *others = (picture() for _ in range(4))
    found = settle_group([alone, kept, *others], without(same, *((alone.id, one.id) for one in (kept, *others))))
    assert found.stays == [kept.id, alone.id]
    assert set(found.replaced.values()) == {kept.id}


def test_a_picture_is_compared_with_five_that_stay_at_most(picture):
    members, asked = [picture() for _ in range(12)], set()

    def compare(a, b):
        asked.add(frozenset((a.id, b.id)))

    found = settle_group(members, compare)
    assert len(found.stays) == 12
    for place, one in enumerate(members):
        before = {other.id for other in members[:place]}
        assert len([pair for pair in asked if one.id in pair and pair & before]) == min(place, 5)


def test_a_format_decides_only_where_all_pixels_agree(picture):
    png, jpeg = picture(format="PNG", taken=9.0, bytes=9000), picture(format="JPEG", taken=5.0)
    found = settle_group([png, jpeg], same)
    assert (found.stays, found.reasons) == ([png.id], {jpeg.id: "a better format"})
    found = settle_group([png, jpeg], alike)
    assert (found.stays, found.reasons) == ([jpeg.id], {png.id: "an earlier date"})
    found = settle_group([png, jpeg], alike, ["format"])
    assert (found.stays, found.reasons) == ([png.id], {jpeg.id: "a better format"}), "the rule was chosen"
    found = settle_group([jpeg, picture(taken=5.0, bytes=2000)], alike)
    assert list(found.reasons.values()) == ["more bytes"], "of one format, bytes do say something"
    new = picture(taken=9.0)
    found = settle_group([new, jpeg], alike, ["newest"])
    assert (found.stays, found.reasons) == ([new.id], {jpeg.id: "a later date"})


class Files:
    """What `CloserLook` gives, of pictures by their ids; counts the pictures that are decoded."""

    limits = PictureLimits()

    def __init__(self, pictures: dict[str, bytes]) -> None:
        self.pictures, self.read = pictures, list[str]()

    def look_at_pair(self, a, b) -> Evidence | None:
        return Evidence(keypoints=0) if {a, b} <= self.pictures.keys() else None

    def find_source(self, id) -> bytes | None:
        self.read.append(id)
        return self.pictures.get(id)


@pytest.fixture
def compared(monkeypatch) -> list[tuple[int, int]]:
    """The widths of the pictures that are compared, in order; the first one of a pair is the better one."""
    pairs = []

    def compare_pixels(a, b, corners):
        pairs.append((a.shape[1], b.shape[1]))
        return Comparison(NOTHING, Side(NOTHING.losses, pixels=0.5))

    monkeypatch.setattr(settling, "compare_pixels", compare_pixels)
    return pairs


def test_a_pair_is_compared_once_in_all_runs_and_in_either_order(picture, photo_bytes, compared, tmp_path):
    a, b, gone, damaged = (picture() for _ in range(4))
    files = Files({a.id: photo_bytes(1, (41, 40)), b.id: photo_bytes(1, (43, 40)), damaged.id: b"no picture"})
    told = []

    def tick(done: int) -> None:
        told.append(done)
        raise TimeoutError

    with PairCache(tmp_path / "cache.sqlite", "x") as cache:
        comparisons = PixelComparisons(files, cache, tick)  # type: ignore[arg-type]
        labelled = PixelComparisons(files, cache, apart=frozenset({(a.id, b.id)}))  # type: ignore[arg-type]
        assert [labelled.compare(a, b), comparisons.compare(a, gone), comparisons.compare(a, damaged)] == [None] * 3
        assert cache.get_comparison(*sorted((a.id, gone.id))) is None, "it is asked for anew"
        with pytest.raises(TimeoutError):
            comparisons.compare(a, b)
        first, second = comparisons.compare(b, a), comparisons.compare(a, b)
        assert first is not None
        assert second is not None
        assert (second.b.pixels, first.a.pixels, first) == (0.5, 0.5, second.with_sides_swapped)
    with PairCache(tmp_path / "cache.sqlite", "another") as cache:
        assert PixelComparisons(files, cache).compare(b, a) == first  # type: ignore[arg-type]
    assert (compared, told) == ([(41, 43)], [0])


def test_no_more_pictures_are_in_memory_than_fit_but_two(picture, photo_bytes, compared, monkeypatch):
    monkeypatch.setattr(settling, "_BYTES", 3 * Image.new("RGB", (40, 40)).width ** 2 * 3)
    members = [picture() for _ in range(5)]
    files = Files({one.id: photo_bytes(1, (40, 40)) for one in members})
    with PairCache(None, "x") as cache:
        comparisons = PixelComparisons(files, cache)  # type: ignore[arg-type]
        for other in members[1:]:
            comparisons.compare(members[0], other)
        assert files.read == [one.id for one in members], "the one that was used last stays"
        comparisons.compare(members[1], members[4])
        assert files.read[-1] == members[1].id
        assert np.sum([pixels.nbytes for pixels in comparisons._pixels.values() if pixels is not None]) <= 3 * 4800
