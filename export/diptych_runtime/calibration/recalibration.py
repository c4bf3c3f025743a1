"""Recalibration: a line through the log-odds of released probabilities, fitted to the labels that a person gave.

The fit begins at the released calibration and leaves it as far as the labels say so: a Gaussian prior on scale and
offset, so that few labels change little. A label is taken to be wrong once in a hundred times, so that no single slip
bends the line. The spread of what the labels leave open, by Laplace's approximation, gives every threshold an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

AS_RELEASED = (1.0, 0.0)
_SURE = 1e-6  # from 0 and 1, so far a probability's own word counts
_EDGE = 1e-12  # from 0 and 1, for the log-odds of a level
_SLIP = 0.01  # of labels, which say the opposite of what is so
_SPREAD = (0.5, 2.0)  # of scale and offset among kinds of pictures: standard deviations of the prior
_WIDE = 1.96  # standard deviations, either way, of an interval of 95 %


def log_odds(probabilities: np.ndarray) -> np.ndarray:
    """The log-odds float64 of probabilities, no surer than one in a million."""
    known = np.clip(np.asarray(probabilities, np.float64), _SURE, 1 - _SURE)
    return np.log(known / (1 - known))


def sigmoid(odds: np.ndarray) -> np.ndarray:
    """The probabilities of log-odds of any size, by tanh: nothing overflows at either end."""
    return 0.5 + 0.5 * np.tanh(0.5 * odds)


def recalibrate_probabilities(probabilities: np.ndarray, scale: float, offset: float) -> np.ndarray:
    """The probabilities with log-odds `scale` times the given ones plus `offset`; unchanged for 1 and 0.

    >>> recalibrate_probabilities(np.array([0.5]), 1.0, 1.0).round(3).tolist()
    [0.731]
    """
    if (scale, offset) == AS_RELEASED:
        return probabilities
    return sigmoid(scale * log_odds(probabilities) + offset)


@dataclass(frozen=True)
class Line:
    """A fitted line: scale and offset, and the Fisher `information` (2, 2) of the labels, without the prior's."""

    scale: float
    offset: float
    information: np.ndarray

    @cached_property
    def covariance(self) -> np.ndarray:
        """The covariance (2, 2) of scale and offset that labels and prior leave."""
        return np.linalg.inv(self.information + _prior_precision())

    def released_level(self, level: float) -> float:
        """The released probability at which the recalibrated one reaches `level`."""
        return _scalar_sigmoid(self._odds_of_level(level))

    def released_interval(self, level: float) -> tuple[float, float]:
        """The interval of 95 % of `released_level`."""
        place, wide = self._odds_of_level(level), _WIDE * self._level_deviation(level)
        return _scalar_sigmoid(place - wide), _scalar_sigmoid(place + wide)

    def _odds_of_level(self, level: float) -> float:
        level = min(max(level, _EDGE), 1 - _EDGE)
        return (math.log(level / (1 - level)) - self.offset) / self.scale

    def _level_deviation(self, level: float) -> float:
        """The standard deviation of a level's place, in log-odds: by the delta method."""
        slope = -np.array([self._odds_of_level(level), 1.0]) / self.scale
        return math.sqrt(float(slope @ self.covariance @ slope))


def fit_line(odds: np.ndarray, labels: np.ndarray) -> Line:
    """The most likely line through released log-odds (P,) for labels (P,) bool.

    Raises ValueError where the labels say that likelier pairs match less often.
    """
    x, y = np.stack([np.asarray(odds, np.float64), np.ones(len(labels))], 1), np.asarray(labels, bool)
    prior, released = _prior_precision(), np.array(AS_RELEASED)
    parameters, value = released.copy(), _penalised_loss(x, y, released)
    for _ in range(50):
        gradient, information = _gradient_and_information(x, y, parameters)
        step = np.linalg.solve(information + prior, gradient - prior @ (parameters - released))
        if np.abs(step).max() < 1e-6:
            break
        while (found := _penalised_loss(x, y, parameters + step)) > value and np.abs(step).max() > 1e-6:
            step /= 2
        parameters, value = parameters + step, found
    if parameters[0] < 0.02:
        raise ValueError(
            f"the labels say that likelier pairs match less often (fitted scale {parameters[0]:.2g}): look whether "
            "'same' and 'different' were mixed up, and whether they answer this question"
        )
    _, information = _gradient_and_information(x, y, parameters)
    return Line(float(parameters[0]), float(parameters[1]), information)


def log_loss(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The log-loss float64 (P,) of probabilities (P,) for labels (P,) bool, each wrong once in a hundred times."""
    said = _SLIP + (1 - 2 * _SLIP) * np.asarray(probabilities, np.float64)
    return -np.log(np.where(labels, said, 1 - said))


def _prior_precision() -> np.ndarray:
    return np.diag(1 / np.square(_SPREAD))


def _penalised_loss(x: np.ndarray, labels: np.ndarray, parameters: np.ndarray) -> float:
    away = parameters - np.array(AS_RELEASED)
    probabilities = sigmoid(x @ parameters)
    return float(log_loss(probabilities, labels).sum() + 0.5 * away @ _prior_precision() @ away)


def _gradient_and_information(
    x: np.ndarray, labels: np.ndarray, parameters: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The gradient (2,) of the labels' log-likelihood, and its Fisher information (2, 2)."""
    p = sigmoid(x @ parameters)
    said, moved = _SLIP + (1 - 2 * _SLIP) * p, (1 - 2 * _SLIP) * p * (1 - p)
    weight = moved / (said * (1 - said))
    return x.T @ (weight * (labels - said)), (x * (weight * moved)[:, None]).T @ x


def _scalar_sigmoid(odds: float) -> float:
    return 0.5 + 0.5 * math.tanh(0.5 * odds)
