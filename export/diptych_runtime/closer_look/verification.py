"""Geometric verification: a closer look at two pictures that may be copies, with local features and a homography.

A network that sees a picture as 12 x 12 tokens cannot read; two pages of one layout are the same to it. Here the
keypoints of both (SIFT: Lowe 2004, RootSIFT: Arandjelovic and Zisserman 2012) are matched, one homography is fitted to
the matches (`homography`), one picture is laid over the other by it, and a network compares both where they overlap
(`aligned`). `calibration.evidence` makes one probability of that and of what the pair network said.
"""

from __future__ import annotations

import cmath
import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np
from PIL import Image

from diptych_runtime.calibration.evidence import FEWEST, KEYPOINTS, SQUARE, Evidence, corners_by
from diptych_runtime.closer_look.aligned import SCALE, Laid, aligned_odds, crop_to_shown
from diptych_runtime.closer_look.frames import Frames
from diptych_runtime.closer_look.homography import import_opencv, magnification
from diptych_runtime.closer_look.registration import Keypoints, Registration, register_pair
from diptych_runtime.decoder import PictureLimits, PictureSource, file_bytes, open_picture, read_header
from diptych_runtime.picture_facts import read_picture_facts

SIDE, FINE = 400, 800  # pixels of the longer side: where keypoints lie, and at most where detail is compared
CONTRAST = 0.01  # of a keypoint at least, a quarter of OpenCV's: what a copy went through takes contrast away
GRID = 32  # cells each way of pictures that are too plain for keypoints
_LIMITS = PictureLimits()
_SHARE = 5  # decimals of the share of a picture; processors differ in the last bits


@dataclass(frozen=True)
class View:
    """A picture as it is verified: uint8 (h, w, 3), its longer side at most `FINE`, and its keypoints in pixels of the
    same picture with a longer side of `SIDE`.

    `digest` is that of all its decoded pixels, and `frames` are those of a file that has several.
    """

    rgb: np.ndarray
    keypoints: Keypoints
    digest: bytes = b""
    frames: Frames | None = None

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
        return self.rgb.nbytes + self.keypoints.nbytes + (self.frames.small.nbytes if self.frames else 0)

    @property
    def mirror_image(self) -> View:
        """Its mirror image, with the same keypoints."""
        rgb, keypoints = np.ascontiguousarray(self.rgb[:, ::-1]), self.keypoints.mirror_keypoints(self.size[0])
        return replace(self, rgb=rgb, keypoints=keypoints)


def describe(source: PictureSource, limits: PictureLimits = _LIMITS) -> View:
    """A picture as `verify` compares it. Raises PictureError."""
    data = file_bytes(source, limits)
    if data is None:
        return _describe_picture(open_picture(source, limits))
    picture = open_picture(data, limits, least=FINE)
    with read_header(data, "the picture") as header:
        size, count = header.size, read_picture_facts(data, header).frames
    view = _describe_picture(picture)
    if set(picture.size) != set(size):
        # A JPEG was decoded smaller than it is. Where keypoints do not tell it from others, all its pixels have to.
        plain = len(view.keypoints.places) < FEWEST
        digest = _pixel_digest(open_picture(data, limits)) if plain else _pixel_digest(picture, size)
        view = replace(view, digest=digest)
    return replace(view, frames=Frames.from_file(data, count, limits)) if count > 1 else view


def describe_pixels(rgb: np.ndarray) -> View:
    """The pixels uint8 (h, w, 3) of a picture as `verify` compares them."""
    return _describe_picture(Image.fromarray(rgb))


def _pixel_digest(picture: Image.Image, whole: tuple[int, int] | None = None) -> bytes:
    """The digest of a picture's size and pixels, and of the size `whole` that it was decoded from."""
    return hashlib.sha256(repr((picture.size, whole)).encode() + picture.tobytes()).digest()


def verify(a: View, b: View) -> Evidence:
    """Lay one picture over the other, or its mirror image; in the other order, the evidence has its sides swapped."""
    pair = _Registered.from_views(a, b)
    found, fewer = pair.found, min(len(a.keypoints.places), len(b.keypoints.places))
    seen = Evidence(
        fewer,
        found.matches,
        found.inliers,
        identical=pair.order == 0,
        equal=bool(a.digest) and a.digest == b.digest,
        frames_differ=a.frames is not None and b.frames is not None and not a.frames.agrees_with(b.frames),
    )
    if found.homography is None:
        return replace(seen, apart=_colour_distance(a.rgb, b.rgb)) if fewer < FEWEST else seen
    moved = pair.move_shares(found.homography)
    shared = _shared_areas(moved)
    return replace(
        seen,
        coverage=min(shared),
        containment=max(shared),
        aligned_odds=aligned_odds(pair.lay_over(found.homography)),
        corners=corners_by(np.linalg.inv(moved) if pair.order > 0 else moved),
    )


def lay_pair(a: View, b: View) -> Laid | None:
    """One picture laid over the other as the aligned-pair network sees them; None where it cannot be.

    It is cut to where both are shown (`aligned`).
    """
    pair = _Registered.from_views(a, b)
    return None if pair.found.homography is None else pair.lay_over(pair.found.homography)


@dataclass(frozen=True)
class _Registered:
    """Two pictures in the `order` of their pixels, -1, 1 for the other one, or 0 for the same, the first mirrored where
    that fits better, and the registration `found`.
    """

    a: View
    b: View
    order: int
    found: Registration

    @classmethod
    def from_views(cls, a: View, b: View) -> _Registered:
        order = _compare_pixels(a.rgb, b.rgb)
        if order > 0:
            a, b = b, a
        found = register_pair(a.keypoints, b.keypoints, a.size)
        return cls(a.mirror_image if found.mirrored else a, b, order, found)

    def move_shares(self, homography: np.ndarray) -> np.ndarray:
        """The homography (3, 3) from shares of the sides of `a`, as it was given, to shares of those of `b`."""
        (width, height), (across, down) = self.a.size, self.b.size
        mirror = np.array([[-1, 0, width - 1], [0, 1, 0], [0, 0, 1]]) if self.found.mirrored else np.eye(3)
        return np.diag([1 / across, 1 / down, 1]) @ homography @ mirror @ np.diag([width, height, 1])

    def lay_over(self, homography: np.ndarray) -> Laid:
        """One picture laid over the other, in their own resolution at most, and cut to where both are shown."""
        return crop_to_shown(_lay_over(self.a, self.b, homography, _finest_scale(self.a, self.b, homography)))


def _compare_pixels(a: np.ndarray, b: np.ndarray) -> int:
    """The order of two pictures by their shapes and bytes: -1, 1, or 0 for the same pixels."""
    if a.shape != b.shape:
        return 1 if a.shape > b.shape else -1
    for one, other in zip(a, b, strict=True):
        if (first := one.tobytes()) != (second := other.tobytes()):
            return 1 if first > second else -1
    return 0


def _shared_areas(moved: np.ndarray) -> tuple[float, float]:
    """The shares of two pictures in which they overlap, by a homography from shares of the sides of the first to those
    of the second that keeps the first convex: what of the second is far outside of it may have no place in the first.
    """
    cv2 = import_opencv()
    area, shared = cv2.intersectConvexConvex(*(np.array(one, np.float32) for one in (SQUARE, corners_by(moved))))
    if area <= 0:
        return 0.0, 0.0
    there = cv2.contourArea(cv2.perspectiveTransform(shared, np.linalg.inv(moved)))
    return round(min(1.0, there), _SHARE), round(min(1.0, area), _SHARE)


def _colour_distance(a: np.ndarray, b: np.ndarray) -> float:
    """The median colour distance of two pictures, turned or mirrored as fits best."""
    cells = [_resize_pixels(picture, (GRID, GRID)).astype(np.int16) for picture in (a, b)]
    turned = [np.rot90(cells[0], quarters) for quarters in range(4)]
    ways = [*turned, *(way[:, ::-1] for way in turned)]
    return min(float(np.median(np.abs(way - cells[1]).max(-1))) for way in ways)


def _describe_picture(picture: Image.Image) -> View:
    cv2, scale = import_opencv(), min(1, FINE / max(picture.size))
    width, height = (max(16, round(side * scale)) for side in picture.size)
    rgb = np.asarray(picture.resize((width, height), Image.Resampling.BOX))
    view = View(rgb, Keypoints.none(), _pixel_digest(picture))
    # Without precise upscaling places are a quarter of a
    # pixel off, and those of the mirror image another half.
    sift = cv2.SIFT_create(nfeatures=KEYPOINTS, contrastThreshold=CONTRAST, enable_precise_upscale=True)
    found, descriptors = sift.detectAndCompute(cv2.cvtColor(_resize_pixels(rgb, view.size), cv2.COLOR_RGB2GRAY), None)
    if descriptors is None:
        return view
    roots = np.sqrt(descriptors / np.maximum(descriptors.sum(1, keepdims=True), 1e-6))
    arrows = np.array([cmath.rect(point.size, math.radians(point.angle)) for point in found], np.complex64)
    return replace(view, keypoints=Keypoints(np.array([point.pt for point in found], np.float32), roots, arrows))


def _resize_pixels(rgb: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    cv2 = import_opencv()
    return cv2.resize(rgb, size, interpolation=cv2.INTER_AREA if size[0] < rgb.shape[1] else cv2.INTER_CUBIC)


def _finest_scale(a: View, b: View, homography: np.ndarray) -> float:
    """The scale of the coarser picture, in pixels for each pixel of the keypoints of `b`."""
    return float(np.clip(min(a.density / magnification(homography, a.size), b.density), 0.25, SCALE))


@dataclass(frozen=True)
class _Grid:
    """A grid over `b` that has a `size`, and the homography `moved` by which a picture of another `fitting` size,
    width and height, lies on it.
    """

    size: tuple[int, int]
    fitting: tuple[int, int]
    moved: np.ndarray

    @classmethod
    def over_view(cls, a: View, b: View, homography: np.ndarray, scale: float) -> _Grid:
        """The grid `scale` times that of `b`'s keypoints, for a homography between where the keypoints lie."""
        across, down = b.size
        size = max(16, round(across * scale)), max(16, round(down * scale))
        # What becomes much smaller is made smaller first: warping alone would pick single pixels.
        fitting = scale * magnification(homography, a.size) / a.density
        width, height = a.rgb.shape[1::-1]
        if fitting < 1 / 1.5:
            width, height = max(8, round(width * fitting)), max(8, round(height * fitting))
        grid = np.diag([size[0] / across, size[1] / down, 1.0])
        back = np.diag([a.size[0] / width, a.size[1] / height, 1.0])
        return cls(size, (width, height), grid @ homography @ back)

    @property
    def shown_area(self) -> np.ndarray:
        """The part of the grid that the picture laid on it covers, bool (h, w)."""
        width, height = self.fitting
        return import_opencv().warpPerspective(np.ones((height, width), np.float32), self.moved, self.size) > 0.99

    def lay_picture(self, rgb: np.ndarray) -> np.ndarray:
        """The picture warped onto the grid, uint8 (h, w, 3)."""
        small = rgb if rgb.shape[1::-1] == self.fitting else _resize_pixels(rgb, self.fitting)
        return import_opencv().warpPerspective(small, self.moved, self.size)


def _lay_over(a: View, b: View, homography: np.ndarray, scale: float) -> Laid:
    """Lay `a` over `b` by a homography between where their keypoints lie, on a grid `scale` times that of `b`."""
    grid = _Grid.over_view(a, b, homography, scale)
    return Laid(grid.lay_picture(a.rgb), _resize_pixels(b.rgb, grid.size), grid.shown_area)
