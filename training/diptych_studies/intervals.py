"""Intervals of what was measured with several seeds, or on resampled queries."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike


def bootstrap(
    statistic: Callable[[np.ndarray], float], count: int, *, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of a statistic of resampled queries: it is given indices (count,) drawn with replacement."""
    rng = np.random.default_rng(seed)
    values = [statistic(rng.integers(0, count, count)) for _ in range(draws)]
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)


# The 97.5 % point of Student's t for 1 to 9 degrees of freedom.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)


def student_interval(values: ArrayLike) -> list[float] | None:
    """95 % interval of the mean of independent values, such as one of each seed; None for a single one.

    Bootstrap is no help here: of three values it covers far less than it states.
    """
    values = np.asarray(values, float)
    count = len(values)
    if count < 2:
        return None
    student = STUDENT[count - 2] if count - 1 <= len(STUDENT) else 1.96 + 2.5 / (count - 1)
    reach = student * values.std(ddof=1) / np.sqrt(count)
    return [float(values.mean() - reach), float(values.mean() + reach)]
