"""The closer look (`closer_look.verification`) fitted: what it sees of the pairs that a model takes for copies, in
collections of many kinds with copies planted in them, and the weights that make a probability of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from diptych_runtime.calibration.after_look import APART, AfterLook
from diptych_runtime.calibration.evidence import FEATURES, UNSEEN, Evidence, Verification, feature_rows
from diptych_runtime.calibration.questions import COPY, THING
from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.calibration.transitivity import UNSURE, Transitivity, are_among, open_pairs
from diptych_runtime.judgement import needs_closer_look, pairs_with_look, question_probabilities
from diptych_runtime.manifest import Question
from diptych_studies.kinds.examined import Examined
from diptych_studies.kinds.layers import IN_VAIN, fit_layers, mean_of
from diptych_training.learning.calibration import weights_of_parts
from diptych_training.looks import spread_looks

# The relevance as copies of pairs that get a closer look, and of those of which it says something of the thing.
ABOVE, ABOVE_THING = 0.5, 0.9
FOLDS = 5  # of the kinds
PENALTY = 1e-4  # of the squared weights
# What a look says of the thing: how two pictures lie over each other and agree there, not in which spots they differ.
_NAMES = list(FEATURES)
_SPOTS = slice(_NAMES.index("aligned_detail"), _NAMES.index("aligned_odds"))
OVERLAP = ["bias", *_NAMES[_NAMES.index("agreement_60") : _SPOTS.start], *_NAMES[_SPOTS.stop :]]
OVERLAP_PENALTY = 1e-2  # of their squared weights, each in deviations of its feature: kinds are few
_CONSTANT = 1e-9  # a spread that is rounding
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

    @property
    def evidence(self) -> list[Evidence]:
        """Their evidence."""
        return [evidence for evidence in self.seen if evidence is not None]

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
        asked[COPY] = replace(asked[COPY], verification=Verification(ABOVE, dict.fromkeys(FEATURES, 0.0)))
        if THING in asked:
            asked[THING] = replace(asked[THING], after_look=AfterLook({}, dict.fromkeys(APART, 1.0)))
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
    """Fit the weights by log-loss, every kind and within all of them copies and others weighing the same: layers over
    the pairs that can be laid over each other, a line for those that were looked at in vain, and one for those that
    were not looked at; and the thresholds that each rate allows among all candidates of a kind that are no copies, a
    mean over kinds.

    The layers are the mean of several, each fitted without some of the kinds. Their scale and offset, and the
    thresholds, come from the kinds that each has not seen: a fit is surer of its own kinds than of any other.
    """
    relevance, labels = (np.concatenate(parts) for parts in zip(*((s.relevance, s.copies) for s in sets), strict=True))
    weight, folds = even_kinds([one.copies for one in sets]), min(FOLDS, len(sets))
    seen = [evidence for one in sets for evidence in one.seen]
    looked, laid = (
        np.array(which, bool) for which in zip(*((s is not None, _is_overlaid(s)) for s in seen), strict=True)
    )
    x = np.zeros((len(seen), len(FEATURES)))
    x[looked] = feature_rows(relevance[looked], [evidence for one in sets for evidence in one.evidence])
    apart = _fit_apart(sets)
    vain = looked & ~laid
    known = x[vain][:, [list(FEATURES).index(name) for name in IN_VAIN]]
    in_vain: dict[str, float] = dict(
        zip(IN_VAIN, fit_logistic(known, labels[vain], weight[vain]).tolist(), strict=True)
    )

    kind = np.repeat(np.arange(len(sets)), [len(one.seen) for one in sets])
    fold = kind % folds
    layers, unseen = [], np.zeros(len(seen))
    for left_out in range(folds):
        taught = laid & ((fold != left_out) | (folds == 1))
        even = even_kinds([labels[taught & (kind == one)] for one in range(len(sets))])
        layers.append(fit_layers(x[taught], labels[taught], even, seed=left_out))
        unseen[fold == left_out] = layers[-1](x[fold == left_out])
    line = np.stack([np.ones(laid.sum()), unseen[laid]], 1)
    offset, scale = fit_logistic(line, labels[laid], weight[laid])
    fitted = [one.verification(above, in_vain, apart, scale, offset) for one in layers]
    others = [_judge_registered(fitted[place % folds], one) for place, one in enumerate(sets)]
    mean = mean_of(layers).verification(above, in_vain, apart, scale, offset)
    return replace(mean, thresholds=_find_thresholds(others, [int((~one.copies).sum()) for one in sets]))


def in_collection(examined: Examined, pairs: Pairs, verification: Verification) -> tuple[Pairs, np.ndarray]:
    """The pairs of a kind with those that tell which of them can both be right (`open_pairs`), and the scores (P,) that
    they have together, 0 for two that cannot be laid over each other.
    """
    values = pairs.judge_pairs(verification)
    more = open_pairs(pairs.found, values, min(verification.thresholds.values(), default=1.0))
    if len(more):
        pairs = _join_pairs(pairs, _look_at_pairs(examined, more, verification.above))
        values = pairs.judge_pairs(verification)
    values = Transitivity(pairs.pictures, pairs.found, values).make_consistent(pairs.found, values, UNSURE)
    return pairs, np.where([_is_overlaid(evidence) for evidence in pairs.seen], values, 0.0)


def _join_pairs(pairs: Pairs, more: Pairs) -> Pairs:
    return replace(
        pairs,
        found=np.concatenate([pairs.found, more.found]),
        relevance=np.concatenate([pairs.relevance, more.relevance]),
        seen=[*pairs.seen, *more.seen],
        copies=np.concatenate([pairs.copies, more.copies]),
        missed=pairs.missed - int(more.copies.sum()),
    )


def collection_thresholds(sets: Sequence[tuple[Pairs, np.ndarray]], least: float) -> dict[str, float]:
    """The thresholds that each rate allows among all candidates of a kind that are no copies, a mean over kinds, of the
    scores that they have `in_collection`; none is lower than `least`.
    """
    others = [values[~pairs.copies] for pairs, values in sets]
    found = _find_thresholds(others, [len(values) for values in others])
    return {rate: max(bar, least) for rate, bar in found.items()}


def _fit_apart(sets: Sequence[Pairs]) -> dict[str, float]:
    """The weights `UNSEEN` of the candidates that were not looked at."""
    odds = log_odds(np.concatenate([one.relevance[~one.has_look] for one in sets]))
    labels = np.concatenate([one.copies[~one.has_look] for one in sets])
    weight = even_kinds([one.copies for one in sets])[~np.concatenate([one.has_look for one in sets])]
    return _fit_weights(UNSEEN, np.stack([np.ones(len(odds)), odds], 1), labels, weight)


def _is_overlaid(evidence: Evidence | None) -> bool:
    return evidence is not None and evidence.is_registered


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


def _judge_registered(verification: Verification, pairs: Pairs) -> np.ndarray:
    """Judge the pairs that are no copies and could be overlaid.

    Return their probabilities as they are shown.
    """
    registered = np.array([_is_overlaid(evidence) for evidence in pairs.seen], bool)
    return pairs.judge_pairs(verification)[registered & ~pairs.copies]


def fit_after_look(questions: Mapping[str, Question], sets: Sequence[Answers], above: float = ABOVE_THING) -> AfterLook:
    """The calibration of *thing* by a closer look at possible copies, of a relevance `above`: fitted by log-loss, every
    kind and within all of them matches and others weighing the same, with the thresholds that each rate allows among
    what does not match, a mean over kinds.

    A kind of which all pairs match, or none does, counts for nothing. Raises ValueError where no kind is left.
    """
    sets = [answers for answers in sets if answers.labels.any() and not answers.labels.all()]
    logits, labels = (np.concatenate(parts) for parts in zip(*((one.logits, one.labels) for one in sets), strict=True))
    seen = [evidence for answers in sets for evidence in answers.seen]
    weight = weights_of_parts([answers.labels for answers in sets])
    own = logits[:, list(questions).index(THING)]
    relevance = questions[COPY].relevance(logits[:, list(questions).index(COPY)])
    after = AfterLook({}, dict.fromkeys(APART, 0.0), above=above)
    worth, looked, laid = pairs_with_look(questions, logits, seen, after)
    apart = ~worth | (looked & ~laid)  # all others but those that did not get the look that they deserve
    over = feature_rows(
        relevance[laid], [one for one, which in zip(seen, laid, strict=True) if one is not None and which]
    )
    beside = after.apart_summands(own, relevance, looked)
    after = replace(
        after,
        looked=_overlap_weights(over, labels[laid], weight[laid]),
        apart=_fit_weights(APART, beside[apart], labels[apart], weight[apart]),
    )
    asked = dict(questions) | {THING: replace(questions[THING], after_look=after)}
    shown = [question_probabilities(asked, one.logits, one.seen)[THING][~one.labels] for one in sets]
    return replace(after, thresholds=_find_thresholds(shown, [len(one) for one in shown]))


def _overlap_weights(x: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """The weights `OVERLAP` of a logistic regression on `FEATURES` x (P, F); 0 where there are no pairs."""
    if not len(x):
        return dict.fromkeys(OVERLAP, 0.0)
    known = x[:, [list(FEATURES).index(name) for name in OVERLAP]]
    mean, spread = known.mean(0), known.std(0)
    mean[0], spread[spread < _CONSTANT] = 0.0, 1.0  # the bias is its own
    fitted = fit_logistic((known - mean) / spread, labels, weight, OVERLAP_PENALTY) / spread
    fitted[0] -= fitted @ mean
    return dict(zip(OVERLAP, fitted.tolist(), strict=True))


def _fit_weights(names: Sequence[str], x: np.ndarray, labels: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Fit the named weights of a logistic regression on x (P, F).

    All but the bias are no less than 0: what would speak against matches is left out.
    """
    kept = list(range(len(names)))
    while True:
        fitted = dict(zip(kept, fit_logistic(x[:, kept], labels, weight).tolist(), strict=True))
        against = [place for place in kept if names[place] != "bias" and fitted[place] < 0]
        if not against:
            return {name: fitted.get(place, 0.0) for place, name in enumerate(names)}
        kept.remove(min(against, key=lambda place: fitted[place]))


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
