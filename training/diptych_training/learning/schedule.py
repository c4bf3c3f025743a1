"""The learning-rate schedule of the small networks."""

import math


def warm_cosine(rate: float, step: int, steps: int, warmup: int) -> float:
    """The learning rate of a step, counted from 0: a linear warm-up to `rate`, under a cosine that ends at 0."""
    return rate * min(1.0, (step + 1) / warmup) * (0.5 + 0.5 * math.cos(math.pi * step / steps))
