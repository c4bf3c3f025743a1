"""Matches of keypoints, and the products that they are found by."""

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from diptych_runtime.closer_look import registration
from diptych_runtime.closer_look.registration import register_pair
from diptych_runtime.closer_look.verification import describe


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
