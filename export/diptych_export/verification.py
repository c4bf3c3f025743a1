"""Geometric verification: a closer look at two pictures that may be copies, with local features and a homography.

A network that sees a picture as 12 x 12 tokens cannot read; two pages of one layout are the same to it. Here the
keypoints of both (SIFT: Lowe 2004, RootSIFT: Arandjelovic and Zisserman 2012) are matched, one homography is fitted to
the matches (RANSAC), one picture is laid over the other by it, and both are compared block by block where they overlap
(normalised cross-correlation). `evidence` makes one probability of that and of what the network said.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from diptych_export.evidence import FEWEST, Evidence
from diptych_export.pictures import PictureLimits, PictureSource, open_picture

if TYPE_CHECKING:
    from types import ModuleType

SIDE = 400  # pixels of the longer side
KEYPOINTS = 600  # at most, the strongest
RATIO = 0.85  # of the distances to the best and to the second best match
ERROR = 4.0  # pixels by which a match may miss
ENOUGH = 25  # of them; with fewer, the mirror image is tried too
BLOCK, DETAIL = 25, 13  # pixels of the blocks that are compared, after blurring and almost without
_LIMITS = PictureLimits()
ALIKE = 0.6  # the correlation of two blocks that show the same
RECOLOURED = 30.0  # the distance of two colours, each channel 0 to 255


@dataclass(frozen=True)
class View:
    """A picture as it is verified: uint8 (h, w, 3), its longer side `SIDE`, and its keypoints; those of its mirror
    image are looked for when they are needed.
    """

    rgb: np.ndarray
    keypoints: Keypoints

    @cached_property
    def grey(self) -> np.ndarray:
        """Its brightness, uint8 (h, w)."""
        return _opencv().cvtColor(self.rgb, _opencv().COLOR_RGB2GRAY)

    @cached_property
    def mirrored(self) -> View:
        """Its mirror image."""
        return _described(np.ascontiguousarray(self.rgb[:, ::-1]))


@dataclass(frozen=True)
class Keypoints:
    """Places float32 (P, 2), x and y in pixels, and unit descriptors float32 (P, 128)."""

    places: np.ndarray
    descriptors: np.ndarray


def describe(source: PictureSource, limits: PictureLimits = _LIMITS) -> View:
    """A picture as `verify` compares it. Raises PictureError."""
    picture = open_picture(source, limits, least=SIDE)
    scale = SIDE / max(picture.size)
    width, height = (max(16, round(side * scale)) for side in picture.size)
    how = Image.Resampling.BICUBIC if scale > 1 else Image.Resampling.BOX
    return _described(np.asarray(picture.resize((width, height), how)))


def verify(a: View, b: View) -> Evidence:
    """Lay one picture over the other, or its mirror image; in whatever order they come, the evidence is the same."""
    if (a.rgb.shape, a.rgb.tobytes()) > (b.rgb.shape, b.rgb.tobytes()):
        a, b = b, a
    evidence = _registered(a, b)
    if evidence.inliers < ENOUGH:
        other = _registered(a.mirrored, b)
        evidence = other if other.inliers > evidence.inliers else evidence
    return evidence


def _described(rgb: np.ndarray) -> View:
    cv2 = _opencv()
    # Low contrast counts: what a copy went through takes it away.
    sift = cv2.SIFT_create(nfeatures=KEYPOINTS, contrastThreshold=0.02)
    found, descriptors = sift.detectAndCompute(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), None)
    if descriptors is None:
        return View(rgb, Keypoints(np.empty((0, 2), np.float32), np.empty((0, 128), np.float32)))
    roots = np.sqrt(descriptors / np.maximum(descriptors.sum(1, keepdims=True), 1e-6))
    return View(rgb, Keypoints(np.array([point.pt for point in found], np.float32), roots))


def _registered(a: View, b: View) -> Evidence:
    cv2 = _opencv()
    fewer = min(len(a.keypoints.places), len(b.keypoints.places))
    places_a, places_b = _matched(a.keypoints, b.keypoints)
    none = Evidence(fewer, len(places_a))
    if len(places_a) < FEWEST:
        return none
    homography, kept = cv2.findHomography(places_a, places_b, cv2.RANSAC, ERROR, maxIters=700)
    if homography is None or kept.sum() < FEWEST or not _plausible(homography, a.grey.shape):
        return none
    inliers = kept.ravel() > 0
    moved = cv2.perspectiveTransform(places_a[inliers][:, None], homography)[:, 0]
    error = float(np.median(np.linalg.norm(moved - places_b[inliers], axis=1)))
    return Evidence(fewer, len(places_a), int(inliers.sum()), error, **_overlap(a, b, homography))


def _matched(a: Keypoints, b: Keypoints) -> tuple[np.ndarray, np.ndarray]:
    """Places (M, 2) in both pictures of keypoints that are each other's best match, and clearly better than others."""
    if len(a.places) < FEWEST or len(b.places) < FEWEST:
        return a.places[:0], b.places[:0]
    cosines = a.descriptors @ b.descriptors.T
    best = cosines.argmax(1)
    mutual = np.flatnonzero(cosines.argmax(0)[best] == np.arange(len(best)))
    rows = cosines[mutual]
    second, first = np.partition(rows, -2, axis=1)[:, -2:].T
    clear = 1 - first < RATIO**2 * (1 - second)  # squared distances of unit vectors, halved
    return a.places[mutual[clear]], b.places[best[mutual[clear]]]


def _plausible(homography: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether a picture stays a convex quadrangle with the same side up, and of a size that one can have become."""
    height, width = shape
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    corners = _opencv().perspectiveTransform(corners[:, None], homography)[:, 0]
    sides = np.roll(corners, -1, 0) - corners
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    area = abs(_opencv().contourArea(corners)) / (width * height)
    return bool(np.isfinite(corners).all() and (turns > 0).all() and 0.02 < area < 50)


def _overlap(a: View, b: View, homography: np.ndarray) -> dict[str, Any]:
    cv2 = _opencv()
    height, width = b.grey.shape
    laid = cv2.warpPerspective(a.rgb, homography, (width, height))
    shown = cv2.warpPerspective(np.ones(a.grey.shape, np.float32), homography, (width, height)) > 0.99
    back = cv2.warpPerspective(np.ones(b.grey.shape, np.float32), np.linalg.inv(homography), a.grey.shape[::-1])
    first, second = cv2.cvtColor(laid, cv2.COLOR_RGB2GRAY).astype(np.float32), b.grey.astype(np.float32)
    coarse, textured = _correlations(first, second, shown, blur=1.5, block=BLOCK, texture=6.0)
    fine, detailed = _correlations(first, second, shown, blur=0.7, block=DETAIL, texture=7.7)
    coarse, fine = coarse[textured], fine[detailed]
    return {
        "coverage": float(min(shown.mean(), (back > 0.5).mean())),
        "containment": float(max(shown.mean(), (back > 0.5).mean())),
        "blocks": len(coarse),
        "agreement": float((coarse > ALIKE).mean()) if len(coarse) else 0.0,
        "worst": float(np.quantile(coarse, 0.05)) if len(coarse) else 0.0,
        "detail": float((fine > ALIKE).mean()) if len(fine) else 0.0,
        "recoloured": _recoloured(laid, b.rgb, shown),
    }


def _correlations(
    a: np.ndarray, b: np.ndarray, shown: np.ndarray, *, blur: float, block: int, texture: float
) -> tuple[np.ndarray, np.ndarray]:
    """Correlations of blocks half overlapping, and which lie where both pictures are and have a standard deviation
    above `texture` in one of them.
    """
    cv2 = _opencv()
    a, b = (cv2.GaussianBlur(picture, (0, 0), blur) for picture in (a, b))
    mean_a, mean_b, square_a, square_b, product, inside = (
        _blocks(picture, block) for picture in (a, b, a * a, b * b, a * b, shown.astype(np.float32))
    )
    variance_a, variance_b = square_a - mean_a**2, square_b - mean_b**2
    correlation = (product - mean_a * mean_b) / np.sqrt(np.maximum(variance_a, 9) * np.maximum(variance_b, 9))
    return correlation, (np.maximum(variance_a, variance_b) > texture**2) & (inside > 0.999)


def _recoloured(a: np.ndarray, b: np.ndarray, shown: np.ndarray) -> float:
    """The share of blocks that no line over all of a channel's values explains; outliers weigh less."""
    inside = _blocks(shown.astype(np.float32), DETAIL) > 0.999
    first, second = (_blocks(picture.astype(np.float32), DETAIL)[inside] for picture in (a, b))
    if len(first) < 12:
        return 0.0
    residual = np.stack([_off_line(x, y) for x, y in zip(first.T, second.T, strict=True)])
    return float((np.linalg.norm(residual, axis=0) > RECOLOURED).mean())


def _off_line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    known, weight, off = np.column_stack([x, np.ones(len(x))]), np.ones(len(x)), y
    for _ in range(4):
        line = np.linalg.lstsq(known * weight[:, None], y * weight, rcond=None)[0]
        off = y - known @ line
        weight = (1 + (off / 10) ** 2) ** -0.5
    return off


def _blocks(picture: np.ndarray, size: int) -> np.ndarray:
    """Means of blocks of `size` x `size` pixels, half a block apart."""
    half = size // 2
    return _opencv().boxFilter(picture, -1, (size, size))[half::half, half::half]


@cache
def _opencv() -> ModuleType:
    import cv2

    cv2.setNumThreads(1)  # pairs are what there are several of
    return cv2
