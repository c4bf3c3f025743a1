"""The aligned-pair network: the log-odds that two pictures laid over each other were made of one photo.

It was trained on edited pictures and look-alikes (`diptych train training/recipes/aligned.toml`), and is the same for
every model: what it sees are two pictures on one grid, and nothing of what a model says of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from diptych_runtime.session import open_session, run_session

GRAPH = "aligned.onnx"
STRIDE = 8  # the network's: a grid's sides are multiples of it
SCALE = 1.2  # pixels for each pixel where the keypoints lie, at most
_DECIMALS = 3  # processors differ in the last bits


@dataclass(frozen=True)
class Laid:
    """Two pictures on one grid, uint8 (h, w, 3), and where both are `shown`, bool (h, w)."""

    a: np.ndarray
    b: np.ndarray
    shown: np.ndarray


def aligned_odds(laid: Laid) -> float:
    """The log-odds that one of two pictures on a grid is a copy of the other; in whatever order they come, the same."""
    return round(float(run_session(_open_graph(), {"pair": as_pair(laid)})[0][0]), _DECIMALS)


def crop_to_shown(laid: Laid) -> Laid:
    """The part of the grid where both pictures are shown; all of it without one."""
    rows, columns = (np.flatnonzero(laid.shown.any(axis)) for axis in (1, 0))
    if not len(rows):
        return laid
    part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
    return Laid(laid.a[part], laid.b[part], laid.shown[part])


def as_pair(laid: Laid) -> np.ndarray:
    """The input of the network: float32 (1, 7, H, W) from 0 to 1, filled up with places that are not shown."""
    height, width = laid.shown.shape
    padded = np.zeros((1, 7, -(-height // STRIDE) * STRIDE, -(-width // STRIDE) * STRIDE), np.float32)
    for first, picture in ((0, laid.a), (3, laid.b)):
        padded[0, first : first + 3, :height, :width] = picture.transpose(2, 0, 1)
    padded[0, :6] /= 255
    padded[0, 6, :height, :width] = laid.shown
    return padded


def read_graph() -> bytes:
    """The bytes of the network's ONNX file."""
    return Path(__file__).with_name(GRAPH).read_bytes()


@cache
def _open_graph() -> Any:
    return open_session(read_graph())
