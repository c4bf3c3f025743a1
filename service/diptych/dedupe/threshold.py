"""The threshold `auto`: how strict to be, from the model's calibration, the number of pictures and their scores.

A pair of different photos passes by mistake with some small probability, and there are pairs by the square of the
pictures, so a fixed threshold gets worse the more pictures there are. What is held is the number of false pairs for
each picture. Measured on validation photos, see docs/dedupe.md: a pair drawn at random passes 1/1000 as often as one of
the near look-alikes that the model's rates are of.

What the model states is measured on kinds of pictures most of which look alike. How much a collection does is seen in
its own scores: where few pairs are hard to tell, few of those that are no copies score high (`eased`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from diptych.errors import DedupeError
from diptych_runtime.calibration.thresholds import threshold_at
from diptych_runtime.calibration.transitivity import UNSURE
from diptych_runtime.errors import ArgumentError

if TYPE_CHECKING:
    from diptych_runtime.runtime import Runtime

FALSE_PAIRS = 1 / 200  # for each picture
LOOK_ALIKES = 1 / 500  # for each picture, after a closer look
# For each picture, of random pairs as a model states them: of kinds most of which look alike.
ALARMS = 1 / 20
# Of pairs that are no copies, after a closer look: for each that is hard to tell so many reach the score REACHED, and
# fewer by a power of the odds from there on. Between the middle and the worst of fifteen kinds: docs/dedupe.md.
HARD_TO_TELL = UNSURE, 0.85
REACHED, REACHING, POWER = 0.94, 0.1, 0.82
_RANDOM = 1 / 1000  # how often a random pair passes, for once that a near look-alike does


def check_threshold(threshold: float | str) -> None:
    """Raise ArgumentError for a threshold that is neither `auto` nor above 0 and at most 1."""
    if threshold != "auto" and not (isinstance(threshold, float | int) and 0 < threshold <= 1):
        raise ArgumentError(f"threshold must be 'auto' or above 0 and at most 1, got {threshold!r}")


def automatic_of(runtime: Runtime, pictures: int, references: int = 0) -> float:
    """The threshold of a model for so many pictures: see `automatic`.

    So many of them are `references`, which are compared with the others only. Each of these is in a pair with every
    reference that is its own, and in half of one with each of the rest, so that a reference counts twice.

    What passes a closer look by mistake is no chance any more but a look-alike, and a picture has about one however
    many others there are. Where the model states thresholds for random pairs, theirs is held too.
    """
    pictures += references
    found = automatic(stated_of(runtime), pictures, LOOK_ALIKES if runtime.verification else 1.0)
    return max(found, threshold_at(runtime.asked.negatives.get("random", {}), _random_rate(pictures, ALARMS)) or 0.0)


def in_collection(
    runtime: Runtime, strict: float, scores: np.ndarray, pictures: int, references: int = 0
) -> tuple[float, float | None]:
    """The threshold for so many pictures whose pairs have these scores, at most the `strict` one of `automatic_of`; and
    where it is lower, how many of the pictures are expected to be in a false pair, as a share of them, else None.
    """
    if runtime.verification is None:
        return strict, None
    limit = eased(strict, scores, pictures + references, most_lenient(stated_of(runtime)))
    return limit, min(1.0, 2 * expected_false(scores, limit) / max(pictures, 1)) if limit < strict else None


def expected_false(scores: np.ndarray, threshold: float) -> float:
    """The expected number of pairs that are no copies, and reach a threshold, in a collection whose pairs have these
    scores after closer looks: c h (o(t) / o(r))^-b, with h pairs that are hard to tell, and one more, and the odds o(p)
    = p / (1 - p).
    """
    least, most = HARD_TO_TELL
    hard = 1 + np.count_nonzero((scores >= least) & (scores < most))
    return float(REACHING * hard * (_odds(threshold) / _odds(REACHED)) ** -POWER)


def eased(threshold: float, scores: np.ndarray, pictures: int, least: float) -> float:
    """A threshold, or a lower one down to `least` where so few pairs of a collection are hard to tell that no more than
    `FALSE_PAIRS` for each picture are expected to pass it (`expected_false`).
    """
    odds = _odds(REACHED) * (expected_false(scores, REACHED) / (FALSE_PAIRS * max(pictures, 1))) ** (1 / POWER)
    return min(threshold, max(least, odds / (1 + odds)))


def _odds(probability: float) -> float:
    return probability / (1 - probability)


def stated_of(runtime: Runtime) -> Mapping[str, float]:
    """The thresholds by which pairs are grouped: of copies after a closer look, if there is one, as pairs of one
    collection have them, if the model states these; of things by the network alone.
    """
    if runtime.verification is None:
        return runtime.thresholds
    return runtime.verification.in_collection or runtime.verification.thresholds


def automatic(thresholds: Mapping[str, float], pictures: int, most: float = 1.0) -> float:
    """The threshold in (0, 1) for so many pictures, from the model's {false-positive rate: relevance score}.

    It is never more lenient than the highest rate stated (see `threshold_at`), or than at a rate of `most`. Raises
    DedupeError for a model with fewer than two rates.
    """
    found = threshold_at(thresholds, min(_random_rate(pictures, FALSE_PAIRS) / _RANDOM, most))
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
