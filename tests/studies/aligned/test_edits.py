"""Edits of one of two pictures laid over each other: each changes one side, of a file or a speck, by the seed alone."""

import numpy as np
import pytest

from diptych_studies.aligned.edits import EDITS, edit_one_side
from diptych_studies.kinds.odd_edits import Edit


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("shape", [(64, 90, 3), (32, 32, 3)])
def test_an_edit_changes_a_picture_by_its_seed_alone(edit: Edit, shape: tuple[int, int, int]) -> None:
    rgb = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    before = rgb.copy()
    found = edit(rgb, np.random.default_rng(1))
    assert np.array_equal(rgb, before), "what is given stays as it is"
    assert (found.shape, found.dtype) == (rgb.shape, np.uint8)
    assert (found != rgb).any()
    assert np.array_equal(found, edit(rgb, np.random.default_rng(1)))


def test_one_side_of_a_pair_is_edited_and_never_where_it_is_shown() -> None:
    pair = np.random.default_rng(0).integers(0, 256, (40, 48, 7), np.uint8)
    sides = []
    for seed in range(20):
        changed = (edit_one_side(pair, EDITS, np.random.default_rng(seed)) != pair).any((0, 1))
        assert not changed[6]
        sides.append((bool(changed[:3].any()), bool(changed[3:6].any())))
    assert set(sides) == {(True, False), (False, True)}
