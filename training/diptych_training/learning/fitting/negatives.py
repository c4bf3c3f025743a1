"""Thresholds for defined negatives: pairs that do not match, drawn at random, and the first stage's ten nearest of each
picture. They are of the probability that is shown, after the closer look.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diptych_runtime.calibration.thresholds import NEGATIVES, Negatives
from diptych_runtime.closer_look.evidence import Evidence
from diptych_runtime.judgement import deserving, probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.data.planted import Planted
from diptych_training.learning.fitting.calibration import fit_thresholds
from diptych_training.learning.fitting.verification import candidate_pairs, evidence_of, shifts_of

NEAREST = 10  # of each picture
RANDOM = 4000  # pairs of a kind
SEED = 5


@dataclass(frozen=True)
class Others:
    """Pairs of a kind that do not match, of one sort of negatives, as one question is asked about them: `logits` (P, Q)
    as they are held against their rivals, and what closer looks saw.
    """

    question: str
    sort: Negatives
    logits: np.ndarray
    seen: list[Evidence | None]


def random_pairs(planted: Planted) -> np.ndarray:
    """Pairs int64 (P, 2) of places, drawn at random, always the same ones."""
    drawn = np.sort(np.random.default_rng(SEED).integers(0, len(planted.names), (2 * RANDOM, 2)), axis=1)
    return np.unique(drawn[drawn[:, 0] < drawn[:, 1]], axis=0)[:RANDOM]


def strangers(planted: Planted, pairs: np.ndarray, question: str) -> np.ndarray:
    """Which of the pairs int64 (P, 2) are known not to match, bool (P,)."""
    return ~planted.matches(pairs, question) & ~planted.unknown(pairs, question)


def others_of(
    runtime: Runtime,
    questions: Mapping[str, Question],
    planted: Planted,
    panels: Panels,
    known: Mapping[tuple[int, int], Evidence],
    tick: Callable[[int], object] = lambda n: None,
) -> list[Others]:
    """The negatives of a kind to all questions, answered as `questions` say.

    What deserves a closer look gets one, unless what it saw is `known` by the pair of places.
    """
    found, looked = [], dict(known)
    drawn = random_pairs(planted)
    random = drawn, _logits(runtime, panels, drawn)
    for number, question in enumerate(runtime.questions):
        asked = runtime.asking(question)
        shifts = shifts_of(asked, panels)
        near = candidate_pairs(asked, panels.embeddings, NEAREST)
        for sort, (pairs, logits) in zip(NEGATIVES, (random, (near, _logits(runtime, panels, near))), strict=True):
            apart = strangers(planted, pairs, question)
            pairs, logits = pairs[apart], logits[apart]
            logits[:, number] -= shifts[pairs].mean(1)
            worth = deserving(questions, logits, question)
            keys = [(a, b) for a, b in pairs[worth].tolist()]
            missing = [key for key in keys if key not in looked]
            looked.update(zip(missing, evidence_of(planted, np.array(missing), runtime.threads, tick), strict=True))
            seen: list[Evidence | None] = [None] * len(pairs)
            for place, key in zip(np.flatnonzero(worth).tolist(), keys, strict=True):
                seen[place] = looked[key]
            found.append(Others(question, sort, logits, seen))
    return found


def fit_negatives(
    questions: Mapping[str, Question], sets: Sequence[Sequence[Others]]
) -> dict[str, dict[Negatives, dict[str, float]]]:
    """Thresholds {false-positive rate: probability} by question and sort of negatives, over the pairs of all kinds."""
    fitted: dict[str, dict[Negatives, dict[str, float]]] = {}
    for question in questions:
        fitted[question] = {}
        for sort in NEGATIVES:
            shown = [
                probabilities(questions, others.logits, others.seen)[question]
                for found in sets
                for others in found
                if (others.question, others.sort) == (question, sort)
            ]
            pooled = np.concatenate(shown) if shown else np.empty(0)
            fitted[question][sort] = fit_thresholds(pooled, np.zeros(len(pooled), bool))
    return fitted


def _logits(runtime: Runtime, panels: Panels, pairs: np.ndarray) -> np.ndarray:
    return runtime.all_logits(panels.tokens[pairs[:, 0]], panels.tokens[pairs[:, 1]])
