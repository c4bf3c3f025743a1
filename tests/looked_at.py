"""Made pairs of a kind of pictures, with what a closer look saw of them."""

import numpy as np

from diptych_runtime.calibration.evidence import Evidence
from diptych_studies.kinds.fitting import Pairs

ABOVE = 0.9  # the relevance of the pairs that are looked at


def pairs(kind: str, copies: int = 40, others: int = 60, rest: int = 940, seed: int = 0) -> Pairs:
    """Pairs of which nine copies in ten can be laid over each other, and one other in ten; and `rest` others of which
    the network says that they are none, beside a twentieth as many copies.
    """
    rng = np.random.default_rng(seed)
    labels = np.arange(copies + others) < copies
    registered = np.where(labels, rng.random(len(labels)) < 0.9, rng.random(len(labels)) < 0.1)
    odds = np.where(labels, rng.normal(4, 2, len(labels)), rng.normal(-4, 2, len(labels)))
    seen = [
        Evidence(300, 100, 60, aligned_odds=float(value)) if laid else Evidence(300)
        for laid, value in zip(registered, odds, strict=True)
    ]
    apart = rng.uniform(0, ABOVE, rest + 10), np.arange(rest + 10) < (10 if copies else 0)
    relevance = np.concatenate([rng.uniform(ABOVE, 1, len(labels)), np.where(apart[1], apart[0] ** 0.5, apart[0])])
    labels = np.concatenate([labels, apart[1]])
    found = np.stack([np.arange(len(labels)), np.arange(len(labels)) + 1], 1) % 200
    return Pairs(kind, 200, found, relevance, [*seen, *[None] * (rest + 10)], labels, 0)
