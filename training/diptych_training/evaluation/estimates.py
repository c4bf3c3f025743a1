"""Figures with resampled intervals: queries drawn anew, the same for every method, so that differences pair."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

DRAWS = 1000


@dataclass(frozen=True)
class Estimate:
    """A figure and its `draws` (D,): what it is when the queries are drawn anew with replacement, NaN where what was
    drawn has no such figure.

    Draw i is the same queries for every estimate of one `Resampling`, and so two of them subtract in pairs.
    """

    value: float
    draws: np.ndarray

    @property
    def interval(self) -> list[float]:
        """The middle 95 % of the draws, [low, high]."""
        return _middle(self.draws)

    def gain_over(self, other: "Estimate") -> list[float]:
        """This minus the other, paired: [value, low, high]."""
        return [self.value - other.value, *_middle(self.draws - other.draws)]


class Resampling:
    """Draws units with replacement: `unit` says what they are (queries, runs, pairs), `of` int (T,) which one each
    trial belongs to, where trials of one unit are not independent of each other.
    """

    def __init__(self, unit: str, of: np.ndarray, *, seed: int = 0) -> None:
        self.unit, self.of, self.seed = unit, of, seed
        self.count = int(of.max()) + 1

    def counts(self) -> Iterator[np.ndarray]:
        """For each draw how often every unit came, int64 (units,)."""
        rng = np.random.default_rng(self.seed)
        for _ in range(DRAWS):
            yield np.bincount(rng.integers(0, self.count, self.count), minlength=self.count)

    def estimate(self, statistic: Callable[[np.ndarray], float]) -> Estimate:
        """A statistic of how often every unit counts, such as micro-AP."""
        value = statistic(np.ones(self.count, np.int64))
        return Estimate(float(value), np.array([statistic(counts) for counts in self.counts()], float))

    def mean(self, values: np.ndarray, counted: np.ndarray | None = None) -> Estimate:
        """The mean of one value a trial (T,); trials that are not `counted` (T,) bool are left out, and so are draws
        without any.
        """
        counted = np.ones(len(values), bool) if counted is None else counted
        sums = np.bincount(self.of[counted], np.asarray(values, float)[counted], self.count)
        sizes = np.bincount(self.of[counted], minlength=self.count)

        def mean(counts: np.ndarray) -> float:
            drawn = int(counts @ sizes)
            return float(counts @ sums) / drawn if drawn else float("nan")

        return self.estimate(mean)


def _middle(draws: np.ndarray) -> list[float]:
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return [float(low), float(high)]
