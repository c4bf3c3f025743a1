"""The threshold `auto`: how strict to be.

After a closer look it follows from the scores of the collection: see `diptych_runtime.calibration.false_discovery`.

Without one, a pair of different photos passes by mistake with some small probability, and there are pairs by the square
of the pictures, so a fixed threshold gets worse the more pictures there are. What is held is the number of false pairs
for each picture, by the model's calibration. Measured on validation photos (docs/studies/2026-11-dedupe.md), a pair
drawn at random passes 1/1000 as often as one of the near look-alikes that the model's rates are of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from diptych.errors import DedupeError
from diptych_runtime.calibration.false_discovery import discovery_threshold, doubts
from diptych_runtime.calibration.thresholds import threshold_at
from diptych_runtime.errors import ArgumentError

if TYPE_CHECKING:
    from diptych_runtime.runtime import Runtime

# False pairs for each picture, and false alarms of random pairs, of kinds most of which look alike.
BY_CHANCE, ALARMS = 1 / 200, 1 / 20
_RANDOM = 1 / 1000  # how often a random pair passes, for once that a near look-alike does


def check_threshold(threshold: float | str, runtime: Runtime | None = None) -> None:
    """Raise ArgumentError for what is no threshold, and DedupeError for `auto` and a model without rates."""
    if threshold != "auto" and not (isinstance(threshold, float | int) and 0 < threshold <= 1):
        raise ArgumentError(f"threshold must be 'auto' or above 0 and at most 1, got {threshold!r}")
    if threshold == "auto" and runtime is not None and runtime.verification is None:
        by_rates(runtime.thresholds, 0)


def threshold_of(runtime: Runtime, scores: np.ndarray, pictures: int, references: int = 0) -> float:
    """The threshold for so many pictures, some of them `references`, brought together by pairs of these scores.

    Raises DedupeError (`check_threshold`).
    """
    if runtime.verification is not None:
        return discovery_threshold(scores, pictures - references)
    # References are compared with the others only. Each of these is in a pair with every reference that is its own, and
    # in half of one with each of the rest, so that a reference counts twice.
    pictures += references
    # Where the model states thresholds for random pairs, theirs is held too.
    random = threshold_at(runtime.question_settings.negatives.get("random", {}), _random_rate(pictures, ALARMS))
    return max(by_rates(stated_of(runtime), pictures), random or 0.0)


def alarm_rate(
    runtime: Runtime, scores: np.ndarray, threshold: float, pictures: int, references: int = 0
) -> float | None:
    """The share of pictures that are expected to be in a false pair, by the scores of the pairs that join them.

    Without a closer look it is as the model states it, and None where it does not.
    """
    if runtime.verification is None:
        return runtime.question_settings.alarm_rate(max(pictures - 1, 0), threshold)
    wrong = doubts(scores, pictures - references)[scores >= threshold].sum()
    return min(1.0, 2 * float(wrong) / max(pictures, 1))


def stated_of(runtime: Runtime) -> Mapping[str, float]:
    """The thresholds by which pairs are grouped: those after a closer look, if there is one."""
    return runtime.thresholds if runtime.verification is None else runtime.verification.thresholds


def by_rates(thresholds: Mapping[str, float], pictures: int) -> float:
    """The threshold in (0, 1) for so many pictures, from the model's {false-positive rate: relevance score}.

    It is never more lenient than the highest rate stated (see `threshold_at`). Raises DedupeError for a model with
    fewer than two rates.
    """
    found = threshold_at(thresholds, _random_rate(pictures, BY_CHANCE) / _RANDOM)
    if found is None:
        stated = ", ".join(f"{least:.4f} at {float(rate):.4g}" for rate, least in thresholds.items()) or "none"
        raise DedupeError(
            "`--threshold auto` needs thresholds below 1 of two false-positive rates at least, and the model states "
            f"{stated}; give a number between 0 and 1"
        )
    return found


def _random_rate(pictures: int, false_pairs: float) -> float:
    """Which share of random pairs may pass: of n pictures each is in (n - 1) pairs, and a pair is one for two."""
    return 2 * false_pairs / max(pictures - 1, 1)


def most_lenient(thresholds: Mapping[str, float]) -> float:
    """The lowest threshold that the model states, 0.5 without one: what a report still has pairs of."""
    return min(thresholds.values(), default=0.5)
