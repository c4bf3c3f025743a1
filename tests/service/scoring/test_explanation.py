"""Why a pair has its score."""

from __future__ import annotations

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diptych.scoring.explanation import Explanation, explain, overlay
from diptych_runtime.attention_links import Link


@pytest.fixture(scope="module")
def tokens(scorer, photo_bytes):
    return scorer.panels([photo_bytes(1), photo_bytes(2)]).tokens


def test_it_says_what_the_scorer_and_the_runtime_say(scorer, tokens):
    found = explain(scorer, *tokens, links=5)
    (attention,) = scorer.runtime.attention(tokens[:1], tokens[1:])
    assert np.array_equal(found.attention, attention)
    assert found.answer.raw_score == scorer.logits(tokens[:1], tokens[1:])[0]
    assert found.answer.relevance_score == scorer.relevance(scorer.logits(tokens[:1], tokens[1:]))[0]
    assert found.crossing == pytest.approx(attention.sum(1).mean())
    assert len(found.links) == 5
    assert found.links[0].share == attention.max()
    assert [found.place(patch) for patch in (0, 3, 4)] == [(0, 0), (0, 3), (1, 0)]


def test_swapping_the_pictures_swaps_the_ends_and_nothing_else(scorer, tokens):
    a, b = explain(scorer, *tokens), explain(scorer, *tokens[::-1])
    assert [(link.second, link.first, link.share) for link in a.links] == b.links
    assert (a.answer, a.crossing) == (b.answer, pytest.approx(b.crossing))


def drawn(links: list[Link]) -> np.ndarray:
    """The overlay of a black landscape and a black portrait, of 2 x 2 patches."""
    found = Explanation("match", {}, (2, 2), 0.4, links, np.zeros((4, 4), np.float32))
    data = overlay(found, Image.new("RGB", (200, 100)), Image.new("RGB", (50, 100)), side=100)
    with Image.open(BytesIO(data)) as picture:
        assert picture.format == "PNG"
        return np.asarray(picture.convert("RGB")).astype(int)


def test_a_link_is_drawn_from_the_middle_of_one_patch_to_that_of_the_other():
    bare, linked = drawn([]), drawn([Link(1, 2, 0.3)])
    assert bare.shape == (100, 224, 3)
    changed = (bare != linked).any(-1)
    # Patch 1 of the landscape, which is 100 x 50 from (0, 25); patch 2 of the portrait, 50 x 100 from (149, 0).
    for x, y in [(75, 37), (161, 75)]:
        assert changed[y - 1 : y + 2, x - 1 : x + 2].all()
    rows, columns = np.nonzero(changed)
    assert 75 - 8 <= columns.min() < columns.max() <= 161 + 8
    assert 37 - 8 <= rows.min() < rows.max() <= 75 + 8


def test_links_have_colours_of_their_own():
    both = drawn([Link(0, 0, 0.3), Link(3, 3, 0.3)])
    bare = drawn([])
    middles = [both[37, 25], both[62, 75]]
    assert all((middle != bare[37, 25]).any() for middle in middles)
    assert (middles[0] != middles[1]).any()
