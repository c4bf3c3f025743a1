"""The registration of two pictures by their keypoints: matches of each with each, and a homography fitted to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from diptych_runtime.calibration.evidence import FEWEST
from diptych_runtime.closer_look.homography import fit_homography, is_plausible

RATIO = 0.85  # of the distances to the best and to the second best match
ERROR = 4.0  # pixels by which a match may miss
# Inliers of a copy, as a share of the keypoints of the picture that has fewer: with a smaller one the mirror image is
# tried too. What is symmetric, as the front of a house, agrees with its own mirror image in many places, but in fewer.
SURE = 0.5
_ROWS, _COLUMNS = 48, 32  # of a part of a product of 128 numbers each: fewer than BLAS gives to several threads
_LAST_BITS = 1e-6  # by which products of the same descriptors differ on one processor or another

# Where each of the numbers of a descriptor is in that of the mirror image (`Keypoints.mirror_keypoints`).
_MIRRORED = np.arange(128).reshape(4, 4, 8)[::-1, :, -np.arange(8) % 8].ravel()


@dataclass(frozen=True)
class Keypoints:
    """Places float32 (P, 2), x and y in pixels, unit descriptors float32 (P, 128), and the size in pixels and the
    orientation of each as one complex number, complex64 (P,): x and y of an arrow of this length.
    """

    places: np.ndarray
    descriptors: np.ndarray
    arrows: np.ndarray

    @classmethod
    def none(cls) -> Keypoints:
        """No keypoints at all."""
        return cls(np.empty((0, 2), np.float32), np.empty((0, 128), np.float32), np.empty(0, np.complex64))

    @property
    def nbytes(self) -> int:
        """The bytes of memory that they take."""
        return self.places.nbytes + self.descriptors.nbytes + self.arrows.nbytes

    def mirror_keypoints(self, width: int) -> Keypoints:
        """The keypoints of the mirror image of a picture of this width.

        A descriptor has 4 x 4 cells along and across its orientation, each with 8 directions: in the mirror image the
        cells across are in reverse order, and directions turn the other way.
        """
        return Keypoints(
            np.array([width - 1, 0], np.float32) + np.array([-1, 1], np.float32) * self.places,
            self.descriptors.take(_MIRRORED, axis=1),
            -self.arrows.conj(),
        )


@dataclass(frozen=True)
class Registration:
    """The registration of two pictures: their `matches`, and the homography that explains the `inliers` among them,
    from the first one or, if `mirrored`, from its mirror image; without one there are none.
    """

    matches: int
    inliers: int = 0
    homography: np.ndarray | None = None
    mirrored: bool = False


def register_pair(a: Keypoints, b: Keypoints, size: tuple[int, int]) -> Registration:
    """The registration of two pictures, the first of this size, or of its mirror image if that fits better."""
    found = _register_one_way(a, b, size)
    if found.inliers >= SURE * min(len(a.places), len(b.places)):
        return found
    mirrored = _register_one_way(a.mirror_keypoints(size[0]), b, size, found.inliers)
    return replace(mirrored, mirrored=True) if mirrored.inliers > found.inliers else found


def _register_one_way(a: Keypoints, b: Keypoints, size: tuple[int, int], least: int = 0) -> Registration:
    """The registration of two pictures as they are, the first of this size.

    One by no more than `least` matches is not looked for.
    """
    here, there = _match_keypoints(a, b)
    none = Registration(len(here))
    if len(here) < max(FEWEST, least + 1):
        return none
    places_a, places_b = a.places[here], b.places[there]
    homography, inliers = fit_homography(places_a, places_b, b.arrows[there] / a.arrows[here], ERROR)
    if homography is None or inliers.sum() < FEWEST or not is_plausible(homography, size):
        return none
    return Registration(len(here), int(inliers.sum()), homography)


def _match_keypoints(a: Keypoints, b: Keypoints) -> tuple[np.ndarray, np.ndarray]:
    """The keypoints int64 (M,) of both pictures that are clearly each other's best match."""
    if len(a.places) < FEWEST or len(b.places) < FEWEST:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    cosines, rows = _descriptor_cosines(a.descriptors, b.descriptors), np.arange(len(a.places))
    best = cosines.argmax(1)
    first = cosines[rows, best]
    cosines[rows, best] = -1
    second = cosines.max(1)
    cosines[rows, best] = first
    # Squared distances of unit vectors, halved; of those that are the same a product says so but for its last bits.
    clear = np.flatnonzero(1 - first + _LAST_BITS < RATIO**2 * (1 - second))
    mutual = cosines.T[best[clear]].argmax(1) == clear
    return clear[mutual], best[clear[mutual]]


def _descriptor_cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The cosines float32 (P, Q) of all pairs of descriptors.

    In parts so small that BLAS has one thread for each: pairs are what there are several of, and the threads of larger
    products wait busily for the next one, on the processors that other pairs need.
    """
    found, whole = np.empty((len(a), len(b)), np.float32), len(a) - len(a) % _ROWS
    parts = a[:whole].reshape(-1, _ROWS, a.shape[1])
    for start in range(0, len(b), _COLUMNS):
        columns = b[start : start + _COLUMNS].T
        found[:whole, start : start + _COLUMNS] = (parts @ columns).reshape(whole, columns.shape[1])
        found[whole:, start : start + _COLUMNS] = a[whole:] @ columns
    return found
