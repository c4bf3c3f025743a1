"""One verdict for every face: `same`, `likely`, `unsure` or `different`, made of a question's thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

Verdict = Literal["same", "likely", "unsure", "different"]

VERDICTS: tuple[Verdict, ...] = ("same", "likely", "unsure", "different")
_UNSTATED = (0.9, 0.99)  # of a model that states no rates
_EVEN = 0.5


def verdict(relevance: float, thresholds: Mapping[str, float]) -> Verdict:
    """The verdict of a probability, by {false-positive rate: relevance}: *same* from the strictest threshold on,
    *likely* from the one before it, *unsure* from even odds on.

    >>> verdict(0.97, {"0.01": 0.8, "0.001": 0.95, "0.0001": 0.99})
    'likely'
    """
    return verdict_from(relevance, verdict_thresholds(thresholds))


def verdict_from(relevance: float, least: Mapping[Verdict, float]) -> Verdict:
    """The verdict of a probability by the lowest of each, the strictest first (`verdict_thresholds`)."""
    for name, bar in least.items():
        if relevance >= bar:
            return name
    return "different"


def stronger_verdict(one: Verdict, other: Verdict) -> Verdict:
    """The one of two verdicts that says more for a match."""
    return VERDICTS[min(VERDICTS.index(one), VERDICTS.index(other))]


def verdict_thresholds(thresholds: Mapping[str, float]) -> dict[Verdict, float]:
    """The lowest probability of each verdict but *different*, the strictest first."""
    stated = sorted(thresholds.values()) or list(_UNSTATED)
    if len(stated) == 1:  # of a model that was measured on few pairs
        stated.append(max(stated[0], _UNSTATED[-1]))
    return {"same": stated[-1], "likely": stated[-2], "unsure": _EVEN}
