"""Blurred pixels as a control."""

import numpy as np
import pytest
from PIL import Image, ImageDraw

from diptych_training.evaluation.baselines import BlurredPixels


def drawing(*lines: tuple[int, ...], shift: tuple[int, int] = (0, 0)) -> Image.Image:
    """Black strokes on white paper, 105 x 105, moved by (x, y)."""
    paper = Image.new("L", (105, 105), 255)
    for x0, y0, x1, y1 in lines:
        dx, dy = shift
        ImageDraw.Draw(paper).line((x0 + dx, y0 + dy, x1 + dx, y1 + dy), fill=0, width=3)
    return paper


CROSS = ((40, 30, 40, 70), (25, 50, 60, 50))
RAFTERS = ((30, 70, 45, 30), (45, 30, 60, 70))


def test_a_drawing_is_itself_wherever_it_stands_on_the_paper() -> None:
    pixels = BlurredPixels()
    moved = [drawing(*CROSS, shift=shift) for shift in ((0, 0), (31, 0), (0, -23), (-20, 30))]
    features = [pixels.describe(picture) for picture in moved]
    scores = pixels.scores(features[0], [*features, pixels.describe(drawing(*RAFTERS))])
    assert scores[:4] == pytest.approx(np.ones(4), abs=1e-5)
    assert scores[4] < 0.8


def test_the_cosine_is_the_same_whichever_picture_asks(photo) -> None:
    pixels = BlurredPixels()
    a, b = pixels.describe(photo(1)), pixels.describe(photo(2))
    assert pixels.scores(a, [b]) == pytest.approx(pixels.scores(b, [a]))
    assert pixels.scores(a, [b])[0] < pixels.scores(a, [a])[0] == pytest.approx(1)


def test_a_stroke_that_is_a_little_off_still_counts() -> None:
    pixels = BlurredPixels()
    bent = drawing((40, 30, 42, 70), (25, 51, 60, 49))
    near = pixels.scores(pixels.describe(drawing(*CROSS)), [pixels.describe(bent)])[0]
    assert near > 0.85
