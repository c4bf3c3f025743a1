"""The perceptual hash pHash: which of a picture's 64 lowest frequencies exceed their median."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from PIL import Image

from diptych_runtime.decoder import PictureLimits, PictureSource, open_picture

BITS: Final = 64
_SIDE, _KEPT = 32, 8  # pixels a picture is reduced to, and frequencies that are kept, each way
_LEAST = 2 * _SIDE  # pixels to which a JPEG is decoded at least
# The first rows of the discrete cosine transform (type 2): two products of matrices apply it to a batch. The library
# `imagehash` gives the same bits, needs SciPy and PyWavelets for it, and takes 410 microseconds of a picture beyond the
# time to reduce it; this takes 7, and as much with OpenCV's transform picture by picture is 80.
_CLEAR = 64.0  # distance to the median that saving a picture again does not cross: of one of 256 levels in amplitude
_FEWEST = 24  # clear bits; plain grounds and gradients have fewer, photos more
_COSINES = 2 * np.cos(np.pi * np.arange(_KEPT)[:, None] * (2 * np.arange(_SIDE) + 1) / (2 * _SIDE))


def reduce_picture(source: PictureSource, limits: PictureLimits, *, name: str | None = None) -> np.ndarray:
    """The brightness of a picture that its hash is made of, uint8 (32, 32); a JPEG is decoded at a reduced scale.

    Raises PictureError.
    """
    grey = open_picture(source, limits, name=name, least=_LEAST).convert("L")
    return np.asarray(grey.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS))


def perceptual_hashes(brightness: Sequence[np.ndarray]) -> list[int | None]:
    """The 64-bit hash of each picture from its brightness (`reduce_picture`).

    None where too few bits are more than noise, as on blank and plain pictures, all of which would match each other.
    """
    if not brightness:
        return []
    frequencies = (_COSINES @ np.stack(brightness).astype(np.float64) @ _COSINES.T).reshape(-1, BITS)
    medians = np.median(frequencies, axis=1, keepdims=True)
    telling = (np.abs(frequencies - medians) > _CLEAR).sum(1) >= _FEWEST
    hashes = np.packbits(frequencies > medians, axis=1).view(">u8")[:, 0].tolist()
    return [phash if tells else None for phash, tells in zip(hashes, telling.tolist(), strict=True)]
