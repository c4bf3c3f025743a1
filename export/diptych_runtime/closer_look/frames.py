"""The frames of an animation, or the pages of a document, in small: two such files are copies only where all agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from diptych_runtime.decoder import PictureLimits, open_frames
from diptych_runtime.errors import PictureError

MOST = 300  # frames that are compared; together they have no more pixels than one picture may have
SIDE, COARSE = 64, 16  # cells of a frame each way: of its brightness, and of its colours
# Levels by which two frames may differ on average, and a cell by so many and so many times that: a palette changes all
# of a frame, and another word on a page one spot of it.
MEAN, SPOT, TIMES = 5.0, 16.0, 12.0


@dataclass(frozen=True)
class Frames:
    """The frames of a file in small, uint8 (F, 64, 64, 3), the first one included; none if they are too many or too
    large, or cannot be read.
    """

    small: np.ndarray

    @classmethod
    def from_file(cls, data: bytes, count: int, limits: PictureLimits) -> Frames:
        """The frames of a file of so many."""
        small: list[np.ndarray] = []
        try:
            for frame in open_frames(data, limits) if count <= MOST else ():
                small.append(np.asarray(frame.resize((SIDE, SIDE), Image.Resampling.BOX)))
        except PictureError:
            small = []
        return cls(np.array(small, np.uint8).reshape(-1, SIDE, SIDE, 3))

    def agrees_with(self, other: Frames) -> bool:
        """True if both show the same, one frame after the other; one of them may show a frame for longer."""
        here, there = len(self.small), len(other.small)
        if not here or not there:
            return False
        a, b = 0, 0
        while _is_alike(self.small[a], other.small[b]):
            if (a, b) == (here - 1, there - 1):
                return True
            # Where one has a frame twice, formats that store it once have it once.
            steps = [(a + 1, b + 1), (a + 1, b), (a, b + 1)]
            possible = [(x, y) for x, y in steps if x < here and y < there]
            a, b = next(
                (step for step in possible if _is_alike(self.small[step[0]], other.small[step[1]])), possible[0]
            )
        return False


def _is_alike(a: np.ndarray, b: np.ndarray) -> bool:
    difference = a.astype(np.float32) - b
    brightness = np.abs(difference @ np.array([0.299, 0.587, 0.114], np.float32))
    cells = SIDE // COARSE
    colour = np.abs(difference.reshape(COARSE, cells, COARSE, cells, 3).mean((1, 3)))
    mean = brightness.mean()
    return bool(mean <= MEAN and max(brightness.max(), colour.max()) <= SPOT + TIMES * mean)
