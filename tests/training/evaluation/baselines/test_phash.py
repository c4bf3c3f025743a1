"""The perceptual hash as a control."""

import numpy as np

from diptych_training.evaluation.baselines import PerceptualHash


def test_a_picture_is_nearest_to_itself_and_its_negative_differs_in_almost_every_bit(photo) -> None:
    phash, picture = PerceptualHash(), photo(1)
    hashes = [phash.describe(picture), phash.describe(photo(2)), phash.describe(picture.point(lambda v: 255 - v))]
    scores = phash.scores(hashes[0], hashes)
    assert scores[0] == 0
    assert -64 <= scores[2] < scores[1] < 0
    assert scores[2] <= -60


def test_it_survives_shrinking_but_not_a_quarter_turn(photo) -> None:
    phash, picture = PerceptualHash(), photo(3, (96, 64))
    small, turned = phash.describe(picture.resize((48, 32))), phash.describe(picture.rotate(90, expand=True))
    near, far = phash.scores(phash.describe(picture), [small, turned])
    assert near >= -8
    assert far <= -16


def test_the_score_counts_differing_bits_whichever_picture_asks() -> None:
    phash = PerceptualHash()
    a, b = np.zeros(64, bool), np.zeros(64, bool)
    b[[3, 11, 60]] = True
    assert phash.scores(a, [b]).tolist() == phash.scores(b, [a]).tolist() == [-3.0]
