"""Made questions, and random logits and evidence for them."""

import numpy as np

from diptych_runtime.calibration.evidence import NUMBERS, Evidence, Verification
from diptych_runtime.manifest import Question

PAIRS = 2003
LOOK = Verification(0.9, dict.fromkeys(NUMBERS, 0.0) | {"odds": 1.0, "aligned_odds": 0.5}, {"0.01": 0.6, "0.001": 0.97})
QUESTIONS = {
    "copy": Question(1.3, 0.4, {"0.001": 0.9}, verification=LOOK),
    "thing": Question(0.7, -0.9, {"0.01": 0.8, "0.001": 0.99}),
}


def drawn(questions, seed: int = 0, count: int = PAIRS) -> np.ndarray:
    """Logits of every size, in which the questions contradict each other as often as not."""
    return np.random.default_rng(seed).normal(0, 8, (count, len(questions))).astype(np.float32)


def evidence(count: int = PAIRS, seed: int = 1) -> list[Evidence | None]:
    """Of every third pair nothing, of every other third what copies look like, of the rest anything."""
    rng = np.random.default_rng(seed)
    seen: list[Evidence | None] = []
    for number in range(count):
        high = number % 3 == 1
        found = Evidence(300, 60, 50 if high else int(rng.integers(0, 60)), aligned_odds=float(rng.normal(4 * high, 4)))
        seen.append(None if number % 3 == 0 else found)
    return seen
