"""Made questions, and random logits and evidence for them."""

from dataclasses import replace

import numpy as np

from diptych_runtime.calibration.after_look import AfterLook
from diptych_runtime.calibration.evidence import FEATURES, Evidence, Verification
from diptych_runtime.manifest import Question

PAIRS = 2003
LOOK = Verification(0.9, dict.fromkeys(FEATURES, 0.0) | {"odds": 4.0}, {"0.01": 0.6, "0.001": 0.97})
QUESTIONS = {
    "copy": Question(1.3, 0.4, {"0.001": 0.9}, verification=LOOK),
    "thing": Question(0.7, -0.9, {"0.01": 0.8, "0.001": 0.99}),
}


# What a closer look sees of a copy says something of the thing.
AFTER = QUESTIONS | {
    "thing": replace(
        QUESTIONS["thing"],
        after_look=AfterLook(
            {"bias": -2.5, "agreement_60": 4.0, "explained": 1.5, "inliers": 1.0},
            {"bias": -0.5, "logit": 0.8, "in_vain": 0.3},
            {"0.01": 0.7, "0.001": 0.95},
        ),
    )
}


def drawn(questions, seed: int = 0, count: int = PAIRS) -> np.ndarray:
    """Logits of every size, in which the questions contradict each other as often as not."""
    return np.random.default_rng(seed).normal(0, 8, (count, len(questions))).astype(np.float32)


def evidence(count: int = PAIRS, seed: int = 1) -> list[Evidence | None]:
    """Of every third pair nothing, of every other third what copies look like, of the rest anything."""
    rng = np.random.default_rng(seed)
    shares = ("coverage", "containment", "agreement", "worst", "detail", "detail_both", "detail_worst", "explained")
    seen: list[Evidence | None] = []
    for number in range(count):
        high = number % 3 == 1
        found = Evidence(300, 60, 50 if high else int(rng.integers(0, 60)), blocks=90, scale=1.0)
        values = {name: float(rng.uniform(0.99, 1) if high else rng.uniform()) for name in shares}
        seen.append(None if number % 3 == 0 else replace(found, **values))
    return seen
