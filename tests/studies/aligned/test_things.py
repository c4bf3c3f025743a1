"""Pairs of rendered things: copies are of one picture, and another picture of the same thing is none."""

import numpy as np
from PIL import Image

from diptych_runtime.closer_look.aligned import SCALE
from diptych_runtime.closer_look.verification import SIDE
from diptych_studies.aligned.pairs import LEAST
from diptych_studies.aligned.things import THINGS, thing_pairs


def photos(count: int) -> np.ndarray:
    """Blots of colour: enough for keypoints."""
    rng = np.random.default_rng(0)
    drawn = [Image.fromarray(rng.integers(0, 256, (24, 24, 3), np.uint8)).resize((128, 128)) for _ in range(count)]
    return np.stack([np.asarray(picture) for picture in drawn])


def test_copies_are_of_one_picture_and_other_pictures_of_a_thing_are_none() -> None:
    found = list(thing_pairs(0, 4, photos(5), 3))
    assert {pair.kind for pair in found} == {THINGS}
    copies, others = ([pair for pair in found if pair.copy == copy] for copy in (True, False))
    assert len(copies) >= 4
    assert len(others) >= 4
    for pair in found:
        assert pair.laid.a.shape == pair.laid.b.shape == (*pair.laid.shown.shape, 3)
        assert max(pair.laid.shown.shape) <= SCALE * SIDE
        assert np.count_nonzero(pair.laid.shown) >= LEAST
    again = list(thing_pairs(0, 4, photos(5), 3))
    assert all((one.laid.a == other.laid.a).all() for one, other in zip(found, again, strict=True))
    elsewhere = list(thing_pairs(4, 8, photos(5), 3))
    assert any(one.laid.a.shape != other.laid.a.shape for one, other in zip(found, elsewhere, strict=False))
