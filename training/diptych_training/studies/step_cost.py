"""The time of a training step of each variant of a study, beside that of the one it differs from."""

import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import table
from diptych_training.device import environment
from diptych_training.studies.one_shot import training
from diptych_training.studies.variants import STUDIES, chosen
from diptych_training.threads import torch_threads

ROUNDS, WARM = 15, 2
RATE = 1e-4  # whatever it is, a step takes as long


def study_step_cost(
    name: str, data: Path, *, only: Sequence[str] = (), ended: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """Time a training step of every variant of a study, or `only` some, once a round, each round in another order, by
    one thread; `ended` is called after each round.

    A row has the `seconds` of the median step and the `ratio` to that of the variant it differs from, of steps of the
    same round, as the quartiles.
    """
    variants = chosen(STUDIES[name](), name, only)
    with torch_threads(1):
        running = {
            label: training(str(data), variant.config, steps=ROUNDS + WARM, rate=RATE, seed=0)
            for label, variant in variants.items()
        }
        seconds = {label: list[float]() for label in variants}
        for number in range(ROUNDS + WARM):
            for label in random.Random(number).sample(list(variants), len(variants)):
                begun = time.perf_counter()
                next(running[label])
                seconds[label].append(time.perf_counter() - begun)
            ended()
    times = {label: np.array(each[WARM:]) for label, each in seconds.items()}
    rows = [
        {
            "variant": label,
            "against": variant.against,
            "seconds": float(np.median(times[label])),
            "ratio": np.quantile(times[label] / times[variant.against], (0.25, 0.5, 0.75)).tolist(),
        }
        for label, variant in variants.items()
    ]
    return {"study": name, "rows": rows, "rounds": ROUNDS, "environment": environment()}


def step_cost_text(result: dict[str, Any]) -> str:
    """The rows as a table for people."""
    rows = [
        (row["variant"], f"{row['seconds']:.3f}", *(f"{quartile:.2f}" for quartile in row["ratio"]), row["against"])
        for row in result["rows"]
    ]
    return (
        f"{table(('', 's a step', 'times', 'median', 'to', 'a step of'), rows)}\nquartiles of {result['rounds']} rounds"
    )
