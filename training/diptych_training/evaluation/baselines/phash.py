"""The perceptual hash people find copies with: 64 signs of low frequencies of the grey picture (imagehash)."""

from collections.abc import Sequence

import numpy as np

from diptych_runtime.decoder import PictureSource, open_picture


class PerceptualHash:
    """Minus the number of bits, of 64, in which two hashes differ: in [-64, 0]."""

    name = "phash"
    verifies = False

    def __init__(self) -> None:
        from imagehash import phash

        self._phash = phash

    def describe(self, picture: PictureSource) -> np.ndarray:
        """The hash: bool (64,)."""
        return self._phash(open_picture(picture)).hash.ravel()

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        """Minus the Hamming distances, float64 (R,)."""
        return -(np.stack(references) != query).sum(1).astype(np.float64)
