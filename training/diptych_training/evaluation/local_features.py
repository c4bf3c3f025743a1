"""Local features with geometric verification (OpenCV): what people check copies with.

Keypoints are matched by mutual nearest neighbours and Lowe's ratio test; the score counts the matches that one
homography explains. Neither looks for mirrored copies.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from diptych_runtime.decoder import PictureSource, open_picture

SIDE = 480
RATIO = 0.8
REPROJECTION = 5.0


class Keypoints(NamedTuple):
    """Places float32 (P, 2), x and y in pixels, and their descriptors uint8 (P, D); P may be 0."""

    places: np.ndarray
    descriptors: np.ndarray


def sift() -> "LocalFeatures":
    """SIFT, at most 1,000 keypoints; raises ImportError without OpenCV."""
    cv2 = _opencv()
    # It starts from twice the picture's size by itself: enlarging first costs five times as much and finds no more.
    return LocalFeatures("sift", cv2, cv2.SIFT_create(nfeatures=1000), _euclidean, enlarge=False)


def orb() -> "LocalFeatures":
    """ORB, at most 500 keypoints; raises ImportError without OpenCV."""
    cv2 = _opencv()
    # It only looks at smaller scales, and at nothing nearer to the edge than 31 pixels.
    return LocalFeatures("orb", cv2, cv2.ORB_create(nfeatures=500), _hamming, enlarge=True)


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
        scale = SIDE / max(grey.size)
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
        return np.array([self._score(query, reference) for reference in references], np.float64)

    def _score(self, query: Keypoints, reference: Keypoints) -> float:
        asked, answered = self.matches(query, reference)
        count = len(asked)
        return self._inliers(query.places[asked], reference.places[answered]) + count / (count + 1)

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

    def _inliers(self, places_a: np.ndarray, places_b: np.ndarray) -> int:
        if len(places_a) < 4:
            return 0
        # RANSAC draws from a global generator; without this a score would depend on the pairs before it.
        self._cv2.setRNGSeed(0)
        _, inliers = self._cv2.findHomography(places_a, places_b, self._cv2.RANSAC, REPROJECTION)
        return 0 if inliers is None else int(inliers.sum())


def _opencv() -> ModuleType:
    import cv2

    cv2.setNumThreads(1)
    return cv2


def _euclidean(vectors_a: np.ndarray, vectors_b: np.ndarray) -> np.ndarray:
    """Distances float32 (A, B) of uint8 (A, D) and (B, D); exact, as every sum is a whole number below 2^24."""
    a, b = vectors_a.astype(np.float32), vectors_b.astype(np.float32)
    return np.sqrt(np.square(a).sum(1)[:, None] + np.square(b).sum(1) - 2 * a @ b.T)


def _hamming(vectors_a: np.ndarray, vectors_b: np.ndarray) -> np.ndarray:
    """Numbers of differing bits, float32 (A, B), of bits packed into uint8 (A, D) and (B, D)."""
    a, b = (np.unpackbits(vectors, axis=1).astype(np.float32) for vectors in (vectors_a, vectors_b))
    return a.sum(1)[:, None] + b.sum(1) - 2 * a @ b.T
