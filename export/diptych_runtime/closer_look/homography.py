"""The homography that explains most matches of two pictures.

A keypoint has a size and an orientation, so that one match alone says how one picture lies over the other: how it is
moved, turned and magnified. All matches are tried, the one that most others agree with is kept, and what it says is
fitted to those that agree (Philbin et al. 2007), first as an affine map and then as a homography, within ever narrower
limits (Chum et al. 2003). RANSAC would draw sets of four, most of them wrong; here one right match in twenty is enough,
and nothing is drawn by chance.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

CORNERS = 4  # matches that determine a homography
TRIED = 128  # matches at most, evenly spread over all; the first `QUICK` of them suffice if most matches agree with one
QUICK = 16
ATTEMPTS = 3  # matches that are followed, each of those that agreed with none of the others
# How far off a place may be that a match puts it at, as a share of its distance from that match: orientations and sizes
# of keypoints are right to within a tenth, and a picture may be seen at a slant.
SLANT = 0.15
MAGNIFIED, TURNED = 1.5, 25.0  # times and degrees by which two matches that agree may differ
LIMITS = 16.0, 10.0, 6.0  # pixels, of one fit after the other
MANY = 12  # matches that say how slanted a picture is; of fewer an affine map is surer


@cache
def import_opencv() -> ModuleType:
    """The module `cv2`, imported when it is first needed and set to one thread.

    Pairs are what there are several of.
    """
    import cv2

    cv2.setNumThreads(1)
    return cv2


def fit_homography(
    a: np.ndarray, b: np.ndarray, turns: np.ndarray, error: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """The homography float64 (3, 3) that lays places float32 (N, 2) on others within `error` pixels, and which of them
    it lays there, bool (N,). None, and no inliers, where it explains no more than four.

    `turns` complex (N,) say by how much each match magnifies, and by what angle it turns.
    """
    best, kept = None, np.zeros(len(a), bool)
    if not len(a):
        return best, kept
    tried, agreeing = _try_matches(a.astype(np.float64), b.astype(np.float64), turns, error)
    left = agreeing.sum(1)
    for _ in range(ATTEMPTS):
        first = int(left.argmax())
        if left[first] <= max(CORNERS, kept.sum() // 2):  # a fit finds more than agree, seldom twice as many
            break
        found, inliers = _fit_to_matches(a, b, agreeing[first], error)
        if found is not None and inliers.sum() > max(CORNERS, kept.sum()):
            best, kept = found, inliers
        left[agreeing[first, tried]] = 0
    return best, kept


def _try_matches(a: np.ndarray, b: np.ndarray, turns: np.ndarray, error: float) -> tuple[np.ndarray, np.ndarray]:
    """The matches that are tried, int64 (T,), and those that agree with each, bool (T, N)."""
    tried = np.linspace(0, len(a), min(TRIED, len(a)), endpoint=False, dtype=np.int64)
    if len(tried) == TRIED:
        quick = tried[:: TRIED // QUICK]
        agreeing = _find_agreeing(quick, a, b, turns, error)
        if 2 * agreeing.sum(1).max() > len(a):
            return quick, agreeing
    return tried, _find_agreeing(tried, a, b, turns, error)


def _find_agreeing(tried: np.ndarray, a: np.ndarray, b: np.ndarray, turns: np.ndarray, error: float) -> np.ndarray:
    """Which matches agree with each that is `tried`, bool (T, N).

    A row is for the match that says how one picture lies over the other.
    """
    real, imaginary = (part(turns).astype(np.float64) for part in (np.real, np.imag))
    square = real**2 + imaginary**2
    along, times = real[tried, None] * real + imaginary[tried, None] * imaginary, square[tried, None] / square
    turned = (along > 0) & (along**2 >= np.cos(np.deg2rad(TURNED)) ** 2 * square[tried, None] * square)
    alike = turned & (times <= MAGNIFIED**2) & (times >= MAGNIFIED**-2)
    row, other = np.nonzero(alike)  # few of those that are wrong: the places of the others need not be looked at
    one = tried[row]
    (x, y), (across, down) = ((places[other] - places[one]).T for places in (a, b))
    real, imaginary = real[one], imaginary[one]
    off = (real * x - imaginary * y - across) ** 2 + (imaginary * x + real * y - down) ** 2
    alike[row, other] = off <= (error + SLANT * np.sqrt(across**2 + down**2)) ** 2
    return alike


def _fit_to_matches(
    a: np.ndarray, b: np.ndarray, kept: np.ndarray, error: float
) -> tuple[np.ndarray | None, np.ndarray]:
    """The homography fitted to the matches `kept`, and its inliers.

    It is fitted again to those that it lays close to their places. None where all of them are in a few places.
    """
    found: np.ndarray | None = None
    for limit in (*LIMITS, error, error):
        if kept.sum() <= CORNERS:
            return None, kept
        if limit < LIMITS[-1] and kept.sum() >= MANY:
            found = import_opencv().findHomography(a[kept], b[kept], 0)[0]
        else:
            affine, *_ = np.linalg.lstsq(np.column_stack([a[kept], np.ones(kept.sum())]), b[kept].astype(np.float64))
            found = np.vstack([affine.T, [0, 0, 1]])
        if found is None:
            return None, kept
        kept = miss_distances(found, a, b) <= limit
    return found, kept


def miss_distances(homography: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distances float64 (N,) of matched places after the homography is applied to the first."""
    moved = np.column_stack([a, np.ones(len(a))]) @ homography.T
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.hypot(*(moved[:, :2] / moved[:, 2:] - b).T)


def is_plausible(homography: np.ndarray, size: tuple[int, int]) -> bool:
    """True if a homography keeps a picture convex, the same side up and plausibly large."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    corners = import_opencv().perspectiveTransform(corners[:, None], homography)[:, 0]
    sides = np.roll(corners, -1, 0) - corners
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    area = abs(import_opencv().contourArea(corners)) / (width * height)
    return bool(np.isfinite(corners).all() and (turns > 0).all() and 0.02 < area < 50)


def magnification(homography: np.ndarray, size: tuple[int, int]) -> float:
    """The linear magnification of a homography in the middle of a picture."""
    x, y = size[0] / 2, size[1] / 2
    middle = np.array([[x, y], [x + 20, y], [x, y + 20]], np.float32)
    origin, right, down = import_opencv().perspectiveTransform(middle[:, None], homography)[:, 0].astype(float)
    area = np.linalg.det(np.stack([right - origin, down - origin]))
    return max(abs(area) ** 0.5 / 20, 1e-6)
