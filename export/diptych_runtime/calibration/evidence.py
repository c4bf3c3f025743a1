"""The evidence of a closer look at a pair (`closer_look`), and the probability from it and the network together."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cached_property

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
MOST = 0.6  # of a picture: less of either is no copy of the other
_DECIMALS = 7  # of a probability, as many as a float32 has below 1


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Evidence:
    """Measurements of two registered pictures, laid over each other.

    `inliers` matches out of `matches` are explained by one homography, with a median error of `error` pixels; all else
    is 0 with fewer than `FEWEST`. `coverage` is the smaller of both shares of the pictures in which they overlap, and
    `containment` the larger: of a crop it is 1, of two photos of one scene rarely. `agreement` is the share of the
    overlap's `blocks` with any texture that correlate, `worst` the correlation that one in twenty of them stays below.

    At a resolution `scale` times as fine, `detail` is the share of textured blocks that correlate, `detail_both` that
    of those with texture in both pictures, `detail_worst` the correlation that one in fifty of these stays below, and
    `differing` the share of blocks with texture in both that do not correlate. Of colours one brightness and contrast
    of each channel are taken off: `off` is the median distance that is left, `explained` the share of blocks where it
    is small, and `recoloured` the share of those that correlate where it is large. `keypoints` are those of the picture
    that has fewer. `identical` pictures have the same pixels.

    From `aligned_detail` on, fine blocks are compared where they fit best, up to a pixel off (`blocks.spots`):
    `aligned_detail`, `aligned_both` and `aligned_worst` as those without, and `least` the correlation that one in two
    hundred stays below; `typical` is the median correlation, `spot` the lowest of four blocks side by side, and
    `deviations` how far that is from the typical, in median absolute deviations. `unlike` is the share of blocks that
    are as unlike as a spot, of which `spot_blocks` lie together, the share `spot_share`; their colours are off by
    `spot_off`, and those of the others by `rest_off`. `compared` blocks have texture in both pictures, the share
    `one_sided` in one alone, and `surely_one_sided` very much there and almost none in the other. `contrast` is the
    distance of the logarithms of the pictures' contrasts.

    `aligned_odds` are the log-odds of a copy that the aligned-pair network gives to the overlap (`aligned`).

    `equal` files decode to the same pixels in full size, whatever else is in them. The frames, or pages, of two files
    that have several differ (`frames_differ`) unless all agree. The colours of pictures with too little to be matched
    are `apart` by the median distance of a channel, 0 to 255, laid squarely over each other.
    """

    keypoints: int
    matches: int = 0
    inliers: int = 0
    error: float = 0.0
    coverage: float = 0.0
    containment: float = 0.0
    blocks: int = 0
    agreement: float = 0.0
    worst: float = 0.0
    scale: float = 0.0
    detail: float = 0.0
    detail_both: float = 0.0
    detail_worst: float = 0.0
    differing: float = 0.0
    recoloured: float = 0.0
    explained: float = 0.0
    off: float = 0.0
    identical: bool = False
    aligned_detail: float = 0.0
    aligned_both: float = 0.0
    typical: float = 0.0
    aligned_worst: float = 0.0
    least: float = 0.0
    spot: float = 0.0
    deviations: float = 0.0
    spot_blocks: float = 0.0
    spot_share: float = 0.0
    spot_off: float = 0.0
    rest_off: float = 0.0
    unlike: float = 0.0
    compared: float = 0.0
    one_sided: float = 0.0
    surely_one_sided: float = 0.0
    contrast: float = 0.0
    aligned_odds: float = 0.0
    equal: bool = False
    frames_differ: bool = False
    apart: float = 0.0

    @property
    def is_registered(self) -> bool:
        """True if a homography was found that lays one picture over the other."""
        return self.inliers >= FEWEST

    @property
    def is_blank(self) -> bool:
        """True if one of the pictures has too few keypoints to be laid over any other."""
        return self.keypoints < FEWEST

    @property
    def blank_limit(self) -> float:
        """The highest probability of pictures that are blank (`is_blank`), the lower the further their colours are
        `apart`.
        """
        return BLANK * min(1.0, ONE_COLOUR / max(self.apart, ONE_COLOUR)) ** 3

    @property
    def is_beside(self) -> bool:
        """True if the pictures overlap and neither shows most of the other, like windows on one panorama."""
        return self.is_registered and 0 < self.containment < MOST

    @property
    def is_unaltered(self) -> bool:
        """True if both pictures cover each other and agree in all texture and colour.

        What is written in another format, scaled or turned by quarters is, and what was edited is not.
        """
        alike = min(self.agreement, self.detail, self.detail_both) >= 0.999 and not self.differing
        colours = self.explained > 0.99 and self.off < 6
        return self.is_registered and self.blocks >= 30 and self.coverage > 0.97 and alike and colours


_IN_VAIN = Evidence(KEYPOINTS)  # there was much to be matched, and nothing was laid over each other


def _excess_above(value: float, bound: float, scale: float = 1.0) -> float:
    return scale * max(0.0, value - bound)


# What is weighed of a pair: its log-odds by the network alone, and the evidence, of whose shares the last few
# hundredths say most. All of it is of the order of 1.
FEATURES: Mapping[str, Callable[[float, Evidence], float]] = {
    "bias": lambda odds, seen: 1.0,
    "odds": lambda odds, seen: odds / 4,
    "registered": lambda odds, seen: float(seen.is_registered),
    "registered_odds": lambda odds, seen: odds / 4 * seen.is_registered,
    # Where there was much to be matched, and nothing did.
    "unmatched": lambda odds, seen: 0.0 if seen.is_registered else math.log1p(seen.keypoints) / 6,
    "agreement_60": lambda odds, seen: _excess_above(seen.agreement, 0.6),
    "agreement_85": lambda odds, seen: _excess_above(seen.agreement, 0.85),
    "agreement_97": lambda odds, seen: _excess_above(seen.agreement, 0.97, 10),
    "worst_30": lambda odds, seen: _excess_above(seen.worst, 0.3),
    "worst_80": lambda odds, seen: _excess_above(seen.worst, 0.8, 3),
    "detail_60": lambda odds, seen: _excess_above(seen.detail, 0.6),
    "detail_90": lambda odds, seen: _excess_above(seen.detail, 0.9, 3),
    "detail_98": lambda odds, seen: _excess_above(seen.detail, 0.98, 20),
    "detail_both": lambda odds, seen: _excess_above(seen.detail_both, 0.95, 20),
    "detail_worst": lambda odds, seen: _excess_above(seen.detail_worst, 0.2),
    "differing": lambda odds, seen: min(seen.differing, 0.05) * 20,
    "differing_little": lambda odds, seen: min(seen.differing, 0.01) * 100,
    "scale": lambda odds, seen: seen.scale / 2,
    "coverage": lambda odds, seen: seen.coverage,
    "containment": lambda odds, seen: seen.containment,
    "containment_97": lambda odds, seen: _excess_above(seen.containment, 0.97, 30),
    "recoloured": lambda odds, seen: min(seen.recoloured, 0.02) * 50,
    "recoloured_more": lambda odds, seen: min(seen.recoloured, 0.1) * 10,
    "explained": lambda odds, seen: seen.explained,
    "off": lambda odds, seen: min(seen.off, 10.0) / 5,
    "error": lambda odds, seen: min(seen.error, 0.3) * 3,
    "error_more": lambda odds, seen: _excess_above(min(seen.error, 2.0), 0.3),
    "inliers": lambda odds, seen: math.log1p(seen.inliers) / 4,
    "many_inliers": lambda odds, seen: _excess_above(math.log1p(seen.inliers), 4),
    "explained_matches": lambda odds, seen: seen.inliers / (seen.matches + 5),
    "matched": lambda odds, seen: seen.inliers / (seen.keypoints + 20),
    "blocks": lambda odds, seen: math.log1p(seen.blocks) / 5,
    "aligned_detail": lambda odds, seen: seen.aligned_detail,
    "aligned_detail_95": lambda odds, seen: _excess_above(seen.aligned_detail, 0.95, 10),
    "aligned_both": lambda odds, seen: seen.aligned_both,
    "aligned_both_95": lambda odds, seen: _excess_above(seen.aligned_both, 0.95, 10),
    "typical": lambda odds, seen: seen.typical,
    "aligned_worst": lambda odds, seen: seen.aligned_worst,
    "least": lambda odds, seen: seen.least,
    "spot": lambda odds, seen: seen.spot,
    "deviations": lambda odds, seen: min(seen.deviations, 30.0) / 10,
    "few_deviations": lambda odds, seen: math.log1p(max(seen.deviations, 0.0)),
    "spot_blocks": lambda odds, seen: math.log1p(seen.spot_blocks) / 3,
    "spot_share": lambda odds, seen: seen.spot_share,
    "spot_off": lambda odds, seen: min(seen.spot_off, 60.0) / 20,
    "rest_off": lambda odds, seen: min(seen.rest_off, 60.0) / 20,
    "unlike": lambda odds, seen: min(seen.unlike, 0.2) * 10,
    "unlike_little": lambda odds, seen: min(seen.unlike, 0.01) * 100,
    "compared": lambda odds, seen: math.log1p(seen.compared) / 5,
    "one_sided": lambda odds, seen: seen.one_sided,
    "surely_one_sided": lambda odds, seen: min(seen.surely_one_sided, 0.1) * 10,
    "contrast": lambda odds, seen: min(seen.contrast, 1.6),
    "aligned_odds": lambda odds, seen: seen.aligned_odds / 4,
    "aligned_odds_above": lambda odds, seen: _excess_above(seen.aligned_odds, 2, 0.5),
    "aligned_odds_below": lambda odds, seen: _excess_above(-seen.aligned_odds, 2, 0.5),
}


UNSEEN = ("bias", "odds")  # what is said of pairs that deserve no look


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Hidden:
    """A hidden layer over the named features x (F,) of a pair: `out` . relu(`weights` x), with `weights` (H, F) and
    `out` (H,).
    """

    features: tuple[str, ...]
    weights: tuple[tuple[float, ...], ...]
    out: tuple[float, ...]

    def __post_init__(self) -> None:
        count = len(self.features)
        if unknown := [
            name for place, name in enumerate(self.features) if name not in FEATURES or name in self.features[:place]
        ]:
            raise ValueError(
                f"a hidden layer's features are each one of {', '.join(FEATURES)}, once; got {unknown[0]!r}"
            )
        wrong = [len(row) for row in self.weights if len(row) != count]
        if not self.out or len(self.weights) != len(self.out) or wrong:
            raise ValueError(
                f"a hidden layer needs a row of {count} weights, one for each feature, for each of its units; got "
                f"{len(self.weights)} rows for {len(self.out)} units"
                + (f", one of {wrong[0]} weights" if wrong else "")
            )
        if not np.isfinite([*self.out, *(value for row in self.weights for value in row)]).all():
            raise ValueError("a hidden layer needs finite weights, got some that are infinite or no number")

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """All `FEATURES` of pairs, float64 (P, F), to a summand of their log-odds (P,)."""
        return np.maximum(x @ self._weight_matrix, 0) @ np.array(self.out)

    @cached_property
    def _weight_matrix(self) -> np.ndarray:
        """The weights of all `FEATURES`, (F, H): thousands of numbers, which every search would read anew."""
        found = np.zeros((len(FEATURES), len(self.out)))
        found[[list(FEATURES).index(name) for name in self.features]] = np.array(self.weights).T
        return found


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Verification:
    """The calibration of probabilities by a closer look: the `weights` of `FEATURES`, 0 for those that are not named,
    what a `hidden` layer makes of them in addition, and 1 for the same pixels. What is `Evidence.is_unaltered` is
    called the same.

    Pairs of a relevance `above` are looked at; the log-odds of others are bias + odds * x by the weights `apart`, of
    their log-odds x by the network alone, and no higher than those of a pair that was looked at in vain: the network
    took that one for the likelier. None leaves them as they are. `thresholds` are {false-positive rate: relevance}
    after the look, of pairs that are each other's nearest. What could not be laid over each other passes none of them,
    and two pictures with too little to be matched have even odds at most (`Evidence.blank_limit`); equal pixels have 1.
    `in_collection` are those of the scores that pairs of one collection have together (`calibration.transitivity`),
    none lower than the lowest of the others. `recalibration` is the scale and the offset of the log-odds that are shown
    in place of these (`calibration.recalibration`).
    """

    above: float
    weights: dict[str, float]
    thresholds: Thresholds = field(default_factory=dict)
    apart: dict[str, float] | None = None
    recalibration: tuple[float, float] = AS_RELEASED
    hidden: Hidden | None = None
    in_collection: Thresholds = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.weights.keys() <= FEATURES.keys() or not 0 < self.above < 1:
            raise ValueError(
                f"a verification needs weights of {', '.join(FEATURES)}, and 'above' between 0 and 1, "
                f"got {', '.join(self.weights)} and {self.above}"
            )
        if not np.isfinite(list(self.weights.values())).all():
            raise ValueError(f"a verification needs finite weights, got {self.weights}")
        if self.in_collection and min(self.in_collection.values()) < min(self.thresholds.values(), default=0.0):
            raise ValueError(
                f"thresholds in a collection must not be lower than {min(self.thresholds.values())}, the lowest of the "
                f"others; got {min(self.in_collection.values())}"
            )
        if self.apart is not None and (set(self.apart) != set(UNSEEN) or self.apart["odds"] < 0):
            raise ValueError(f"'apart' needs the weights {', '.join(UNSEEN)}, the last 0 or more, got {self.apart}")

    @property
    def limit_without_look(self) -> float:
        """The highest probability without a look: just below the lowest threshold.

        It holds too where nothing can be laid over each other.
        """
        return _just_below(min(self.thresholds.values(), default=verdict_thresholds(self.thresholds)["likely"]))

    @property
    def limit_if_not_taken(self) -> float:
        """The highest probability of pairs that need a look and got none: just below *same*."""
        stated = self.thresholds, self.in_collection or self.thresholds
        return _just_below(min(verdict_thresholds(one)["same"] for one in stated))

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
        `worth` one bool (P,), by default what the network takes for likely. What lies beside each other (`is_beside`),
        and what has other frames behind the first, stays below all too.
        """
        known = round_relevance(relevance)
        worth = self.needs_look(known) if worth is None else worth
        limits = np.where(worth, self.limit_if_not_taken, self.limit_without_look)
        found = np.minimum(
            recalibrate_probabilities(np.where(worth, known, self._relevance_apart(known)), *self.recalibration), limits
        )
        looked = {place: one for place in np.flatnonzero(worth).tolist() if (one := seen[place]) is not None}
        found[list(looked)] = round_relevance(self.relevance(known[list(looked)], list(looked.values())))
        apart = [place for place, one in looked.items() if one.is_beside or one.frames_differ]
        found[apart] = np.minimum(found[apart], self.limit_without_look)
        return found

    def _relevance_apart(self, known: np.ndarray) -> np.ndarray:
        if self.apart is None:
            return known
        odds = self.apart["bias"] + self.apart["odds"] * log_odds(known)
        return round_relevance(sigmoid(np.minimum(odds, self._fitted_odds(np.array([self.above]), [_IN_VAIN]))))

    def _fitted_odds(self, relevance: np.ndarray, seen: Sequence[Evidence]) -> np.ndarray:
        """The log-odds float64 (P,) of pairs that were looked at, as they were fitted."""
        known = feature_rows(relevance, seen)
        odds = known @ in_order(self.weights)
        return odds if self.hidden is None else odds + self.hidden(known)

    def relevance(self, relevance: np.ndarray, seen: Sequence[Evidence]) -> np.ndarray:
        """Probabilities float64 (P,) of pairs that have those by the network alone, from the evidence of each."""
        scale, offset = self.recalibration
        found = sigmoid(scale * self._fitted_odds(relevance, seen) + offset)
        registered = np.array([evidence.is_registered for evidence in seen], bool)
        unaltered = np.array([evidence.is_unaltered for evidence in seen], bool)
        found[unaltered] = np.maximum(found[unaltered], shown_from(verdict_thresholds(self.thresholds)["same"]))
        found[registered & np.array([evidence.identical for evidence in seen], bool)] = 1.0
        limits = [
            min(one.blank_limit, self.limit_without_look) if one.is_blank else self.limit_without_look for one in seen
        ]
        found = np.where(registered, found, np.minimum(found, limits))
        found[np.array([one.equal for one in seen], bool)] = 1.0
        return found


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


def in_order(weights: Mapping[str, float]) -> np.ndarray:
    """The weights of all `FEATURES`, float64 (F,), 0 for those that are not named."""
    return np.array([weights.get(name, 0.0) for name in FEATURES])


def feature_rows(relevance: np.ndarray, seen: Sequence[Evidence]) -> np.ndarray:
    """The values of all `FEATURES` of pairs, float64 (P, F)."""
    odds = log_odds(relevance).tolist()
    rows = [[value(odd, evidence) for value in FEATURES.values()] for odd, evidence in zip(odds, seen, strict=True)]
    return np.array(rows, np.float64).reshape(-1, len(FEATURES))
