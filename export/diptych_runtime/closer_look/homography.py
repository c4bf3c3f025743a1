"""The homography that explains most matches of two pictures: the one that OpenCV's `findHomography` finds with RANSAC
(Fischler and Bolles 1981), in a fifth of its time.

OpenCV draws one set of four matches after the other, from a generator that always begins alike, and solves each by an
eigenvalue problem. Here the same sets are drawn, solved in closed form and counted by the thousand; OpenCV itself
solves what is too flat or lies too close to the limit for that to be exact, and fits the result to all its inliers.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from types import ModuleType

ITERATIONS, CONFIDENCE = 700, 0.995
CORNERS = 4  # matches that determine a homography
_BLOCK = 1024  # sets that are tried at once; two in ten of those of matches at random keep their order
_DRAWS = 2**16  # of the generator; those of 700 sets that count take some 15,000
_SPARE = 64  # draws that are left for the last set of a block, of which some may be there already
_COEFFICIENT = 4164903690  # of OpenCV's generator, which multiplies with carry
_TRIANGLES = ((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2))  # of four corners
# Twice the area, in pixels, below which OpenCV's own arithmetic is used to tell the order of three corners and to solve
# four; and the share of the limit within which an error may be on either side of it.
_DOUBTFUL, _FLAT, _CLOSE = 0.001, 0.01, 1e-4
_EPSILON = float(np.finfo(np.float32).eps)
_LEAST = float(np.finfo(np.float64).tiny)


@cache
def opencv() -> ModuleType:
    """The module `cv2`, imported when it is first needed and on one thread: pairs are what there are several of."""
    import cv2

    cv2.setNumThreads(1)
    return cv2


def fit_homography(a: np.ndarray, b: np.ndarray, error: float) -> tuple[np.ndarray | None, np.ndarray]:
    """The homography float64 (3, 3) that lays places float32 (N, 2) on others, five or more, and which of them it lays
    within `error` pixels, bool (N,). None, and no inliers, where it explains no more than four.
    """
    none = None, np.zeros(len(a), bool)
    try:
        kept = _inliers(a, b, np.float32(error * error))
    except _OutOfDrawsError:
        return _by_opencv(a, b, error)
    if kept.sum() <= CORNERS:
        return none
    # What OpenCV returns is fitted to all inliers, and so are the inliers that it returns.
    found = opencv().findHomography(a[kept], b[kept], 0)[0]
    if found is None:  # as where all are in a few places: there OpenCV keeps that of the four
        return _by_opencv(a, b, error)
    return found, _errors(found.reshape(9, 1), a, b)[:, 0] <= np.float32(error * error)


def _by_opencv(a: np.ndarray, b: np.ndarray, error: float) -> tuple[np.ndarray | None, np.ndarray]:
    ransac = opencv().RANSAC
    found, mask = opencv().findHomography(a, b, ransac, error, maxIters=ITERATIONS, confidence=CONFIDENCE)
    return found, np.zeros(len(a), bool) if mask is None else mask.ravel() > 0


class _OutOfDrawsError(Exception):
    """The end of the draws, before there were enough sets."""


def _inliers(a: np.ndarray, b: np.ndarray, limit: np.float32) -> np.ndarray:
    """The matches bool (N,) whose squared error is within the limit for the best set of those that are tried."""
    points = np.stack([a.T, b.T]).astype(np.float64)
    best, kept = CORNERS - 1, np.zeros(len(a), bool)
    iterations, done, block = ITERATIONS, 0, 0
    while done < iterations:
        sets, block = _sets(len(a), block)[0], block + 1
        if not sets.size:
            raise _OutOfDrawsError
        corners = points.take(sets, axis=2)
        areas = _areas(corners)
        least = np.abs(areas).min((0, 1))
        fit = _consistent(corners, areas, least)[: iterations - done]
        flat = least[fit] < _FLAT
        found = _homographies(corners.take(fit, axis=3), areas[:3].take(fit, axis=2))
        errors = _errors(found, a, b)
        most = np.where(flat, len(a), (errors <= limit * np.float32(1 + _CLOSE)).sum(0))
        place = -1
        while len(more := np.flatnonzero(most[place + 1 : iterations - done] > best)):
            place += 1 + int(more[0])
            error = errors[:, place]
            if flat[place] or (np.abs(error - limit) <= limit * _CLOSE).any():
                error = _exact_errors(a, b, sets[:, fit[place]])
            count = int((error <= limit).sum())
            if count > best:
                best, kept = count, error <= limit
                iterations = _needed((len(a) - count) / len(a), iterations)
        done += len(fit)
    return kept


def _needed(outliers: float, iterations: int) -> int:
    """The number of sets after which one without outliers was among them as surely as is asked for, at most
    `iterations`.
    """
    failing = 1 - (1 - outliers) ** CORNERS
    if failing < _LEAST:
        return 0
    wanted, each = math.log(1 - CONFIDENCE), math.log(failing)
    return iterations if each >= 0 or -wanted >= iterations * -each else round(wanted / each)


def _areas(corners: np.ndarray) -> np.ndarray:
    """Twice the signed areas float64 (4, 2, K) of the triangles of corners (2, 2, 4, K): picture, x and y, corner,
    set.
    """
    x, y = (corners[:, :, :3] - corners[:, :, 3:]).swapaxes(0, 1)
    areas = np.empty((4, 2, corners.shape[-1]))
    for number, (i, j) in enumerate(((1, 2), (0, 2), (0, 1))):
        np.multiply(x[:, i], y[:, j], out=areas[number])
        areas[number] -= x[:, j] * y[:, i]
    np.add(areas[0], areas[2], out=areas[3])
    areas[3] -= areas[1]
    return areas


def _consistent(corners: np.ndarray, areas: np.ndarray, least: np.ndarray) -> np.ndarray:
    """The numbers of the sets whose corners are in one order in both pictures, or in the opposite one, and none on a
    line between two others: those that OpenCV's RANSAC counts.
    """
    consistent = _unturned(areas)
    doubtful = np.flatnonzero(least < _DOUBTFUL)
    if len(doubtful):
        consistent[doubtful] = False
        known = doubtful[~_collinear(corners[..., doubtful], areas[:3, :, doubtful])]
        if len(known):
            consistent[known] = _unturned(_determinants(corners[..., known]))
    return np.flatnonzero(consistent)


def _unturned(areas: np.ndarray) -> np.ndarray:
    """The sets of which all four triangles have the same sign in both pictures, or all the opposite one, bool (K,)."""
    turned = (areas[:, 0] * areas[:, 1] < 0).sum(0)
    return (turned == 0) | (turned == CORNERS)


def _collinear(corners: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """The sets of which the last corner is on a line through two others in either picture, bool (K,)."""
    far = np.abs(corners[:, :, :3] - corners[:, :, 3:]).sum(1)
    lines = [
        np.abs(area) <= _EPSILON * (far[:, i] + far[:, j])
        for area, (i, j) in zip(areas, ((1, 2), (0, 2), (0, 1)), strict=True)
    ]
    return np.any(lines, axis=(0, 1))


def _determinants(corners: np.ndarray) -> np.ndarray:
    """`_areas` as OpenCV computes them, rounding included."""
    x, y = corners.swapaxes(0, 1)
    return np.stack(
        [
            x[:, i] * (y[:, j] - y[:, k]) - y[:, i] * (x[:, j] - x[:, k]) + (x[:, j] * y[:, k] - x[:, k] * y[:, j])
            for i, j, k in _TRIANGLES
        ]
    )


def _homographies(corners: np.ndarray, areas: np.ndarray) -> np.ndarray:
    """The homographies float64 (9, K) of four corners (2, 2, 4, K), from the `areas` (3, 2, K) beside the last one.

    In the basis of three corners the fourth has the areas as coordinates, so that a homography is the one basis after
    the inverse of the other.
    """
    (xa, ya), (xb, yb) = corners
    (a0, b0), (a1, b1), (a2, b2) = areas
    weights = np.stack([b0 * a1 * a2, b1 * a0 * a2, b2 * a0 * a1])
    i, j = [1, 2, 0], [2, 0, 1]
    inverse = (ya[i] - ya[j]), (xa[j] - xa[i]), (xa[i] * ya[j] - xa[j] * ya[i])
    found = np.empty((3, 3, corners.shape[-1]))
    for column, lines in enumerate(inverse):
        weighed = lines * weights
        for row, basis in enumerate((xb[:3], yb[:3])):
            found[row, column] = (basis * weighed).sum(0)
        found[2, column] = weighed.sum(0)
    found = found.reshape(9, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return found / found[8]


def _errors(homographies: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The squared errors float32 (N, K) of matches by homographies (9, K), rounded as OpenCV rounds them."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        h = homographies[:8].astype(np.float32)[:, None]
        x, y = a.T[..., None]
        scale = h[6] * x
        scale += h[7] * y
        scale += np.float32(1)
        np.divide(np.float32(1), scale, out=scale)
        squares = []
        for row, place in zip((h[:3], h[3:6]), b.T[..., None], strict=True):
            off = row[0] * x
            off += row[1] * y
            off += row[2]
            off *= scale
            off -= place
            off *= off
            squares.append(off)
        return np.add(*squares, out=squares[0])


def _exact_errors(a: np.ndarray, b: np.ndarray, four: np.ndarray) -> np.ndarray:
    """The squared errors float32 (N,) by the homography that OpenCV finds for four matches; infinite without one."""
    found = opencv().findHomography(a[four], b[four], 0)[0]
    return np.full(len(a), np.inf, np.float32) if found is None else _errors(found.reshape(9, 1), a, b)[:, 0]


@cache
def _draws() -> np.ndarray:
    """The numbers uint32 that OpenCV's generator gives one after the other."""
    state, found = 2**64 - 1, np.empty(_DRAWS, np.uint32)
    for number in range(_DRAWS):
        state = (state & 0xFFFFFFFF) * _COEFFICIENT + (state >> 32)
        found[number] = state & 0xFFFFFFFF
    return found


@lru_cache(maxsize=512)
def _sets(count: int, block: int) -> tuple[np.ndarray, int]:
    """A block of sets int64 (4, K) of four out of so many matches, as OpenCV draws them, and how many draws were
    taken up to its end; none at the end of all draws.
    """
    begin = _sets(count, block - 1)[1] if block else 0
    draws = _draws()[begin : begin + 6 * _BLOCK] % np.uint32(count)
    usable = max(0, len(draws) - _SPARE)
    a, b, c, d = (draws[n : usable + n] for n in range(CORNERS))
    repeated = ((a == b) | (a == c) | (a == d) | (b == c) | (b == d) | (c == d)).tolist()
    starts, place = list[int](), 0
    again: dict[int, list[int]] = {}  # sets by number in which a match was there already, and another was drawn
    while len(starts) < _BLOCK and place < len(repeated):
        starts.append(place)
        if repeated[place]:
            four, place = _distinct(draws, place)
            again[len(starts) - 1] = four
        else:
            place += CORNERS
    found = draws.astype(np.int64)[np.add.outer(np.arange(CORNERS), np.array(starts, np.int64))]
    for number, four in again.items():
        found[:, number] = four
    return found, begin + place


def _distinct(draws: np.ndarray, place: int) -> tuple[list[int], int]:
    """The first four different ones of the draws from a place on, and the place after them."""
    four: list[int] = []
    for one in draws[place : place + _SPARE].tolist():
        place += 1
        if one not in four:
            four.append(one)
        if len(four) == CORNERS:
            break
    return four, place


def plausible(homography: np.ndarray, size: tuple[int, int]) -> bool:
    """True if a homography keeps a picture a convex quadrangle with the same side up and of a plausible size."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    corners = opencv().perspectiveTransform(corners[:, None], homography)[:, 0]
    sides = np.roll(corners, -1, 0) - corners
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    area = abs(opencv().contourArea(corners)) / (width * height)
    return bool(np.isfinite(corners).all() and (turns > 0).all() and 0.02 < area < 50)


def magnification(homography: np.ndarray, size: tuple[int, int]) -> float:
    """The linear magnification of a homography in the middle of a picture."""
    x, y = size[0] / 2, size[1] / 2
    middle = np.array([[x, y], [x + 20, y], [x, y + 20]], np.float32)
    origin, right, down = opencv().perspectiveTransform(middle[:, None], homography)[:, 0].astype(float)
    area = np.linalg.det(np.stack([right - origin, down - origin]))
    return max(abs(area) ** 0.5 / 20, 1e-6)
