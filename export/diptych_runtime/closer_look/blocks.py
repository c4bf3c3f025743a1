"""Two pictures that lie on one grid, compared block by block: how they correlate, and where they differ most.

A copy differs from its original all over and a little, or where something was laid over it. A look-alike, another page
of the same layout, say, is the same all over and differs in one spot: `measure_spots` measures the lowest correlation
against the spread of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from diptych_runtime.closer_look.homography import import_opencv

BLOCK, DETAIL = 24, 12  # pixels of the blocks that are compared, after blurring and almost without
ALIKE, OTHER = 0.6, 0.4  # the correlation of two blocks that show the same, and below which they do not
TEXTURED, COARSELY = 7.7, 6.0  # standard deviation of a block's brightness, 0 to 255, almost without and after blurring
VIVID, BLANK = 15.0, 4.0  # standard deviation of what is surely there in a block, and of what surely is not
UNLIKE, DEVIATIONS = 0.5, 4.0  # the correlation of blocks of a spot, and by how many deviations it is below the median
_NOISE = 0.02  # added to the deviation: of the correlations of two pictures that are all but the same
_FEWEST = 5  # blocks of which a spread can be told
_CONSTANT = 1e-18  # the variance of what is a constant but for rounding
RECOLOURED, EXPLAINED = 30.0, 6.0  # distances of two colours, each channel 0 to 255


@dataclass(frozen=True)
class Laid:
    """Two pictures on one grid, uint8 (h, w, 3), and where both are `shown`, bool (h, w)."""

    a: np.ndarray
    b: np.ndarray
    shown: np.ndarray


@dataclass(frozen=True)
class Blocks:
    """Blocks half overlapping (rows, columns): how both pictures correlate in each, and how where they fit best, the
    deviations of brightness in `a` and in `b`, and whether it lies where both are shown.
    """

    correlation: np.ndarray
    aligned: np.ndarray
    a: np.ndarray
    b: np.ndarray
    inside: np.ndarray

    @classmethod
    def from_laid(cls, laid: Laid, *, blur: float, block: int, reach: int = 0) -> Blocks:
        """Compare two pictures in blocks of so many pixels.

        `aligned` has the best of the places that lie up to `reach` pixels off.
        """
        cv2 = import_opencv()
        grey = (cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY).astype(np.float32) for rgb in (laid.a, laid.b))
        a, b = (cv2.GaussianBlur(picture, (0, 0), blur) for picture in grey)
        mean_a, square_a, inside = (block_means(part, block) for part in (a, a * a, laid.shown.astype(np.float32)))
        variance_a = square_a - mean_a**2

        def compare_blocks(b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            mean_b, square_b, product = (block_means(part, block) for part in (b, b * b, a * b))
            variance_b = square_b - mean_b**2
            spread = np.sqrt(np.maximum(variance_a, 9) * np.maximum(variance_b, 9))
            return (product - mean_a * mean_b) / spread, variance_b

        correlation, variance_b = compare_blocks(b)
        aligned = correlation
        for moved in _shift_picture(b, reach):
            aligned = np.maximum(aligned, compare_blocks(moved)[0])
        deviation_a, deviation_b = (np.sqrt(np.maximum(variance, 0)) for variance in (variance_a, variance_b))
        return cls(correlation, aligned, deviation_a, deviation_b, inside > 0.999)

    @property
    def higher_deviation(self) -> np.ndarray:
        """The higher of the deviations of both pictures, block by block."""
        return np.maximum(self.a, self.b)

    @property
    def lower_deviation(self) -> np.ndarray:
        """The lower of the deviations of both pictures, block by block."""
        return np.minimum(self.a, self.b)


def _shift_picture(picture: np.ndarray, reach: int) -> Iterator[np.ndarray]:
    """The picture shifted by up to `reach` pixels down and right, in every way."""
    steps = range(-reach, reach + 1)
    for down in steps:
        for right in steps:
            if down or right:
                yield np.roll(picture, (down, right), (0, 1))


def measure_spots(blocks: Blocks, off: np.ndarray) -> dict[str, float]:
    """The measurements of `Evidence` from `aligned_detail` on, made of fine blocks.

    Their colours are `off` by so much (rows, columns). There are none where too little has texture in both.
    """
    textured, both = (
        blocks.inside & (texture > TEXTURED) for texture in (blocks.higher_deviation, blocks.lower_deviation)
    )
    known = blocks.aligned[both]
    if len(known) < _FEWEST:
        return {}
    typical = float(np.median(known))
    deviation = float(np.median(np.abs(known - typical))) + _NOISE
    spot = _lowest_together(blocks.aligned, both)
    unlike = both & (blocks.aligned < min(UNLIKE, typical - DEVIATIONS * deviation))
    rest = blocks.inside & ~unlike
    surely = blocks.inside & (blocks.higher_deviation > VIVID) & (blocks.lower_deviation < BLANK)
    one_sided, surely_one_sided, differing = (
        np.count_nonzero(which) / np.count_nonzero(textured) for which in (textured & ~both, surely, unlike)
    )
    largest = _largest_part(unlike)
    return {
        "aligned_detail": share_true(blocks.aligned[textured] > ALIKE),
        "aligned_both": share_true(known > ALIKE),
        "typical": typical,
        "aligned_worst": float(np.quantile(known, 0.02)),
        "least": float(np.quantile(known, 0.005)),
        "spot": spot,
        "deviations": (typical - spot) / deviation,
        "spot_blocks": float(largest),
        "spot_share": largest / max(1, np.count_nonzero(unlike)),
        "spot_off": float(np.median(off[unlike])) if unlike.any() else 0.0,
        "rest_off": float(np.median(off[rest])) if rest.any() else 0.0,
        "unlike": differing,
        "compared": float(len(known)),
        "one_sided": one_sided,
        "surely_one_sided": surely_one_sided,
        "contrast": float(np.abs(np.log(np.median(blocks.b[both] / blocks.a[both])))),
    }


def _lowest_together(correlation: np.ndarray, which: np.ndarray) -> float:
    """The lowest mean correlation of four blocks side by side, three of them at least of `which`; of single blocks
    where there are none.
    """
    cv2 = import_opencv()
    total, count = (
        cv2.boxFilter(part.astype(np.float32), -1, (2, 2), normalize=False, borderType=cv2.BORDER_CONSTANT)
        for part in (np.where(which, correlation, 0), which)
    )
    together = count >= 3
    return float((total[together] / count[together]).min() if together.any() else correlation[which].min())


def _largest_part(which: np.ndarray) -> int:
    """The number of blocks in the largest connected part of `which`, 0 without any."""
    found, _, parts, _ = import_opencv().connectedComponentsWithStats(which.astype(np.uint8), connectivity=8)
    return int(parts[1:, 4].max()) if found > 1 else 0


def measure_colours(laid: Laid, blocks: Blocks) -> tuple[dict[str, float], np.ndarray]:
    """The colour features of fine blocks, and the distances that they are made of.

    A distance is one from a line fitted to a channel's values, with outliers weighing less: (rows, columns), 0 where
    not both are shown.
    """
    distances = np.zeros(blocks.inside.shape)
    if blocks.inside.sum() < 12:
        return {}, distances
    first, second = (block_means(rgb.astype(np.float32), DETAIL)[blocks.inside].T for rgb in (laid.a, laid.b))
    off = np.linalg.norm(_off_lines(first.astype(np.float64), second.astype(np.float64)), axis=0)
    distances[blocks.inside] = off
    kept = ((blocks.correlation > ALIKE + 0.1) & (blocks.lower_deviation > 2))[blocks.inside]
    return {
        "recoloured": share_true(off[kept] > RECOLOURED),
        "explained": share_true(off < EXPLAINED),
        "off": float(np.median(off)),
    }, distances


def share_true(which: np.ndarray) -> float:
    """The share of an array that is true, 0 of an empty one."""
    return np.count_nonzero(which) / which.size if which.size else 0.0


def _off_lines(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The distances of y (C, P) from a line through x (C, P) in each row; outliers weigh less."""
    square, off = np.ones_like(x), y
    for _ in range(4):
        total = square.sum(1, keepdims=True)
        weights = square / total
        away, high = (values - (weights * values).sum(1, keepdims=True) for values in (x, y))
        spread, together = ((weights * away * values).sum(1, keepdims=True) for values in (away, high))
        off = high - away * np.divide(together, spread, out=np.zeros_like(spread), where=spread > _CONSTANT)
        square = 1 / (1 + (off / 10) ** 2)
    return off


def block_means(picture: np.ndarray, size: int) -> np.ndarray:
    """The means of blocks of `size` x `size` pixels, which lie half a block apart."""
    half = size // 2
    down, across = (max(2, side // half) for side in picture.shape[:2])
    cv2 = import_opencv()
    cells = cv2.resize(picture[: down * half, : across * half], (across, down), interpolation=cv2.INTER_AREA)
    return (cells[:-1, :-1] + cells[1:, :-1] + cells[:-1, 1:] + cells[1:, 1:]) / 4
