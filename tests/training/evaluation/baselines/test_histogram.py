"""The colour histogram as a control."""

import numpy as np
import pytest
from PIL import Image

from diptych_training.evaluation.baselines import ColourHistogram


def test_a_picture_shares_all_colours_with_itself_wherever_its_pixels_lie(photo) -> None:
    histogram, picture = ColourHistogram(), photo(1, (50, 34))
    pixels = np.asarray(picture)
    shuffled = np.random.default_rng(0).permutation(pixels.reshape(-1, 3)).reshape(pixels.shape)
    described = histogram.describe(picture)
    scores = histogram.scores(described, [histogram.describe(p) for p in (picture, shuffled, photo(2, (50, 34)))])
    assert scores[:2] == pytest.approx([1, 1])
    assert 0 <= scores[2] < 0.9


def test_the_intersection_is_the_shared_area_and_the_size_of_the_picture_does_not_count() -> None:
    histogram = ColourHistogram()
    red, blue = (Image.new("RGB", (20, 10), colour) for colour in ("red", "blue"))
    flag = Image.new("RGB", (40, 30), "red")
    flag.paste((0, 0, 255), (0, 0, 10, 30))
    features = [histogram.describe(picture) for picture in (red, blue, flag)]
    assert histogram.scores(features[2], features) == pytest.approx([0.75, 0.25, 1])
    assert histogram.scores(features[0], features) == pytest.approx([1, 0, 0.75])


def test_the_three_channels_have_places_of_their_own() -> None:
    histogram = ColourHistogram()
    colours = [(200, 100, 7), (200, 7, 100), (100, 200, 7), (7, 100, 200)]
    features = [histogram.describe(Image.new("RGB", (9, 9), colour)) for colour in colours]
    assert [histogram.scores(f, features).tolist() for f in features] == np.eye(4).tolist()
