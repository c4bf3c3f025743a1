"""From logits to probabilities and thresholds, on validation pairs."""

from collections.abc import Sequence

import numpy as np

from diptych_runtime.calibration.normalization import cohort_mean, normalize_logits
from diptych_training.metrics import Ranking, micro_average_precision

FALSE_POSITIVE_RATES = (0.01, 0.001, 0.0001)
NEAREST = 10  # of each picture, for thresholds of defined negatives
COHORT_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


def fit_calibration(logits: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> dict[str, float]:
    """Fit p = sigmoid(scale * logit + offset) by log-loss (Platt), matches and others weighing the same in all, or
    pairs as in `weights`, whose sum is 1.

    logits (P,), labels (P,) bool with both kinds present. Newton's method in float64; the scale stays positive.
    """
    weight, labels = even_weights(labels) if weights is None else weights, np.asarray(labels, bool)
    x = np.stack([np.asarray(logits, np.float64), np.ones(len(labels))], 1)
    # A whisper of a prior (scale 1, offset 0) keeps separable data from running to infinity.
    prior, mean = np.diag([1e-4, 1e-4]), np.array([1.0, 0.0])
    parameters = mean.copy()
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ parameters, -60, 60)))
        gradient = x.T @ (weight * (p - labels)) + prior @ (parameters - mean)
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + prior
        step = np.linalg.solve(hessian, gradient)
        parameters -= step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < 1e-10:
            break
    if parameters[0] <= 0:
        raise ValueError(
            f"the scores rank others above matches (fitted scale {parameters[0]:.3g}): nothing to calibrate"
        )
    return {"scale": float(parameters[0]), "offset": float(parameters[1])}


def fit_cohort(rankings: Sequence[Ranking]) -> dict[str, float]:
    """The weight of rivals in the scores of a list, `cohort`, and the `level` of most queries' rivals (see
    `calibration.normalization`): the weight with the highest mean micro-AP of the rankings; 0 if none helps.
    """
    level = float(np.mean([cohort_mean(ranking.scores, 0.0).mean() for ranking in rankings]))

    def measure_precision(ranking: Ranking, weight: float) -> float:
        scores, positives = normalize_logits(ranking.scores, weight, level), int(ranking.positives.sum())
        return micro_average_precision(scores.ravel(), ranking.relevant.ravel(), positives)

    def sum_precision(weight: float) -> float:
        return sum(measure_precision(ranking, weight) for ranking in rankings)

    return {"cohort": max(COHORT_WEIGHTS, key=sum_precision), "level": level}


def fit_thresholds(
    probabilities: np.ndarray, labels: np.ndarray, rates: Sequence[float] = FALSE_POSITIVE_RATES
) -> dict[str, float]:
    """Return the smallest probability that each false-positive rate allows among the pairs that do not match.

    A rate with fewer than one expected false positive is left out: the data cannot support it.
    """
    others = np.sort(np.asarray(probabilities)[~np.asarray(labels, bool)])[::-1]
    allowed = {rate: int(rate * len(others)) for rate in rates}
    return {str(rate): float(np.nextafter(others[k], np.inf)) for rate, k in allowed.items() if k >= 1}


def even_weights(labels: np.ndarray) -> np.ndarray:
    """Weights (P,) by which matches and others count the same in all, as in `fit_calibration`; their sum is 1."""
    labels = np.asarray(labels, bool)
    if labels.all() or not labels.any():
        raise ValueError(f"calibration needs matches and others, got {labels.sum()} matches of {len(labels)} pairs")
    return np.where(labels, 0.5 / labels.sum(), 0.5 / (~labels).sum())


def weights_of_parts(labels: Sequence[np.ndarray]) -> np.ndarray:
    """`even_weights` of several sets of pairs laid end to end, each set weighing the same."""
    return np.concatenate([even_weights(part) / len(labels) for part in labels])
