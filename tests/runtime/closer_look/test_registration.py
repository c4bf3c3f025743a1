"""Matches of keypoints, and the products that they are found by."""

import numpy as np
import pytest

from diptych_runtime.closer_look import registration
from diptych_runtime.closer_look.registration import RATIO, Keypoints


def keypoints(seed: int, count: int, like: Keypoints | None = None) -> Keypoints:
    """Keypoints anywhere, of which every other one has the descriptor of one that is given, but for noise."""
    rng = np.random.default_rng(seed)
    descriptors = rng.gamma(0.5, 1.0, (count, 128))
    if like is not None:
        descriptors[::2] = like.descriptors[rng.integers(0, len(like.descriptors), len(descriptors[::2]))]
        descriptors += rng.uniform(0, 0.05, descriptors.shape)
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    return Keypoints(rng.uniform(0, 400, (count, 2)).astype(np.float32), descriptors.astype(np.float32))


@pytest.mark.parametrize(("count", "other"), [(8, 9), (47, 48), (48, 33), (150, 97), (257, 301)])
def test_matches_are_each_others_best_and_clearly_better_than_the_second(count, other):
    a = keypoints(count, count)
    b = keypoints(other, other, a)
    distances = np.sqrt(2 - 2 * np.clip(a.descriptors.astype(float) @ b.descriptors.T.astype(float), None, 1))
    expected = []
    for row, to in enumerate(distances):
        best, second = np.argsort(to, kind="stable")[:2]
        if distances[:, best].argmin() == row and to[best] < RATIO * to[second]:
            expected.append((a.places[row].tolist(), b.places[best].tolist()))
    found = registration._matched(a, b)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
    assert len(expected) > 1


def test_of_keypoints_that_are_the_same_one_matches_and_a_second_like_the_best_leaves_none():
    a = keypoints(1, 20)
    twice = Keypoints(np.concatenate([a.places, a.places + 1]), np.concatenate([a.descriptors] * 2))
    found, to = registration._matched(twice, a)
    # Which of the two is a matter of the last bit of a product, and so of the processor.
    assert ((found == to) | (found == to + 1)).all()
    assert sorted(to.tolist()) == sorted(a.places.tolist())
    assert len(registration._matched(a, twice)[0]) == 0


def test_products_in_parts_are_those_of_the_whole():
    a, b = (keypoints(seed, count).descriptors for seed, count in ((1, 131), (2, 77)))
    assert registration._cosines(a, b) == pytest.approx(a.astype(float) @ b.T.astype(float), abs=1e-6)
