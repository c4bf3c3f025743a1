"""The probability of the same thing after a closer look at a possible copy."""

from __future__ import annotations

import math
from dataclasses import field

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from diptych_runtime.calibration.evidence import Verification, rounded
from diptych_runtime.calibration.recalibration import log_odds, sigmoid
from diptych_runtime.calibration.thresholds import Thresholds

# What is said of a thing where a possible copy could be laid over the other picture, and where not.
LOOKED, APART = ("bias", "logit", "copy"), ("bias", "logit", "in_vain")
FEW = 10  # matches that one homography explains; fewer do so of things that are not the same, too


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AfterLook:
    """The calibration of the probability of the same thing by a closer look at a possible copy: its log-odds are

        bias + logit * x + copy * log(c / (1 - c))

    by the weights `looked`, where the two could be laid over each other, of the thing's own logit x and the probability
    c of a copy after the look; and elsewhere, by the weights `apart`,

        bias + logit * x - in_vain * max(0, log(n / (1 - n)) - log(a / (1 - a)))

    of the probability n of a copy by the network alone, and the least, a, from which on a look says something of the
    thing, `above`. The last summand is there only after a look in vain: it speaks against the thing by as much as the
    network was surer of a copy. So where a look begins to count the probability does not jump, and a picture that was
    looked at in vain does not fall behind all those that are too unlike the query to be looked at. Fewer than `FEW`
    matches may agree by chance: of a pair that they lay over each other, the larger of both counts.

    `thresholds` are {false-positive rate: relevance} of both, of pairs that are each other's nearest. With a `look`, c
    is what that says: it is less sure than the one that tells copies, for another view is surely no copy, and yet the
    thing.
    """

    looked: dict[str, float]
    apart: dict[str, float]
    thresholds: Thresholds = field(default_factory=dict)
    above: float = 0.9
    look: Verification | None = None

    def __post_init__(self) -> None:
        if not 0 < self.above < 1:
            raise ValueError(f"'above' needs to be more than 0 and less than 1, got {self.above}")
        for name, weights, known in (("looked", self.looked, LOOKED), ("apart", self.apart, APART)):
            finite = set(weights) == set(known) and all(map(math.isfinite, weights.values()))
            if not finite or any(weights[one] < 0 for one in known if one != "bias"):
                raise ValueError(
                    f"{name!r} needs the weights {', '.join(known)}, all but the bias 0 or more, got {weights}"
                )

    def relevance(self, logits: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """Probabilities float64 (P,) of pairs with logits (P,) that could be laid over each other, where `copies` (P,)
        says how likely a copy is after that.
        """
        weights = [self.looked[name] for name in LOOKED]
        return sigmoid((self.laid(logits, copies) * weights).sum(1))

    def relevance_apart(self, logits: np.ndarray, copies: np.ndarray, looked: np.ndarray) -> np.ndarray:
        """Probabilities float64 (P,) of pairs with logits (P,) that could not, or deserve no look: of a relevance as
        copies (P,) by the network alone, and `looked` bool (P,) at in vain.
        """
        weights = [self.apart[name] for name in APART]
        return sigmoid((self.unlaid(logits, copies, looked) * weights).sum(1))

    def laid(self, logits: np.ndarray, copies: np.ndarray) -> np.ndarray:
        """The summands of pairs of `relevance` before they are weighed, float64 (P, 3)."""
        return np.stack([np.ones(len(logits)), np.asarray(logits, np.float64), log_odds(copies)], 1)

    def unlaid(self, logits: np.ndarray, copies: np.ndarray, looked: np.ndarray) -> np.ndarray:
        """The summands of pairs of `relevance_apart` before they are weighed, float64 (P, 3)."""
        surer = np.maximum(log_odds(copies) - log_odds(np.array([self.above])), 0)
        return np.stack([np.ones(len(logits)), np.asarray(logits, np.float64), -surer * looked], 1)

    def counts(self, relevance: np.ndarray) -> np.ndarray:
        """Of which pairs of a relevance (P,) as copies by the network alone a look says something, bool (P,)."""
        return rounded(relevance) >= self.above
