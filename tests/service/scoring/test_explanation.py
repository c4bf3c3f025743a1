"""Why a pair has its score."""

from __future__ import annotations

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diptych import Scorer
from diptych.bench.demo.collection import draw_scenes
from diptych.scoring.explanation import Explanation, draw_overlay, explain_pair, look_in_words
from diptych_runtime.attention_links import Link
from diptych_runtime.calibration.evidence import Corners, Evidence


@pytest.fixture(scope="module")
def tokens(scorer, photo_bytes):
    return scorer.panels([photo_bytes(1), photo_bytes(2)]).tokens


def test_it_says_what_the_scorer_and_the_runtime_say(scorer, tokens):
    found = explain_pair(scorer, *tokens, links=5)
    (attention,) = scorer.runtime.attention(tokens[:1], tokens[1:])
    assert np.array_equal(found.attention, attention)
    assert found.answer.raw_score == scorer.logits(tokens[:1], tokens[1:])[0]
    assert found.answer.relevance_score == scorer.relevance(scorer.logits(tokens[:1], tokens[1:]))[0]
    assert found.crossing == pytest.approx(attention.sum(1).mean())
    assert len(found.links) == 5
    assert found.links[0].share == attention.max()
    assert [found.place(patch) for patch in (0, 3, 4)] == [(0, 0), (0, 3), (1, 0)]
    turned = explain_pair(scorer, *tokens[::-1], links=5)
    assert [(link.second, link.first, link.share) for link in found.links] == turned.links
    assert (turned.answer, turned.crossing) == (found.answer, pytest.approx(found.crossing))


def test_a_closer_look_says_where_the_one_picture_lies_in_the_other(artifact_that_looks):
    scene, other = draw_scenes(2)
    width, height = scene.size
    crop = scene.crop((width // 4, 0, width, height // 2)).rotate(180)
    scorer = Scorer.load(artifact_that_looks, "copy", threads=1)

    def of(a: Image.Image, b: Image.Image, original: bool = True) -> Explanation:
        sides = (a, b) if original else (None, None)
        return explain_pair(scorer, *scorer.panels([a, b]).tokens, original=sides.__getitem__)

    found = of(crop, scene)
    assert found.evidence is not None
    within, beyond = map(np.array, found.corners)
    assert within == pytest.approx(np.array([(1, 0.5), (0.25, 0.5), (0.25, 0), (1, 0)]), abs=0.02)
    assert (found.answer.verdict, found.answer.closer_look) == ("same", "taken")
    assert f"{found.evidence.inliers:,} of {found.evidence.matches:,} matching keypoints agree" in look_in_words(found)
    assert re.search(r"overlap in (99|100)% of the smaller and 3\d% of the larger", look_in_words(found))
    whole = of(scene, crop)
    assert np.array(whole.corners) == pytest.approx(np.array([beyond, within]), abs=0.05)
    apart = of(scene, other)
    assert apart.corners == ((), ())
    assert look_in_words(apart).startswith("one picture cannot be laid over the other: ")
    without = of(crop, scene, original=False)
    assert (without.evidence, without.corners, look_in_words(without)) == (None, ((), ()), "")


SQUARE = ((0.2, 0.1), (0.7, 0.1), (0.7, 0.6), (0.2, 0.6))  # upright


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Evidence(9, 9, 9, identical=True), "both pictures have the same pixels"),
        (
            Evidence(0, equal=True, frames_differ=True),
            "both pictures have the same pixels; what they show behind the first frame or page differs",
        ),
        (
            Evidence(0, apart=127.0),
            "there is too little in them to be matched; their colours are 127 of 255 levels apart",
        ),
    ],
)
def test_what_needs_no_registration_is_told_as_that(seen, said):
    assert look_in_words(Explanation("copy", {}, (2, 2), 0.4, [], np.zeros((4, 4), np.float32), seen)) == said


def draw_found(links: list[Link], corners: Corners = ()) -> np.ndarray:
    """The overlay of a black landscape and a black portrait, of 2 x 2 patches."""
    seen = Evidence(0, corners=corners)
    found = Explanation("match", {}, (2, 2), 0.4, links, np.zeros((4, 4), np.float32), seen)
    data = draw_overlay(found, Image.new("RGB", (200, 100)), Image.new("RGB", (50, 100)), side=100)
    with Image.open(BytesIO(data)) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB")).astype(int)


def test_links_and_the_outline_of_the_first_picture_in_the_second_are_drawn_where_they_lie():
    bare, linked = draw_found([]), draw_found([Link(1, 2, 0.3)])
    assert bare.shape == (100, 224, 3)
    # Patch 1 of the landscape, which is 100 x 50 from (0, 25); patch 2 of the portrait, 50 x 100 from (149, 0).
    rows, columns = np.nonzero((bare != linked).any(-1))
    assert (columns.min(), columns.max()) == pytest.approx((75, 161), abs=8)
    assert (rows.min(), rows.max()) == pytest.approx((37, 75), abs=8)
    both = draw_found([Link(0, 0, 0.3), Link(3, 3, 0.3)])
    assert len({tuple(one) for one in (both[37, 25], both[62, 75], bare[37, 25])}) == 3, "each has its colour"
    rows, columns = np.nonzero((bare != draw_found([], SQUARE)).any(-1))
    assert (columns.min(), columns.max()) == pytest.approx((149 + 10, 149 + 35), abs=4)
    assert (rows.min(), rows.max()) == pytest.approx((10, 60), abs=4)
    assert not (bare != draw_found([], SQUARE))[20:50, 149 + 16 : 149 + 29].any()
