"""Photos of which a part has another colour."""

import cv2
import numpy as np
import pytest

from diptych_studies.kinds import variants as module
from diptych_studies.kinds.variants import recolour_part

INSIDE = np.zeros((96, 96), bool)
INSIDE[20:60, 20:70] = True
AROUND = cv2.dilate(INSIDE.astype(np.uint8), np.ones((9, 9))).astype(bool)  # edges are soft


@pytest.mark.parametrize("colour", [(150, 80, 90), (70, 90, 140), (60, 60, 60)])
def test_a_part_has_another_colour_and_its_shading_and_the_ground_stay(
    colour: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COLOURS", (2,))  # the thing, in shades of one colour, and its plain ground
    photo = np.full((96, 96, 3), 240, np.uint8)
    photo[INSIDE] = (np.array(colour) * np.tile(np.linspace(0.85, 1, 96), (96, 1))[..., None])[INSIDE].round()
    drawn = [recolour_part(photo, np.random.default_rng(seed)) for seed in (0, *range(8))]
    found = [changed for changed in drawn if changed is not None]
    assert len(found) >= 5
    assert drawn[0] is None or np.array_equal(found[0], found[1])  # of the same numbers
    for changed in found:
        off = np.abs(changed.astype(int) - photo).max(-1)
        assert (off[INSIDE] > 8).mean() > 0.9
        assert (off[~AROUND] <= 2).all()
        before, after = (cv2.cvtColor(one, cv2.COLOR_RGB2LAB)[30:50, 30:60, 0].ravel() for one in (photo, changed))
        assert np.corrcoef(before, after)[0, 1] > 0.8


def test_a_photo_without_a_part_to_take_gives_none() -> None:
    assert recolour_part(np.zeros((96, 96, 3), np.uint8), np.random.default_rng(0)) is None
