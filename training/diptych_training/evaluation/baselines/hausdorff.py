"""The Modified Hausdorff Distance (Dubuisson and Jain, 1994) of two drawings' ink, as in Lake's demonstration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import Image

from diptych_runtime.decoder import PictureSource, open_picture

if TYPE_CHECKING:
    from scipy.spatial import KDTree

SIDE = 105  # of Omniglot's drawings; larger pictures are shrunk to it, or their ink would be too many points
INK = 128


class Ink(NamedTuple):
    """Places of ink, float64 (P, 2) as rows and columns from their mean, and the tree that finds the nearest."""

    points: np.ndarray
    tree: KDTree | None


class ModifiedHausdorff:
    """Minus the distance in pixels: the larger of the two mean distances to the other's nearest point of ink.

    A picture without ink is as far from every one, itself included, as the corners of the largest are.
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
