"""Blurred pixels and their cosine: the simplest thing that could tell two drawings apart."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageFilter

from diptych_runtime.decoder import PictureSource, open_picture

SIDE = 105  # of Omniglot's drawings, which are so neither enlarged nor shrunk
BLUR = 2.0
POOL = 3


class BlurredPixels:
    """Cosine of the ink of two pictures, each moved to the middle, blurred and shrunk to 35 x 35: in [0, 1].

    Ink is darkness, white having none. Without moving it to the middle, where a hand began to draw decides.
    """

    name = "pixels"
    verifies = False

    def describe(self, picture: PictureSource) -> np.ndarray:
        """Ink, float32 (1225,), of unit length; zeros where there is none."""
        grey = open_picture(picture).convert("L").resize((SIDE, SIDE), Image.Resampling.BOX)
        ink = 255 - np.asarray(grey, np.float64)
        if not ink.any():
            return np.zeros((SIDE // POOL) ** 2, np.float32)
        y, x = (round(float(np.average(np.arange(SIDE), weights=ink.sum(axis)))) - SIDE // 2 for axis in (1, 0))
        # Pillow fills what comes in over the edge with zeros, so it is given ink and not paper.
        centred = Image.fromarray(ink.astype(np.uint8)).transform(
            (SIDE, SIDE), Image.Transform.AFFINE, (1, 0, x, 0, 1, y)
        )
        small = centred.filter(ImageFilter.GaussianBlur(BLUR)).reduce(POOL)
        flat = np.asarray(small, np.float32).ravel()
        length = np.linalg.norm(flat)
        return flat / length if length else flat

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        """Cosines, float64 (R,), of equal pictures equal to the last bit."""
        return (np.stack(references).astype(np.float64) @ query).astype(np.float32).astype(np.float64)
