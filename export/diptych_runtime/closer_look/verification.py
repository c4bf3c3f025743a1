"""Geometric verification: a closer look at two pictures that may be copies, with local features and a homography.

A network that sees a picture as 12 x 12 tokens cannot read; two pages of one layout are the same to it. Here the
keypoints of both (SIFT: Lowe 2004, RootSIFT: Arandjelovic and Zisserman 2012) are matched, one homography is fitted to
the matches (RANSAC), one picture is laid over the other by it, and both are compared block by block where they overlap
(normalised cross-correlation). `evidence` makes one probability of that and of what the network said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from diptych_runtime.closer_look.evidence import FEWEST, KEYPOINTS, Evidence
from diptych_runtime.decoder import PictureLimits, PictureSource, open_picture

if TYPE_CHECKING:
    from types import ModuleType

SIDE, FINE = 400, 800  # pixels of the longer side: where keypoints lie, and at most where detail is compared
RATIO = 0.85  # of the distances to the best and to the second best match
ERROR = 4.0  # pixels by which a match may miss
ENOUGH = 25  # of them; with fewer, the mirror image is tried too
BLOCK, DETAIL = 24, 12  # pixels of the blocks that are compared, after blurring and almost without
ALIKE, OTHER = 0.6, 0.4  # the correlation of two blocks that show the same, and below which they do not
TEXTURED, COARSELY = 7.7, 6.0  # standard deviation of a block's brightness, 0 to 255, almost without and after blurring
WITHIN = 0.97  # of a picture's pixels: it lies within the other one; and one with more of its own within has no frame
APART, RIM = 12, 8  # pixels to the first one that counts as frame, and of the rim that has to differ from it
PLAIN, DISTINCT = 12, 20  # distances of a channel, 0 to 255: within one colour, and from another
UNIFORM, ABRUPT = 0.95, 0.97  # shares of a frame that have its colour, and of the rim that do not
# Distances of a channel that a drawn frame keeps within, as no photographed ground does, and that a picture's edge of
# the same colour does not, and the share of the rim for which that is so.
DRAWN, NOISY, MOSTLY = 4, 2, 0.85
RECOLOURED, EXPLAINED = 30.0, 6.0  # distances of two colours, each channel 0 to 255
_LIMITS = PictureLimits()


@dataclass(frozen=True)
class View:
    """A picture as it is verified: uint8 (h, w, 3), its longer side at most `FINE`, and its keypoints in pixels of the
    same picture with a longer side of `SIDE`.
    """

    rgb: np.ndarray
    keypoints: Keypoints

    @property
    def size(self) -> tuple[int, int]:
        """Its width and height where its keypoints lie."""
        height, width = self.rgb.shape[:2]
        scale = SIDE / max(height, width)
        return max(16, round(width * scale)), max(16, round(height * scale))

    @property
    def density(self) -> float:
        """Pixels of it for each pixel there."""
        return self.rgb.shape[1] / self.size[0]

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it takes."""
        return self.rgb.nbytes + self.keypoints.places.nbytes + self.keypoints.descriptors.nbytes

    @property
    def mirrored(self) -> View:
        """Its mirror image, with the same keypoints."""
        return View(np.ascontiguousarray(self.rgb[:, ::-1]), self.keypoints.mirrored(self.size[0]))


@dataclass(frozen=True)
class Keypoints:
    """Places float32 (P, 2), x and y in pixels, and unit descriptors float32 (P, 128)."""

    places: np.ndarray
    descriptors: np.ndarray

    def mirrored(self, width: int) -> Keypoints:
        """The keypoints of the mirror image of a picture of this width.

        A descriptor has 4 x 4 cells along and across its orientation, each with 8 directions: in the mirror image the
        cells across are in reverse order, and directions turn the other way.
        """
        cells = self.descriptors.reshape(-1, 4, 4, 8)[:, ::-1, :, -np.arange(8) % 8]
        return Keypoints(
            np.array([width - 1, 0], np.float32) + np.array([-1, 1], np.float32) * self.places,
            np.ascontiguousarray(cells).reshape(-1, 128),
        )


@dataclass(frozen=True)
class Laid:
    """Two pictures on one grid, uint8 (h, w, 3), and where both are `shown`, bool (h, w)."""

    a: np.ndarray
    b: np.ndarray
    shown: np.ndarray


def describe(source: PictureSource, limits: PictureLimits = _LIMITS) -> View:
    """A picture as `verify` compares it. Raises PictureError."""
    picture = open_picture(source, limits, least=FINE)
    scale = min(1, FINE / max(picture.size))
    width, height = (max(16, round(side * scale)) for side in picture.size)
    return _described(np.asarray(picture.resize((width, height), Image.Resampling.BOX)))


def verify(a: View, b: View) -> Evidence:
    """Lay one picture over the other, or its mirror image; in whatever order they come, the evidence is the same, and
    `framed` has the other sign.
    """
    turned = (a.rgb.shape, a.rgb.tobytes()) > (b.rgb.shape, b.rgb.tobytes())
    if turned:
        a, b = b, a
    evidence = _registered(a, b)
    if evidence.inliers < ENOUGH:
        other = _registered(a.mirrored, b)
        evidence = other if other.inliers > evidence.inliers else evidence
    framed = 0.0 - evidence.framed if turned else evidence.framed
    return replace(evidence, framed=framed, identical=np.array_equal(a.rgb, b.rgb))


def _described(rgb: np.ndarray) -> View:
    cv2 = _opencv()
    view = View(rgb, Keypoints(np.empty((0, 2), np.float32), np.empty((0, 128), np.float32)))
    # Low contrast counts: what a copy went through takes it away. Without precise upscaling places are a quarter of a
    # pixel off, and those of the mirror image another half.
    sift = cv2.SIFT_create(nfeatures=KEYPOINTS, contrastThreshold=0.02, enable_precise_upscale=True)
    found, descriptors = sift.detectAndCompute(cv2.cvtColor(_resized(rgb, view.size), cv2.COLOR_RGB2GRAY), None)
    if descriptors is None:
        return view
    roots = np.sqrt(descriptors / np.maximum(descriptors.sum(1, keepdims=True), 1e-6))
    return View(rgb, Keypoints(np.array([point.pt for point in found], np.float32), roots))


def _resized(rgb: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    cv2 = _opencv()
    return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA if size[0] < rgb.shape[1] else cv2.INTER_CUBIC)


def _registered(a: View, b: View) -> Evidence:
    cv2 = _opencv()
    fewer = min(len(a.keypoints.places), len(b.keypoints.places))
    places_a, places_b = _matched(a.keypoints, b.keypoints)
    none = Evidence(fewer, len(places_a))
    if len(places_a) < FEWEST:
        return none
    homography, kept = cv2.findHomography(places_a, places_b, cv2.RANSAC, ERROR, maxIters=700)
    if homography is None or kept.sum() < FEWEST or not _plausible(homography, a.size):
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


def _plausible(homography: np.ndarray, size: tuple[int, int]) -> bool:
    """True if a homography keeps a picture a convex quadrangle with the same side up and of a plausible size."""
    width, height = size
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    corners = _opencv().perspectiveTransform(corners[:, None], homography)[:, 0]
    sides = np.roll(corners, -1, 0) - corners
    turns = sides[:, 0] * np.roll(sides[:, 1], -1) - sides[:, 1] * np.roll(sides[:, 0], -1)
    area = abs(_opencv().contourArea(corners)) / (width * height)
    return bool(np.isfinite(corners).all() and (turns > 0).all() and 0.02 < area < 50)


def _overlap(a: View, b: View, homography: np.ndarray) -> dict[str, Any]:
    finest = _finest(a, b, homography)
    coarse, fine = _laid(a, b, homography, 1.0), _laid(a, b, homography, finest)
    back = _laid(b, a, np.linalg.inv(homography), 1.0)
    here, there = float(coarse.shown.mean()), float(back.shown.mean())
    smooth = _Blocks.of(coarse, blur=1.5, block=BLOCK)
    textured = smooth.inside & (smooth.either > COARSELY)
    agreeing = smooth.correlation[textured]
    sharp = _Blocks.of(fine, blur=0.7, block=DETAIL)
    either, both = (sharp.inside & (texture > TEXTURED) for texture in (sharp.either, sharp.both))
    return {
        "coverage": min(here, there),
        "containment": max(here, there),
        "framed": _framed(back, here) - _framed(coarse, there),
        "blocks": len(agreeing),
        "agreement": _share(agreeing > ALIKE),
        "worst": float(np.quantile(agreeing, 0.05)) if len(agreeing) else 0.0,
        "scale": finest,
        "detail": _share(sharp.correlation[either] > ALIKE),
        "detail_both": _share(sharp.correlation[both] > ALIKE),
        "detail_worst": float(np.quantile(sharp.correlation[both], 0.02)) if both.any() else 0.0,
        "differing": _share((both & (sharp.correlation < OTHER))[either]),
        **_colours(fine, sharp),
    }


def _framed(laid: Laid, covered: float) -> float:
    """The share of the picture `b` of a grid that lies within a frame around the other, of which so much is covered; 0
    without a frame.

    A frame has one colour, and all along it begins abruptly. What a crop has left out has texture; and where the
    surroundings are plain, as around an article on white, they go on within the crop. A frame in the colour of the
    picture's own edge does not begin abruptly, but it is drawn: its colour is exact, and that of the edge is not.
    """
    cv2, inside = _opencv(), laid.shown.astype(np.uint8)
    share = float(laid.shown.mean())
    if covered < WITHIN or share > WITHIN:
        return 0.0
    frame = cv2.dilate(inside, np.ones((2 * APART + 1,) * 2, np.uint8)) == 0
    beside = cv2.dilate(1 - inside, np.ones((2 * RIM + 1,) * 2, np.uint8)) > 0
    rim = beside & (cv2.erode(inside, np.ones((5, 5), np.uint8), borderType=cv2.BORDER_REPLICATE) > 0)
    if frame.mean() < 0.01 or rim.sum() < 50:
        return 0.0
    colour = np.median(laid.b[frame], axis=0)
    from_it = np.abs(laid.b - colour).max(-1)
    abrupt = _share(from_it[frame] <= PLAIN) > UNIFORM and _share(from_it[rim] > DISTINCT) > ABRUPT
    drawn = _share(from_it[frame] <= DRAWN) > UNIFORM and _share(from_it[rim] > NOISY) > MOSTLY
    return share if abrupt or drawn else 0.0


def _magnification(homography: np.ndarray, size: tuple[int, int]) -> float:
    """The linear magnification of a homography in the middle of a picture."""
    x, y = size[0] / 2, size[1] / 2
    middle = np.array([[x, y], [x + 20, y], [x, y + 20]], np.float32)
    origin, right, down = _opencv().perspectiveTransform(middle[:, None], homography)[:, 0].astype(float)
    area = np.linalg.det(np.stack([right - origin, down - origin]))
    return max(abs(area) ** 0.5 / 20, 1e-6)


def _finest(a: View, b: View, homography: np.ndarray) -> float:
    """Pixels for each pixel of `b` where its keypoints lie, as many as the coarser of both has."""
    return float(np.clip(min(a.density / _magnification(homography, a.size), b.density), 0.25, FINE / SIDE))


def _laid(a: View, b: View, homography: np.ndarray, scale: float) -> Laid:
    """Lay `a` over `b` by a homography between where their keypoints lie, on a grid `scale` times that of `b`."""
    cv2 = _opencv()
    across, down = b.size
    size = max(16, round(across * scale)), max(16, round(down * scale))
    # What becomes much smaller is made smaller first: warping alone would pick single pixels.
    fitting = scale * _magnification(homography, a.size) / a.density
    width, height = (max(8, round(side * fitting)) for side in a.rgb.shape[1::-1])
    small = _resized(a.rgb, (width, height)) if fitting < 1 / 1.5 else a.rgb
    grid = np.diag([size[0] / across, size[1] / down, 1.0])
    back = np.diag([a.size[0] / small.shape[1], a.size[1] / small.shape[0], 1.0])
    moved = grid @ homography @ back
    shown = cv2.warpPerspective(np.ones(small.shape[:2], np.float32), moved, size) > 0.99
    return Laid(cv2.warpPerspective(small, moved, size), _resized(b.rgb, size), shown)


@dataclass(frozen=True)
class _Blocks:
    """Blocks half overlapping (rows, columns): how both pictures correlate in each, the higher and the lower standard
    deviation of brightness, and whether it lies where both are shown.
    """

    correlation: np.ndarray
    either: np.ndarray
    both: np.ndarray
    inside: np.ndarray

    @classmethod
    def of(cls, laid: Laid, *, blur: float, block: int) -> _Blocks:
        cv2 = _opencv()
        grey = (cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32) for rgb in (laid.a, laid.b))
        a, b = (cv2.GaussianBlur(picture, (0, 0), blur) for picture in grey)
        mean_a, mean_b, square_a, square_b, product, inside = (
            _means(picture, block) for picture in (a, b, a * a, b * b, a * b, laid.shown.astype(np.float32))
        )
        variance_a, variance_b = square_a - mean_a**2, square_b - mean_b**2
        correlation = (product - mean_a * mean_b) / np.sqrt(np.maximum(variance_a, 9) * np.maximum(variance_b, 9))
        deviation_a, deviation_b = (np.sqrt(np.maximum(variance, 0)) for variance in (variance_a, variance_b))
        either, both = np.maximum(deviation_a, deviation_b), np.minimum(deviation_a, deviation_b)
        return cls(correlation, either, both, inside > 0.999)


def _colours(laid: Laid, blocks: _Blocks) -> dict[str, float]:
    """The colour features of blocks, as distances from a line fitted to a channel's values; outliers weigh less."""
    if blocks.inside.sum() < 12:
        return {}
    first, second = (_means(rgb.astype(np.float32), DETAIL)[blocks.inside] for rgb in (laid.a, laid.b))
    off = np.linalg.norm([_off_line(x, y) for x, y in zip(first.T, second.T, strict=True)], axis=0)
    kept = ((blocks.correlation > ALIKE + 0.1) & (blocks.both > 2))[blocks.inside]
    return {
        "recoloured": _share(off[kept] > RECOLOURED),
        "explained": _share(off < EXPLAINED),
        "off": float(np.median(off)),
    }


def _share(which: np.ndarray) -> float:
    return float(which.mean()) if which.size else 0.0


def _off_line(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    known, weight, off = np.column_stack([x, np.ones(len(x))]), np.ones(len(x)), y
    for _ in range(4):
        line = np.linalg.lstsq(known * weight[:, None], y * weight, rcond=None)[0]
        off = y - known @ line
        weight = (1 + (off / 10) ** 2) ** -0.5
    return off


def _means(picture: np.ndarray, size: int) -> np.ndarray:
    """Means of blocks of `size` x `size` pixels, half a block apart: each of four cells of half that size."""
    half = size // 2
    down, across = (max(2, side // half) for side in picture.shape[:2])
    cv2 = _opencv()
    cells = cv2.resize(picture[: down * half, : across * half], (across, down), interpolation=cv2.INTER_AREA)
    return (cells[:-1, :-1] + cells[1:, :-1] + cells[:-1, 1:] + cells[1:, 1:]) / 4


@cache
def _opencv() -> ModuleType:
    import cv2

    cv2.setNumThreads(1)  # pairs are what there are several of
    return cv2
