"""Controls: what people use today, on the same pictures as the models, none of it trained.

`control("phash")` gives one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from PIL import Image, ImageFilter

from diptych_runtime.decoder import PictureSource, open_picture
from diptych_training.errors import DataError
from diptych_training.evaluation.local_features import orb, sift

if TYPE_CHECKING:
    from scipy.spatial import KDTree

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
    "sift": sift,
    "orb": orb,
    "mhd": ModifiedHausdorff,
}


def control(name: str) -> Control:
    """The control of this name; raises `DataError` where it is not known or lacks its library."""
    if name not in CONTROLS:
        raise DataError(f"no control is called {name!r}; known are {', '.join(CONTROLS)}")
    try:
        return CONTROLS[name]()
    except ImportError as error:
        raise DataError(f"the control {name} needs `pip install 'diptych[evaluate]'`: {error}") from None
