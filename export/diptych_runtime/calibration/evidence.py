"""The evidence of a closer look at a pair (`closer_look`), and the probability from it and the network together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from diptych_runtime.calibration.recalibration import AS_RELEASED, log_odds, recalibrate_probabilities, sigmoid
from diptych_runtime.calibration.thresholds import Thresholds
from diptych_runtime.calibration.verdicts import verdict_thresholds

FEWEST = 7  # matches that one homography explains: more than four, which one always does
KEYPOINTS = 1000  # of a picture at most, the strongest
BLANK = 0.5  # the probability of two pictures with too little to be matched, at most: nobody can say more
ONE_COLOUR = 12.0  # levels of a channel by which those may be apart for which this is said
NUMBERS = ("bias", "odds", "registered", "containment", "aligned_odds")  # that a probability is made of
SQUARE = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))  # the corners of a picture
_DECIMALS, _CORNERS = 7, 5  # decimals of a probability, as many as a float32 has below 1, and of a corner

Corners = tuple[tuple[float, float], ...]


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Evidence:
    """Measurements of two registered pictures, laid over each other.

    `inliers` matches out of `matches` are explained by one homography; all that follows is 0 with fewer than `FEWEST`.
    `coverage` is the smaller of both shares of the pictures in which they overlap, and `containment` the larger: of a
    crop it is 1, of two photos of one scene rarely. `aligned_odds` are the log-odds of a copy that the aligned-pair
    network gives to the overlap (`aligned`). `corners` are the places of the first picture's corners in the second, x
    and y as shares of its width and height: top left, top right, bottom right and bottom left of the first. `keypoints`
    are those of the picture that has fewer. `identical` pictures have the same pixels as they are compared, `equal`
    files those of full size, whatever else is in them. The frames, or pages, of two files that have several differ
    (`frames_differ`) unless all agree. The colours of pictures with too little to be matched are `apart` by the median
    distance of a channel, 0 to 255, laid squarely over each other.
    """

    keypoints: int
    matches: int = 0
    inliers: int = 0
    coverage: float = 0.0
    containment: float = 0.0
    aligned_odds: float = 0.0
    identical: bool = False
    equal: bool = False
    frames_differ: bool = False
    apart: float = 0.0
    corners: Corners = ()

    @property
    def with_sides_swapped(self) -> Evidence:
        """The evidence of the same pair in the other order."""
        if not self.corners:
            return self
        # x' (g x + h y + 1) = a x + b y + c, and the like of y', for each corner
        rows, told = [], []
        for (x, y), (into_x, into_y) in zip(self.corners, SQUARE, strict=True):
            rows += [[x, y, 1, 0, 0, 0, -into_x * x, -into_x * y], [0, 0, 0, x, y, 1, -into_y * x, -into_y * y]]
            told += [into_x, into_y]
        back = np.append(np.linalg.solve(np.array(rows), np.array(told)), 1).reshape(3, 3)
        return replace(self, corners=corners_by(back))

    @property
    def is_registered(self) -> bool:
        """True if a homography was found that lays one picture over the other."""
        return self.inliers >= FEWEST

    @property
    def highest_probability(self) -> float:
        """The highest probability that anything may be said of the pair: of pictures one of which has too few keypoints
        to be laid over any other, even odds, and less the further their colours are `apart`.
        """
        if self.keypoints >= FEWEST or self.equal:
            return 1.0
        return BLANK * min(1.0, ONE_COLOUR / max(self.apart, ONE_COLOUR)) ** 3


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Verification:
    """The calibration of probabilities by a closer look: the `weights` of `NUMBERS`, of a pair's log-odds x by the
    network alone and what the look saw:

        bias + odds * x + registered + containment * c + aligned_odds * (those of the aligned-pair network)

    The last three are there only where one picture could be laid over the other. Pairs of a relevance `above` are
    looked at. `thresholds` are {false-positive rate: relevance} after the look, of pairs that are each other's nearest.
    What could not be laid over each other passes none of them; the same pixels have 1. `recalibration` is the scale and
    the offset of the log-odds that are shown in place of these (`calibration.recalibration`).
    """

    above: float
    weights: dict[str, float]
    thresholds: Thresholds = field(default_factory=dict)
    recalibration: tuple[float, float] = AS_RELEASED

    def __post_init__(self) -> None:
        if self.weights.keys() != set(NUMBERS) or not 0 < self.above < 1:
            raise ValueError(
                f"a verification needs the weights {', '.join(NUMBERS)}, and 'above' between 0 and 1, "
                f"got {', '.join(self.weights)} and {self.above}"
            )
        if not np.isfinite(list(self.weights.values())).all() or self.weights["odds"] < 0:
            raise ValueError(f"a verification needs finite weights, that of the odds 0 or more, got {self.weights}")

    @property
    def limit_without_look(self) -> float:
        """The highest probability without a look: just below the lowest threshold.

        It holds too where nothing can be laid over each other.
        """
        return _just_below(min(self.thresholds.values(), default=verdict_thresholds(self.thresholds)["likely"]))

    @property
    def limit_if_not_taken(self) -> float:
        """The highest probability of pairs that need a look and got none: just below *same*."""
        return _just_below(verdict_thresholds(self.thresholds)["same"])

    def needs_look(self, relevance: np.ndarray) -> np.ndarray:
        """Which pairs need a closer look, bool (P,), by their relevance (P,) without one."""
        return round_relevance(relevance) >= self.above

    def shown_relevance(
        self,
        relevance: np.ndarray,
        seen: Sequence[Evidence | None],
        worth: np.ndarray | None = None,
    ) -> np.ndarray:
        """The probabilities of pairs as they are shown, float64 (P,) of 7 decimals.

        `relevance` (P,) is theirs by the network alone, `seen` the evidence of each, or None where there is none. What
        deserves no look stays below all thresholds, what deserved one and did not get it below the strictest: those
        `worth` one bool (P,), by default what the network takes for likely. What has other frames behind the first
        stays below all too.
        """
        known = round_relevance(relevance)
        worth = self.needs_look(known) if worth is None else worth
        limits = np.where(worth, self.limit_if_not_taken, self.limit_without_look)
        found = recalibrate_probabilities(known, *self.recalibration)
        found[~worth] = self._weigh_pairs(known[~worth], [None] * np.count_nonzero(~worth))
        found = np.minimum(found, limits)
        looked = {place: one for place in np.flatnonzero(worth).tolist() if (one := seen[place]) is not None}
        found[list(looked)] = self.relevance(known[list(looked)], list(looked.values()))
        apart = [place for place, one in looked.items() if one.frames_differ]
        found[apart] = np.minimum(found[apart], self.limit_without_look)
        return round_relevance(found)

    def relevance(self, relevance: np.ndarray, seen: Sequence[Evidence]) -> np.ndarray:
        """Probabilities float64 (P,) of pairs that have those by the network alone, from the evidence of each."""
        limit = self.limit_without_look
        limits = [1.0 if one.is_registered else min(one.highest_probability, limit) for one in seen]
        found = np.minimum(self._weigh_pairs(relevance, seen), limits)
        found[np.array([one.equal or (one.is_registered and one.identical) for one in seen], bool)] = 1.0
        return found

    def _weigh_pairs(self, relevance: np.ndarray, seen: Sequence[Evidence | None]) -> np.ndarray:
        """The probabilities (P,) by the weights, with or without a look."""
        scale, offset = self.recalibration
        return sigmoid(scale * weigh_numbers(numbers_of(relevance, seen), self.weights) + offset)


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class AfterLook:
    """The calibration of the probability of the same thing by a closer look at a possible copy.

    Its log-odds are those x of the network where there was no look. Where one picture could be laid over the other,
    they are the sum of the `NUMBERS` by the `weights`. After a look in vain they are x - in_vain * c, with the log-odds
    c > 0 of a copy by the network: it speaks against the thing by as much as the network was surer of a copy, so that
    the probability does not jump where looks begin.
    """

    weights: dict[str, float]
    in_vain: float

    def __post_init__(self) -> None:
        if self.weights.keys() != set(NUMBERS) or not np.isfinite([*self.weights.values(), self.in_vain]).all():
            raise ValueError(f"'after_look' needs finite weights {', '.join(NUMBERS)} and 'in_vain', got {self}")

    def relevance(self, own: np.ndarray, copies: np.ndarray, seen: Sequence[Evidence | None]) -> np.ndarray:
        """Probabilities float64 (P,) from those `own` to the thing and those of `copies`, by the network alone."""
        numbers, found = numbers_of(own, seen), np.array(own, np.float64)
        looked, laid = np.array([one is not None for one in seen], bool), numbers[:, 2] > 0
        odds = weigh_numbers(numbers, self.weights)
        vain = numbers[:, 1] - self.in_vain * np.maximum(log_odds(copies), 0)
        found[looked] = round_relevance(sigmoid(np.where(laid, odds, vain)[looked]))
        return found


def corners_by(homography: np.ndarray) -> Corners:
    """The corners of a picture after a homography (3, 3) of shares of its sides."""
    moved = homography @ np.column_stack([SQUARE, np.ones(4)]).T
    return tuple((x, y) for x, y in (moved[:2] / moved[2]).T.round(_CORNERS).tolist())


def numbers_of(relevance: np.ndarray, seen: Sequence[Evidence | None]) -> np.ndarray:
    """The `NUMBERS` of pairs, float64 (P, 5), from their relevance (P,) by the network alone and their evidence."""
    laid = [
        (1.0, one.containment, one.aligned_odds) if one is not None and one.is_registered else (0.0, 0.0, 0.0)
        for one in seen
    ]
    beside = np.array(laid, np.float64).reshape(-1, 3)
    return np.column_stack([np.ones(len(beside)), log_odds(relevance), beside])


def weigh_numbers(numbers: np.ndarray, weights: Mapping[str, float]) -> np.ndarray:
    """The log-odds (P,) of the `NUMBERS` (P, 5) of pairs by their weights."""
    return numbers @ np.array([weights[name] for name in NUMBERS])


def round_relevance(relevance: np.ndarray) -> np.ndarray:
    """The probabilities rounded to 7 decimals, as they are shown: float64."""
    return np.round(np.asarray(relevance, np.float64), _DECIMALS)


def _just_below(threshold: float) -> float:
    """A probability of 7 decimals that is less than a threshold even as float32."""
    return max(0.0, math.floor(threshold * 10**_DECIMALS - 1) / 10**_DECIMALS)


def shown_from(threshold: float) -> float:
    """The lowest probability of 7 decimals that is no less than a threshold."""
    least = round(threshold, _DECIMALS)
    return least if least >= threshold else round(least + 10**-_DECIMALS, _DECIMALS)
