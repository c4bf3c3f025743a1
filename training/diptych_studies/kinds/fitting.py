"""The closer look (`closer_look.verification`) fitted: what it sees of the pairs that a model takes for copies, in
collections of many kinds with copies planted in them, and the weights that make a probability of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diptych_runtime.calibration.evidence import NUMBERS, AfterLook, Evidence, Verification, numbers_of
from diptych_runtime.calibration.folds import are_among
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.judgement import needs_closer_look, question_probabilities
from diptych_runtime.manifest import Question
from diptych_studies.kinds.examined import Examined
from diptych_training.looks import spread_looks

ABOVE = 0.5  # the relevance as copies of pairs that get a closer look
PENALTY = 1e-4  # of the squared weights
IN_VAIN = 0.6  # at most: more of it would tell documents apart, and puts other views of a thing behind strangers
_DECIMALS = 5  # of weights, which a manifest has as text
# The look-alikes are the nearest that there are, of which few collections have many.
RATES = (0.01, 0.005, 0.001)


@dataclass(frozen=True)
class Pairs:
    """Candidate pairs of a kind: `relevance` (P,) by the model alone, what was `seen` of those that it takes for
    copies or that local features voted for, None of the others, and whether they are `copies` (P,).

    `missed` counts the copies that are no candidates. `found` are (P, 2) places in its pictures, of which there are
    `pictures`.
    """

    kind: str
    pictures: int
    found: np.ndarray
    relevance: np.ndarray
    seen: list[Evidence | None]
    copies: np.ndarray
    missed: int

    @property
    def has_look(self) -> np.ndarray:
        """True for each pair that got a closer look, bool (P,)."""
        return np.array([evidence is not None for evidence in self.seen], bool)

    def judge_pairs(self, verification: Verification) -> np.ndarray:
        """Judge the pairs: their probabilities float64 (P,), as they are shown."""
        return verification.shown_relevance(self.relevance, self.seen, self.has_look)


@dataclass(frozen=True)
class Answers:
    """Pairs of a kind to one question, of which it is known whether they match, `labels` (P,) bool: `logits` (P, Q) as
    they are held against their rivals, and what closer looks saw of each, None where none was deserved.
    """

    logits: np.ndarray
    labels: np.ndarray
    seen: list[Evidence | None]


def look_closer(examined: Examined, above: float = ABOVE) -> Pairs:
    """Find the candidates of every picture of a kind, and look again at those whose relevance as copies is `above`, and
    at those of a crowd that local features vote for.
    """
    pairs = examined.find_nearest(COPY)
    relevance = _compute_relevance(examined, pairs)
    elected = examined.elect_pairs(pairs, relevance >= above)
    pairs = np.unique(np.concatenate([pairs, elected]), axis=0)
    found = _look_at_pairs(examined, pairs, above, are_among(pairs, elected))
    return replace(found, missed=examined.planted.count_copies() - int(found.copies.sum()))


def _compute_relevance(examined: Examined, pairs: np.ndarray) -> np.ndarray:
    runtime = examined.runtime.asking(COPY)
    return runtime.relevance(examined.normalized_logits(pairs, COPY)[:, runtime.column]).astype(np.float64)


def _look_at_pairs(examined: Examined, pairs: np.ndarray, above: float, elected: np.ndarray | bool = False) -> Pairs:
    planted, relevance = examined.planted, _compute_relevance(examined, pairs)
    taken = (relevance >= above) | elected
    seen = spread_looks(taken, examined.evidence(pairs[taken]))
    return Pairs(planted.kind, len(planted.names), pairs, relevance, seen, planted.is_match(pairs, COPY), 0)


def ask_for_looks(questions: Mapping[str, Question]) -> dict[str, Question]:
    """Make questions for which whatever may be a copy deserves a look.

    They are those before anything is fitted to closer looks.
    """
    asked = dict(questions)
    if COPY in asked:
        asked[COPY] = replace(asked[COPY], verification=Verification(ABOVE, dict.fromkeys(NUMBERS, 0.0)))
    return asked


def answers_of(
    examined: Examined, questions: Mapping[str, Question], question: str, pairs: np.ndarray, labels: np.ndarray
) -> Answers:
    """Pairs int64 (P, 2) with their labels (P,) as `questions` are asked one; pairs that deserve a closer look for it
    get one.
    """
    logits = examined.normalized_logits(pairs, question)
    worth = needs_closer_look(questions, logits, question)
    return Answers(logits, labels, spread_looks(worth, examined.evidence(pairs[worth])))


def fit_verification(sets: Sequence[Pairs], above: float = ABOVE) -> Verification:
    """Fit the weights by log-loss, every kind and within all of them copies and others weighing the same, and the
    thresholds that each rate allows among all candidates of a kind that are no copies, a mean over kinds. The
    thresholds come from what a fit to the other kinds says of each.
    """
    known = [numbers_of(one.relevance, one.seen) for one in sets]

    def fit_to(places: Sequence[int]) -> Verification:
        labels = [sets[place].copies for place in places]
        x = np.concatenate([known[place] for place in places])
        return Verification(above, _fit_weights(x, np.concatenate(labels), even_kinds(labels)))

    every, others = range(len(sets)), []
    for place, one in enumerate(sets):
        unseen = fit_to([other for other in every if other != place] or every)
        others.append(one.judge_pairs(unseen)[(known[place][:, 2] > 0) & ~one.copies])
    return replace(fit_to(every), thresholds=_find_thresholds(others, [int((~one.copies).sum()) for one in sets]))


def fit_after_look(questions: Mapping[str, Question], sets: Sequence[Answers]) -> Question:
    """The question of the *thing* with what a look makes of it, fitted by log-loss as that of the copy is, and the
    thresholds that each rate allows among what does not match.

    A kind of which all pairs match, or none does, counts for nothing. Raises ValueError where no kind is left.
    """
    sets = [answers for answers in sets if answers.labels.any() and not answers.labels.all()]
    if not sets:
        raise ValueError("no kind of pictures has both pairs of one thing and others")
    logits, labels = (np.concatenate(parts) for parts in zip(*((one.logits, one.labels) for one in sets), strict=True))
    own, copies = (questions[name].relevance(logits[:, list(questions).index(name)]) for name in (THING, COPY))
    seen = [evidence for one in sets for evidence in one.seen]
    numbers, weight = numbers_of(own, seen), even_kinds([one.labels for one in sets])
    laid = numbers[:, 2] > 0
    vain = ~laid & np.array([evidence is not None for evidence in seen], bool)
    against = np.where(labels, -1, 1)[vain]
    surer = np.maximum(log_odds(copies[vain]), 0)

    def loss_in_vain(share: float) -> float:
        return float(weight[vain] @ np.logaddexp(0, against * (numbers[vain, 1] - share * surer)))

    weights = _fit_weights(numbers[laid], labels[laid], weight[laid])
    after = AfterLook(weights, round(min(np.linspace(0, IN_VAIN, 61).tolist(), key=loss_in_vain), _DECIMALS))
    asked = dict(questions) | {THING: replace(questions[THING], after_look=after)}
    shown = [question_probabilities(asked, one.logits, one.seen)[THING][~one.labels] for one in sets]
    return replace(asked[THING], thresholds=_find_thresholds(shown, [len(one) for one in shown]))


def even_kinds(labels: Sequence[np.ndarray]) -> np.ndarray:
    """Weigh the pairs of several kinds so that each kind counts alike.

    Copies and others weigh the same in all, and of either each kind that has any.
    """
    weights = [np.zeros(len(part)) for part in labels]
    for copies in (True, False):
        having = [place for place, part in enumerate(labels) if (part == copies).any()]
        for place in having:
            chosen = labels[place] == copies
            weights[place][chosen] = 0.5 / (len(having) * chosen.sum())
    return np.concatenate(weights)


def _fit_weights(numbers: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Fit the weights of the `NUMBERS` (P, 5) of pairs; that of the network's own log-odds is 0 or more."""
    fitted = fit_logistic(numbers, labels, weight)
    if fitted[1] < 0:
        fitted = np.insert(fit_logistic(np.delete(numbers, 1, 1), labels, weight), 1, 0.0)
    return dict(zip(NUMBERS, np.round(fitted, _DECIMALS).tolist(), strict=True))


def _find_thresholds(others: Sequence[np.ndarray], totals: Sequence[int]) -> dict[str, float]:
    """Find the threshold of each rate that the pairs can support."""
    found = {str(rate): _find_threshold(others, totals, rate) for rate in RATES}
    return {rate: bar for rate, bar in found.items() if bar is not None}


def _find_threshold(others: Sequence[np.ndarray], totals: Sequence[int], rate: float) -> float | None:
    """Find the lowest score that at most a share `rate` of others reaches.

    The share is a mean over kinds, the score is above even odds. None where there are too few to say.
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


def fit_logistic(x: np.ndarray, labels: np.ndarray, weight: np.ndarray, squares: float = PENALTY) -> np.ndarray:
    """Fit the weights (F,) of a logistic regression by Newton's method.

    There is a penalty on all but the first.
    """
    weights, penalty = np.zeros(x.shape[1]), np.eye(x.shape[1]) * squares
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
