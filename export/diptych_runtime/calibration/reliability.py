"""Reliability: stated probabilities beside the share that matches, in bins, and the expected calibration error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reliability:
    """Pairs by their confidence, in equal-width bins: `edges` (B + 1,); of each bin `pairs` (B,), their `weight`, mean
    `confidence` and `frequency` of matches (B,), the two NaN where the bin is empty.
    """

    edges: np.ndarray
    pairs: np.ndarray
    weight: np.ndarray
    confidence: np.ndarray
    frequency: np.ndarray

    @property
    def error(self) -> float:
        """Expected calibration error: the mean gap between confidence and frequency, bins weighted by their size."""
        gap = np.abs(np.nan_to_num(self.confidence - self.frequency))
        return float((self.weight * gap).sum() / self.weight.sum())


def measure_reliability(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None, bins: int = 15
) -> Reliability:
    """The reliability diagram: pairs (P,) counted by confidence, each weighing 1 or `weights`."""
    probabilities, labels = np.asarray(probabilities, float), np.asarray(labels, float)
    weights = np.ones(len(labels)) if weights is None else weights
    which = np.minimum((probabilities * bins).astype(int), bins - 1)
    weight = np.bincount(which, weights, bins)
    filled = np.where(weight > 0, weight, np.nan)
    confidence, frequency = (np.bincount(which, weights * x, bins) / filled for x in (probabilities, labels))
    return Reliability(np.linspace(0, 1, bins + 1), np.bincount(which, minlength=bins), weight, confidence, frequency)


def expected_calibration_error(
    probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None, bins: int = 15
) -> float:
    """Mean gap between confidence and frequency over equal-width bins, weighted by their size; pairs weigh 1 or
    `weights`.
    """
    return measure_reliability(probabilities, labels, weights, bins).error
