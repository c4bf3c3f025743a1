"""The probability of the same thing after a closer look at a possible copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from diptych_runtime.calibration.evidence import FEATURES, Evidence, feature_rows, in_order, round_relevance
from diptych_runtime.calibration.recalibration import log_odds, sigmoid
from diptych_runtime.calibration.thresholds import Thresholds

APART = ("bias", "logit", "in_vain")  # what is said of a thing where nothing could be laid over the other picture


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AfterLook:
    """The calibration of the probability of the same thing by a closer look at a possible copy.

    Where the two could be laid over each other, its log-odds are the sum of the evidence's `FEATURES` by the weights
    `looked`, 0 for those that are not named: another view of a thing differs from it otherwise than another page of one
    layout does. Elsewhere they are, by the weights `apart`,

        bias + logit * x - in_vain * max(0, log(n / (1 - n)) - log(a / (1 - a)))

    of the thing's own logit x, the probability n of a copy by the network alone, and the least, a, from which on a look
    says something of the thing, `above`. The last summand is there only after a look in vain: it speaks against the
    thing by as much as the network was surer of a copy. So where a look begins to count the probability does not jump,
    and a picture that was looked at in vain does not fall behind all those that are too unlike the query to be looked
    at. Two pictures with too little to be matched (`Evidence.is_blank`) have even odds at most: nobody can say more.

    `thresholds` are {false-positive rate: relevance} of both, of pairs that are each other's nearest.
    """

    looked: dict[str, float]
    apart: dict[str, float]
    thresholds: Thresholds = field(default_factory=dict)
    above: float = 0.9

    def __post_init__(self) -> None:
        if not 0 < self.above < 1:
            raise ValueError(f"'above' needs to be more than 0 and less than 1, got {self.above}")
        if not self.looked.keys() <= FEATURES.keys() or not all(map(math.isfinite, self.looked.values())):
            raise ValueError(f"'looked' needs finite weights of {', '.join(FEATURES)}, got {self.looked}")
        finite = set(self.apart) == set(APART) and all(map(math.isfinite, self.apart.values()))
        if not finite or any(self.apart[name] < 0 for name in APART if name != "bias"):
            raise ValueError(
                f"'apart' needs the weights {', '.join(APART)}, all but the bias 0 or more, got {self.apart}"
            )

    def relevance(self, copies: np.ndarray, seen: Sequence[Evidence]) -> np.ndarray:
        """Probabilities float64 (P,) of pairs that could be laid over each other, from the evidence of each, of a
        relevance as copies (P,) by the network alone.
        """
        return sigmoid((feature_rows(copies, seen) * in_order(self.looked)).sum(1))

    def relevance_apart(self, logits: np.ndarray, copies: np.ndarray, looked: np.ndarray) -> np.ndarray:
        """Probabilities float64 (P,) of pairs with logits (P,) that could not, or deserve no look: of a relevance as
        copies (P,) by the network alone, and `looked` bool (P,) at in vain.
        """
        weights = [self.apart[name] for name in APART]
        return sigmoid((self.apart_summands(logits, copies, looked) * weights).sum(1))

    def apart_summands(self, logits: np.ndarray, copies: np.ndarray, looked: np.ndarray) -> np.ndarray:
        """The summands of `relevance_apart` before they are weighed, float64 (P, 3)."""
        surer = np.maximum(log_odds(copies) - log_odds(np.array([self.above])), 0)
        return np.stack([np.ones(len(logits)), np.asarray(logits, np.float64), -surer * looked], 1)

    def look_matters(self, relevance: np.ndarray) -> np.ndarray:
        """Which pairs a look says something of, bool (P,), by their relevance as copies (P,) without one."""
        return round_relevance(relevance) >= self.above
