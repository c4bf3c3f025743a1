"""Two pictures compared block by block: where they differ, and by how much more than all over."""

import numpy as np
import pytest

from diptych_runtime.closer_look.blocks import DETAIL, Blocks, Laid, measure_colours, measure_spots

SIDE = 240


def page(seed: int = 0) -> np.ndarray:
    """A page of marks on white, uint8 (h, w, 3), with texture everywhere."""
    rng = np.random.default_rng(seed)
    marks = np.kron(rng.random((SIDE // 4, SIDE // 4)) < 0.5, np.ones((4, 4)))
    return np.repeat((255 - 190 * marks).astype(np.uint8)[..., None], 3, axis=2)


def measured(a: np.ndarray, b: np.ndarray, reach: int = 1) -> dict[str, float]:
    laid = Laid(a, b, np.ones((SIDE, SIDE), bool))
    found = Blocks.from_laid(laid, blur=0.7, block=DETAIL, reach=reach)
    return measure_spots(found, measure_colours(laid, found)[1])


def noisy(picture: np.ndarray, spread: float) -> np.ndarray:
    noise = np.random.default_rng(7).normal(0, spread, picture.shape[:2])[..., None]
    return (picture + noise).round().clip(0, 255).astype(np.uint8)


def test_one_changed_item_is_a_spot_and_noise_all_over_is_none():
    changed = page()
    changed[100:124, 60:120] = page(1)[100:124, 60:120]
    spot, worn = measured(page(), noisy(changed, 12)), measured(page(), noisy(page(), 60))
    assert spot["typical"] > worn["typical"]
    assert spot["spot"] < 0.4 < worn["spot"]
    assert spot["deviations"] > 15 > 8 > worn["deviations"]
    # 24 x 60 pixels are four blocks by ten, half overlapping; what lies half within is half alike.
    assert 15 < spot["spot_blocks"] < 50
    assert spot["spot_share"] == 1
    assert 0.01 < spot["unlike"] < 0.04
    assert worn["unlike"] < 0.005


def test_what_lies_a_pixel_off_is_compared_where_it_fits():
    moved = np.roll(page(), (1, -1), (0, 1))
    assert measured(page(), moved)["typical"] > 0.99 > 0.8 > measured(page(), moved, reach=0)["typical"]


def test_what_is_drawn_in_one_alone_and_its_contrast_are_measured():
    blank = page()
    blank[:, :120] = 255
    found = measured(page(), blank)
    assert found["one_sided"] == pytest.approx(0.5, abs=0.05)
    assert found["surely_one_sided"] > 0.4
    faint = (255 - (255 - page().astype(float)) / 2).astype(np.uint8)
    assert measured(page(), faint)["contrast"] == pytest.approx(np.log(2), abs=0.02)
    assert measured(faint, page())["contrast"] == pytest.approx(np.log(2), abs=0.02)


def test_where_too_little_has_texture_nothing_is_said():
    assert measured(np.full((SIDE, SIDE, 3), 255, np.uint8), page()) == {}
