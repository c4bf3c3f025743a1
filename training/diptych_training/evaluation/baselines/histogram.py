"""Colour histograms and their intersection (Swain and Ballard, 1991): which colours, how much of each, not where."""

from collections.abc import Sequence

import numpy as np

from diptych_runtime.decoder import PictureSource, open_picture

BINS = 8


class ColourHistogram:
    """Intersection of joint RGB histograms of 8 x 8 x 8 bins: the share of the two pictures that has the same colours,
    in [0, 1].
    """

    name = "histogram"
    verifies = False

    def describe(self, picture: PictureSource) -> np.ndarray:
        """Share of each colour, float64 (512,), sum 1."""
        red, green, blue = np.moveaxis(np.asarray(open_picture(picture)) // (256 // BINS), 2, 0).astype(np.int64)
        counts = np.bincount(((red * BINS + green) * BINS + blue).ravel(), minlength=BINS**3)
        return counts / counts.sum()

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        """Intersections, float64 (R,)."""
        return np.minimum(np.stack(references), query).sum(1)
