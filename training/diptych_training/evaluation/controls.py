"""Controls: what people use today, on the same pictures as the models, none of it trained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from PIL import Image, ImageFilter

from diptych_runtime.decoder import PictureSource, open_picture
from diptych_training.errors import DataError

if TYPE_CHECKING:
    from scipy.spatial import KDTree

LONGEST = 480
RATIO = 0.8
REPROJECTION = 5.0


class Keypoints(NamedTuple):
    """Places float32 (P, 2), x and y in pixels, and their descriptors uint8 (P, D); P may be 0."""

    places: np.ndarray
    descriptors: np.ndarray


def make_sift() -> LocalFeatures:
    """Make the control SIFT, with at most 1,000 keypoints.

    Raises ImportError without OpenCV.
    """
    cv2 = _import_opencv()
    # It starts from twice the picture's size by itself: enlarging first costs five times as much and finds no more.
    return LocalFeatures("sift", cv2, cv2.SIFT_create(nfeatures=1000), _measure_euclidean, enlarge=False)


def make_orb() -> LocalFeatures:
    """Make the control ORB, with at most 500 keypoints.

    Raises ImportError without OpenCV.
    """
    cv2 = _import_opencv()
    # It only looks at smaller scales, and at nothing nearer to the edge than 31 pixels.
    return LocalFeatures("orb", cv2, cv2.ORB_create(nfeatures=500), _measure_hamming, enlarge=True)


class LocalFeatures:
    """Inliers of a homography, plus the share m / (m + 1) for m matches to order equals: finite and at least 0.

    Pictures are brought to a longest side of 480 pixels, smaller ones only where `enlarge` says so. The ratio test asks
    the query, so (a, b) and (b, a) may differ.
    """

    verifies = True

    def __init__(
        self,
        name: str,
        cv2: ModuleType,
        detector: Any,
        distance: Callable[[np.ndarray, np.ndarray], np.ndarray],
        *,
        enlarge: bool,
    ) -> None:
        self.name, self.enlarge = name, enlarge
        self._cv2: Any = cv2
        self._detector, self._distance = detector, distance

    def describe(self, picture: PictureSource) -> Keypoints:
        """The picture's keypoints; none where it is blank."""
        grey = open_picture(picture).convert("L")
        scale = LONGEST / max(grey.size)
        if scale < 1 or self.enlarge:
            width, height = (max(1, round(side * scale)) for side in grey.size)
            grey = grey.resize((width, height), Image.Resampling.BICUBIC)
        found, descriptors = self._detector.detectAndCompute(np.asarray(grey), None)
        if descriptors is None:
            return Keypoints(np.empty((0, 2), np.float32), np.empty((0, self._detector.descriptorSize()), np.uint8))
        # SIFT gives whole numbers up to 255 as floats; a gallery of them takes a quarter of the memory as bytes.
        return Keypoints(np.array([point.pt for point in found], np.float32), descriptors.astype(np.uint8))

    def scores(self, query: Keypoints, references: Sequence[Keypoints]) -> np.ndarray:
        """Inliers and the tie-breaker, float64 (R,)."""
        return np.array([self._score_pair(query, reference) for reference in references], np.float64)

    def _score_pair(self, query: Keypoints, reference: Keypoints) -> float:
        asked, answered = self.matches(query, reference)
        count = len(asked)
        return self._count_inliers(query.places[asked], reference.places[answered]) + count / (count + 1)

    def matches(self, query: Keypoints, reference: Keypoints) -> tuple[np.ndarray, np.ndarray]:
        """Indices (M,) of the matched keypoints of both pictures, each keypoint at most once.

        Without the mutual test many keypoints meet in one, and some homography always collapses them onto it.
        """
        # The ratio test needs a second neighbour.
        if len(query.places) == 0 or len(reference.places) < 2:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        distance = self._distance(query.descriptors, reference.descriptors)
        nearest, second = np.partition(distance, 1, axis=1)[:, :2].T
        best = distance.argmin(1)
        mutual = distance.argmin(0)[best] == np.arange(len(best))
        asked = np.flatnonzero(mutual & (nearest < RATIO * second))
        return asked, best[asked]

    def _count_inliers(self, places_a: np.ndarray, places_b: np.ndarray) -> int:
        if len(places_a) < 4:
            return 0
        # RANSAC draws from a global generator; without this a score would depend on the pairs before it.
        self._cv2.setRNGSeed(0)
        _, inliers = self._cv2.findHomography(places_a, places_b, self._cv2.RANSAC, REPROJECTION)
        return 0 if inliers is None else int(inliers.sum())


def _import_opencv() -> ModuleType:
    import cv2

    cv2.setNumThreads(1)
    return cv2


def _measure_euclidean(vectors_a: np.ndarray, vectors_b: np.ndarray) -> np.ndarray:
    """Distances float32 (A, B) of uint8 (A, D) and (B, D); exact, as every sum is a whole number below 2^24."""
    a, b = vectors_a.astype(np.float32), vectors_b.astype(np.float32)
    return np.sqrt(np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T)


def _measure_hamming(vectors_a: np.ndarray, vectors_b: np.ndarray) -> np.ndarray:
    """Numbers of differing bits, float32 (A, B), of bits packed into uint8 (A, D) and (B, D)."""
    a, b = (np.unpackbits(vectors, axis=1).astype(np.float32) for vectors in (vectors_a, vectors_b))
    return a.sum(1)[:, None] + b.sum(1) - 2 * a @ b.T


BINS = 8  # of each colour of a histogram
SIDE = 105  # of Omniglot's drawings, which are neither enlarged nor shrunk; larger pictures are shrunk to it
BLUR = 2.0
POOL = 3
INK = 128  # brightness from which on a pixel is paper


class Control(Protocol):
    """Describes each picture once, then scores pairs of descriptions.

    `verifies` is True where a pair is too dear for a whole gallery, so that only a first stage's candidates are scored.
    """

    name: str
    verifies: bool

    def describe(self, picture: PictureSource, /) -> Any:
        """Features of one picture; raises PictureError where it cannot be read."""
        ...

    def scores(self, query: Any, references: Sequence[Any], /) -> np.ndarray:
        """The similarity of the query to each reference: float64 (R,), finite, larger is more alike."""
        ...


class PerceptualHash:
    """Minus the number of bits, of 64, in which two hashes differ: in [-64, 0].

    The bits are signs of low frequencies of the grey picture, the hash people find copies with (imagehash).
    """

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


class ColourHistogram:
    """Intersection of joint RGB histograms of 8 x 8 x 8 bins: the share of the two pictures that has the same colours,
    in [0, 1] (Swain and Ballard, 1991).
    """

    name = "histogram"
    verifies = False

    def describe(self, picture: PictureSource) -> np.ndarray:
        """Share of each colour, float64 (512,), sum 1."""
        red, green, blue = np.moveaxis(np.asarray(open_picture(picture)) // (256 // BINS), 2, 0).astype(np.int64)
        counts = np.bincount(((red * BINS + green) * BINS + blue).ravel(), minlength=BINS**3)
        return counts / counts.sum()

    def scores(self, query: np.ndarray, references: Sequence[np.ndarray]) -> np.ndarray:
        """Intersections, float64 (R,)."""
        return np.minimum(np.stack(references), query).sum(1)


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


class Ink(NamedTuple):
    """Places of ink, float64 (P, 2) as rows and columns from their mean, and the tree that finds the nearest."""

    points: np.ndarray
    tree: KDTree | None


class ModifiedHausdorff:
    """Minus the distance in pixels: the larger of the two mean distances to the other's nearest point of ink.

    After Dubuisson and Jain (1994), as in Lake's demonstration. A picture without ink is as far from every one, itself
    included, as the corners of the largest are.
    """

    name = "mhd"
    verifies = False

    def __init__(self) -> None:
        from scipy.spatial import KDTree

        self._tree = KDTree

    def describe(self, picture: PictureSource) -> Ink:
        """The pixels darker than half."""
        grey = open_picture(picture).convert("L")
        grey.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
        points = np.argwhere(np.asarray(grey) < INK).astype(np.float64)
        if not len(points):
            return Ink(points, None)
        points -= points.mean(0)
        return Ink(points, self._tree(points))

    def scores(self, query: Ink, references: Sequence[Ink]) -> np.ndarray:
        """Minus the distances, float64 (R,)."""
        return -np.array([modified_hausdorff(query, reference) for reference in references], np.float64)


def modified_hausdorff(ink_a: Ink, ink_b: Ink) -> float:
    """max(mean over a of min over b of |a - b|, the same with a and b exchanged), in pixels."""
    if ink_a.tree is None or ink_b.tree is None:
        return SIDE * 2**0.5
    from_a, from_b = ink_b.tree.query(ink_a.points)[0], ink_a.tree.query(ink_b.points)[0]
    return float(max(np.mean(from_a), np.mean(from_b)))


CONTROLS: dict[str, Callable[[], Control]] = {
    "phash": PerceptualHash,
    "histogram": ColourHistogram,
    "pixels": BlurredPixels,
    "sift": make_sift,
    "orb": make_orb,
    "mhd": ModifiedHausdorff,
}


def make_control(name: str) -> Control:
    """Make the control of this name.

    Raises `DataError` where it is not known or lacks its library.
    """
    if name not in CONTROLS:
        raise DataError(f"no control is called {name!r}; known are {', '.join(CONTROLS)}")
    try:
        return CONTROLS[name]()
    except ImportError as error:
        raise DataError(f"the control {name} needs `pip install 'diptych[evaluate]'`: {error}") from None
