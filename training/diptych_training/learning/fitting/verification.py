"""The closer look (`closer_look.verification`) fitted: what it sees of the pairs that a model takes for copies, in
collections of many kinds with copies planted in them, and the weights that make a probability of it.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import faiss
import numpy as np

from diptych_runtime.calibration.questions import COPY
from diptych_runtime.closer_look.evidence import FEATURES, Evidence, Verification, features
from diptych_runtime.closer_look.verification import describe, verify
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.data.planted import Planted

NEAREST = 20  # candidates of each picture
ABOVE = 0.9
PENALTY = 1e-4  # of the squared weights
# The look-alikes are the nearest that there are, of which few collections have many.
RATES = (0.01, 0.005, 0.001)
_VIEWS = 256  # pictures whose keypoints are kept


@dataclass(frozen=True)
class Pairs:
    """Candidate pairs of a kind that the model takes for copies: `relevance` (P,) by the model alone, what was `seen`,
    and whether they are `copies` (P,).

    `rest` counts the candidates that are no copies and that the model did not take for some, `missed` the copies.
    `found` are (P, 2) places in its pictures, of which there are `pictures`.
    """

    kind: str
    pictures: int
    found: np.ndarray
    relevance: np.ndarray
    seen: list[Evidence]
    copies: np.ndarray
    rest: int
    missed: int


def encode(runtime: Runtime, planted: Planted) -> Panels:
    """Tokens and embeddings of a kind's pictures."""
    with ThreadPoolExecutor(runtime.threads) as pool:
        pixels = list(pool.map(lambda name: panel_pixels(planted.folder / name, runtime.panel_size), planted.names))
    return runtime.encode(np.stack(pixels))


def candidate_pairs(runtime: Runtime, embeddings: np.ndarray, count: int = NEAREST) -> np.ndarray:
    """Pairs int64 (P, 2) of each picture and its `count` nearest, as the runtime's question weighs embeddings."""
    index = faiss.IndexFlatIP(embeddings.shape[1])
    index.add(embeddings)
    near = index.search(runtime.queries(embeddings), min(count + 1, len(embeddings)))[1]
    pairs = [(i, j) for i, row in enumerate(near.tolist()) for j in row if i != j]
    return np.unique(np.sort(pairs, axis=1), axis=0)


def shifts_of(runtime: Runtime, panels: Panels) -> np.ndarray:
    """By how much the scores of every picture are lowered, float32 (n,), as the runtime's question holds them against
    rivals (`Runtime.shifts`); 0 where it does not.
    """
    count = len(panels.embeddings)
    if not runtime.asked.cohort:
        return np.zeros(count, np.float32)
    pairs = candidate_pairs(runtime, panels.embeddings)
    return runtime.shifts(pairs, runtime.pair_logits(panels.tokens[pairs[:, 0]], panels.tokens[pairs[:, 1]]), count)


def evidence_of(
    planted: Planted, pairs: np.ndarray, threads: int, tick: Callable[[int], object] = lambda n: None
) -> list[Evidence]:
    """What a closer look at pairs int64 (P, 2) of places sees."""
    described = lru_cache(_VIEWS)(lambda place: describe(planted.folder / planted.names[place]))

    def look(pair: list[int]) -> Evidence:
        seen = verify(*map(described, pair))
        tick(1)
        return seen

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(look, np.asarray(pairs).tolist()))


def look_closer(
    runtime: Runtime,
    planted: Planted,
    panels: Panels | None = None,
    *,
    above: float = ABOVE,
    tick: Callable[[int], object] = lambda n: None,
) -> Pairs:
    """Find the candidates of every picture of a kind, of which there may be `panels` already, and look again at those
    whose relevance is `above`.
    """
    runtime = runtime.asking(COPY)
    panels = encode(runtime, planted) if panels is None else panels
    pairs = candidate_pairs(runtime, panels.embeddings)
    logits = runtime.pair_logits(panels.tokens[pairs[:, 0]], panels.tokens[pairs[:, 1]])
    lowered = runtime.shifts(pairs, logits, len(planted.names))[pairs].mean(1)
    relevance = runtime.relevance(logits - lowered).astype(np.float64)
    copies, taken = planted.matches(pairs, COPY), relevance >= above
    return Pairs(
        planted.kind,
        len(planted.names),
        pairs[taken],
        relevance[taken],
        evidence_of(planted, pairs[taken], runtime.threads, tick),
        copies[taken],
        rest=int((~copies & ~taken).sum()),
        missed=planted.planted() - int((copies & taken).sum()),
    )


def fit_verification(sets: Sequence[Pairs], above: float = ABOVE) -> Verification:
    """Fit the weights by log-loss, every kind and within all of them copies and others weighing the same, and the
    thresholds that each rate allows among all candidates of a kind that are no copies, a mean over kinds.
    """
    x = np.concatenate([features(pairs.relevance, pairs.seen) for pairs in sets])
    labels = np.concatenate([pairs.copies for pairs in sets])
    weight = np.zeros(len(labels))
    kinds = np.repeat(np.arange(len(sets)), [len(pairs.copies) for pairs in sets])
    for label in (True, False):
        chosen = labels == label
        counts = np.bincount(kinds[chosen], minlength=len(sets))
        weight[chosen] = 0.5 / ((counts > 0).sum() * counts[kinds[chosen]])
    fitted = _logistic(x, labels, weight)
    plain = Verification(above, dict(zip(FEATURES, fitted.tolist(), strict=True)))
    passing = [~pairs.copies & np.array([seen.registered for seen in pairs.seen], bool) for pairs in sets]
    others = [plain.relevance(pairs.relevance, pairs.seen)[chosen] for pairs, chosen in zip(sets, passing, strict=True)]
    totals = [int((~pairs.copies).sum()) + pairs.rest for pairs in sets]
    thresholds = {}
    for rate in RATES:
        bar = _threshold(others, totals, rate)
        if bar is not None:
            thresholds[str(rate)] = bar
    return Verification(above, plain.weights, thresholds)


def _threshold(others: Sequence[np.ndarray], totals: Sequence[int], rate: float) -> float | None:
    """The lowest score, from even odds on, that on the mean over kinds at most a share `rate` of others reaches; None
    where there are too few to say.
    """
    if rate * sum(totals) < 1:
        return None
    scores = np.concatenate(others)
    shares = np.repeat([1 / max(total, 1) / len(totals) for total in totals], [len(known) for known in others])
    order = np.argsort(-scores, kind="stable")
    above = np.cumsum(shares[order])
    place = int(np.searchsorted(above, rate, side="right"))
    # What is just above the first score that is one too many.
    return max(0.5, float(np.nextafter(scores[order][place], 1))) if place < len(scores) else 0.5


def _logistic(x: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Weights (F,) of a logistic regression by Newton's method, with a penalty on all but the first."""
    weights, penalty = np.zeros(x.shape[1]), np.eye(x.shape[1]) * PENALTY
    penalty[0, 0] = 1e-6
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(x @ weights, -60, 60)))
        gradient = x.T @ (weight * (p - labels)) + penalty @ weights
        hessian = (x * (weight * p * (1 - p))[:, None]).T @ x + penalty
        step = np.linalg.solve(hessian, gradient)
        weights -= step
        if np.abs(step).max() < 1e-9:
            break
    return weights
