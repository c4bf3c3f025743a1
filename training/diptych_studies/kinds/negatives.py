"""Thresholds for defined negatives: pairs that do not match, drawn at random, and the first stage's ten nearest of each
picture. They are of the probability that is shown, after the closer look.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.thresholds import NEGATIVES, Negatives
from diptych_runtime.judgement import question_probabilities
from diptych_runtime.manifest import Question
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.fitting import answers_of
from diptych_studies.kinds.planted import Planted
from diptych_training.learning.calibration import NEAREST, fit_thresholds

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
    generator = np.random.default_rng(SEED)
    drawn = np.sort(generator.integers(0, len(planted.names), (2 * RANDOM, 2)), axis=1)
    pairs = np.unique(drawn[drawn[:, 0] < drawn[:, 1]], axis=0)
    return pairs[np.sort(generator.permutation(len(pairs))[:RANDOM])]


def is_stranger(planted: Planted, pairs: np.ndarray, question: str) -> np.ndarray:
    """True for pairs int64 (P, 2) known not to match, bool (P,)."""
    return ~planted.is_match(pairs, question) & ~planted.is_unknown(pairs, question)


def others_of(examined: Examined, questions: Mapping[str, Question]) -> list[Others]:
    """The negatives of a kind to all questions, answered as `questions` say."""
    planted, found = examined.planted, []
    random = random_pairs(planted)
    for question in examined.runtime.questions:
        for sort, pairs in zip(NEGATIVES, (random, examined.find_nearest(question, NEAREST)), strict=True):
            pairs = pairs[is_stranger(planted, pairs, question)]
            answers = answers_of(examined, questions, question, pairs, np.zeros(len(pairs), bool))
            found.append(Others(question, sort, answers.logits, answers.seen))
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
                question_probabilities(questions, others.logits, others.seen)[question]
                for found in sets
                for others in found
                if (others.question, others.sort) == (question, sort)
            ]
            pooled = np.concatenate(shown) if shown else np.empty(0)
            thresholds = fit_thresholds(pooled, np.zeros(len(pooled), bool))
            # What the same pixels pass, which some archives have twice as two pictures, parts nothing.
            fitted[question][sort] = {rate: least for rate, least in thresholds.items() if least <= 1}
    return fitted
