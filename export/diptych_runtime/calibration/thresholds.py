"""Thresholds and their false-positive rates: the threshold for a rate, the rate of a threshold, and how often a search
gives a false alarm.

Thresholds are stated for a few rates. Their log-odds are taken to be on a line over the logarithm of the rate, between
two stated ones and beyond the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator

Negatives = Literal["random", "nearest"]

# Pairs that do not match: drawn at random, and the first stage's ten nearest of each picture.
NEGATIVES: tuple[Negatives, ...] = ("random", "nearest")
_MOST = 700.0  # log-odds whose exponential is a float


def check_thresholds(stated: dict[str, float]) -> dict[str, float]:
    """The thresholds {false-positive rate: relevance} unchanged, if they are valid.

    Raises ValueError for a rate that is none or is stated twice, for a relevance outside [0, 1], and for a stricter
    rate with a lower one than a more lenient rate has.
    """
    rates: dict[float, str] = {}
    for name, least in stated.items():
        rate = _parse_rate(name)
        if rate is None:
            raise ValueError(f"expected false-positive rates above 0 and below 1, got {name!r}")
        key = round(math.log(rate), 9)
        if key in rates:
            raise ValueError(f"expected each false-positive rate once, got {rates[key]!r} and {name!r}")
        if not 0 <= least <= 1:
            raise ValueError(f"expected thresholds from 0 to 1, got {least} for the rate {name}")
        rates[key] = name
    for (_, strict), (_, lenient) in pairwise(sorted(rates.items())):
        if stated[strict] < stated[lenient]:
            raise ValueError(
                f"expected no lower threshold for the rate {strict} than for {lenient}, "
                f"got {stated[strict]} and {stated[lenient]}"
            )
    return stated


Thresholds = Annotated[dict[str, float], AfterValidator(check_thresholds)]


def threshold_at(stated: Mapping[str, float], rate: float) -> float | None:
    """The threshold in (0, 1) that a share `rate` of pairs passes, from {false-positive rate: threshold}; never more
    lenient than that of the highest rate stated. None where fewer than two are stated.
    """
    known = _log_points(stated)
    if len(known) < 2:
        return None
    wanted = min(math.log(rate), known[-1][0])
    (low, odds), (high, other) = next(pair for pair in pairwise(known) if wanted <= pair[1][0])
    found = odds + (other - odds) * (wanted - low) / (high - low)
    return 1 / (1 + math.exp(min(-found, _MOST)))


def rate_at(stated: Mapping[str, float], threshold: float) -> float | None:
    """The share of pairs that pass a threshold in (0, 1), from {false-positive rate: threshold}.

    Above the strictest threshold stated it goes on falling along the line; below the most lenient one it is the highest
    rate stated. None where fewer than two different thresholds are stated.
    """
    known = _log_points(stated)
    if len(known) < 2 or known[0][1] <= known[-1][1] or not 0 < threshold < 1:
        return None
    wanted = max(math.log(threshold / (1 - threshold)), known[-1][1])
    (low, odds), (high, other) = next(
        pair for pair in pairwise(known) if wanted >= pair[1][1] and pair[0][1] > pair[1][1]
    )
    return math.exp(low + (high - low) * (wanted - odds) / (other - odds))


def alarm_rate(stated: Mapping[str, float], threshold: float, pictures: int) -> float | None:
    """The false-alarm rate of an exhaustive search among N `pictures` without a match, the probability that any of them
    passes a threshold:

        1 - (1 - r)^N

    with r the share of random pairs that pass it, by {false-positive rate: threshold} of such pairs. None where that is
    not stated.
    """
    rate = rate_at(stated, threshold)
    return None if rate is None else -math.expm1(pictures * math.log1p(-min(rate, 1 - 1e-12)))


def _parse_rate(name: str) -> float | None:
    try:
        rate = float(name)
    except ValueError:
        return None
    return rate if 0 < rate < 1 else None


def _log_points(stated: Mapping[str, float]) -> list[tuple[float, float]]:
    """The logarithms of the rates, ascending, with the log-odds of their thresholds."""
    return sorted(
        (math.log(float(rate)), math.log(score / (1 - score))) for rate, score in stated.items() if 0 < score < 1
    )
