"""Matches of keypoints, and the products that they are found by."""

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageOps

from diptych_runtime.closer_look import registration
from diptych_runtime.closer_look.registration import RATIO, Keypoints, register_pair
from diptych_runtime.closer_look.verification import describe


def keypoints(seed: int, count: int, like: Keypoints | None = None) -> Keypoints:
    """Keypoints anywhere, of which every other one has the descriptor of one that is given, but for noise."""
    rng = np.random.default_rng(seed)
    descriptors = rng.gamma(0.5, 1.0, (count, 128))
    if like is not None:
        descriptors[::2] = like.descriptors[rng.integers(0, len(like.descriptors), len(descriptors[::2]))]
        descriptors += rng.uniform(0, 0.05, descriptors.shape)
    descriptors /= np.linalg.norm(descriptors, axis=1, keepdims=True)
    arrows = rng.uniform(2, 30, count) * np.exp(1j * rng.uniform(0, 2 * np.pi, count))
    places = rng.uniform(0, 400, (count, 2)).astype(np.float32)
    return Keypoints(places, descriptors.astype(np.float32), arrows.astype(np.complex64))


@pytest.mark.parametrize(("count", "other"), [(8, 9), (47, 48), (48, 33), (150, 97), (257, 301)])
def test_matches_are_each_others_best_and_clearly_better_than_the_second(count, other):
    a = keypoints(count, count)
    b = keypoints(other, other, a)
    distances = np.sqrt(2 - 2 * np.clip(a.descriptors.astype(float) @ b.descriptors.T.astype(float), None, 1))
    expected = []
    for row, to in enumerate(distances):
        best, second = np.argsort(to, kind="stable")[:2]
        if distances[:, best].argmin() == row and to[best] < RATIO * to[second]:
            expected.append((row, int(best)))
    found = registration._match_keypoints(a, b)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == expected
    assert len(expected) > 1


def test_the_mirror_image_is_tried_where_a_part_is_symmetric():
    """A tower with windows on both sides agrees with its mirror image, moved; all of the picture does not."""
    rng = np.random.default_rng(2)
    street = Image.new("RGB", (480, 600), "#88a0b0")
    draw = ImageDraw.Draw(street)
    for left, top, width, height, *colour in rng.integers(
        (190, 20, 10, 10, 0, 0, 0), (440, 560, 60, 60, 256, 256, 256), (90, 7)
    ):
        draw.rectangle((left, top, left + width, top + height), tuple(colour))
    for row in range(18):
        top, height = 12 + 32 * row, int(rng.integers(12, 26))
        for out, width, light in zip((6, 30, 56), rng.integers(8, 20, 3), rng.integers(60, 256, 3), strict=True):
            for left in (90 - out - width, 90 + out):
                draw.rectangle((left, top, left + int(width), top + height), (int(light), 200, 120), "#403020", 2)
    a, b = describe(street), describe(ImageOps.mirror(street))
    assert registration._register_one_way(a.keypoints, b.keypoints, a.size).inliers >= 100
    found = register_pair(a.keypoints, b.keypoints, a.size)
    assert found.mirrored
    assert found.inliers > 0.9 * len(a.keypoints.places)
