"""A calibration of one's own from labelled pairs: fitted and cross-validated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from diptych.collection.collection import Collection
from diptych.errors import LabellingError, NotBetterError, UnknownPictureError
from diptych.labelling.table import LabelledRow
from diptych.scoring.scorer import Scorer
from diptych.store.records import Label
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.folds import group_by_picture
from diptych_runtime.calibration.questions import resolve_question
from diptych_runtime.calibration.recalibration import Line, fit_line, log_loss, log_odds
from diptych_runtime.calibration.reliability import Reliability, measure_reliability
from diptych_runtime.calibration.verdicts import Verdict, verdict_thresholds
from diptych_runtime.decoder import PictureSource
from diptych_runtime.judgement import needs_closer_look, question_probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.own_calibration import OwnCalibration, OwnQuestion, released_digest

FEWEST, FEWEST_OF_A_KIND = 20, 5  # labels of a question
FOLDS = 10
BINS = 10
_WIDE = 1.96  # standard deviations, either way, of an interval of 95 %


@dataclass(frozen=True)
class Observed:
    """Labelled pairs (P,) as a model sees them: the `labels`, `logits` (P, Q), the evidence `seen` by closer looks, and
    the `sides` int64 (P, 2), places of the pictures.
    """

    labels: Sequence[Label | LabelledRow]
    logits: np.ndarray
    seen: Sequence[Evidence | None]
    sides: np.ndarray


@dataclass(frozen=True)
class Level:
    """The least probability of a verdict, and the `released` probability that reaches it, with its interval of 95 %."""

    level: float
    released: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class FittedQuestion:
    """The fit of one question to labelled pairs (P,).

    `before` are their released probabilities, `after` those of fits that did not see their pictures; `gain` is by how
    much the log-loss of a pair falls, with its interval of 95 %.
    """

    own: OwnQuestion
    labels: np.ndarray
    before: np.ndarray
    after: np.ndarray
    gain: tuple[float, float, float]
    levels: dict[Verdict, Level]

    @property
    def is_better(self) -> bool:
        """True if the labels show that the fit is better than the release: all of the interval of its gain is."""
        return self.gain[1] > 0

    @property
    def reliability_before(self) -> Reliability:
        """The reliability of the released probabilities."""
        return measure_reliability(self.before, self.labels, bins=BINS)

    @property
    def reliability_after(self) -> Reliability:
        """The reliability of the recalibrated probabilities, by cross-validation."""
        return measure_reliability(self.after, self.labels, bins=BINS)


@dataclass(frozen=True)
class Fitted:
    """A calibration, the fit of each question that has labels enough, why others have none, and unsure labels.

    A question whose fit is no better than the release is in the calibration only if that was forced.
    """

    calibration: OwnCalibration
    questions: dict[str, FittedQuestion]
    left_out: dict[str, str]
    cannot_tell: int


def observe_pairs(scorer: Scorer, rows: Sequence[LabelledRow]) -> Observed:
    """Look at the pairs of picture files that rows name. Raises PictureError."""
    paths, sides = _index_pairs([(row.path_a, row.path_b) for row in rows])
    return _observe_tokens(scorer, rows, sides, scorer.panels(paths).tokens, paths.__getitem__)


def observe_stored(collection: Collection, labels: Sequence[Label]) -> Observed:
    """Look at labelled pairs of stored pictures; pairs of others are left out."""
    there = collection.panels(sorted({id for label in labels for id in label.pair}))
    labels = [label for label in labels if label.a in there and label.b in there]
    ids, sides = _index_pairs([(label.a, label.b) for label in labels])
    shape = collection.scorer.runtime.token_shape
    tokens = np.stack([there[id][0] for id in ids]) if ids else np.empty((0, *shape), np.float16)

    def open_original(place: int) -> PictureSource | None:
        try:
            return collection.content(ids[place])[0]
        except UnknownPictureError:
            return None

    return _observe_tokens(collection.scorer, labels, sides, tokens, open_original)


def calibrate_collection(collection: Collection, *, model: str | None = None, force: bool = False) -> Fitted:
    """Fit a calibration to the labels of a collection, as `fit_calibration` does.

    >>> calibrate_collection(collection).calibration.save(collection.directory / "calibration.json")
    """
    observed = observe_stored(collection, collection.labels())
    return fit_calibration(collection.scorer, observed, model=model, force=force)


def calibrate_files(
    scorer: Scorer, rows: Sequence[LabelledRow], *, model: str | None = None, force: bool = False
) -> Fitted:
    """Fit a calibration to the rows of a table by their paths. Raises LabellingError and PictureError."""
    for row in rows:
        if not (row.path_a and row.path_b):
            raise LabellingError(f"row {row.number} names no files; import the table with `diptych label --import`")
    return fit_calibration(scorer, observe_pairs(scorer, rows), model=model, force=force)


def fit_calibration(scorer: Scorer, observed: Observed, *, model: str | None = None, force: bool = False) -> Fitted:
    """Fit a calibration of the questions that have labels enough, over the released one.

    The scorer's model is opened as `model`, by default by its name. Raises LabellingError for too few labels, or such
    that contradict the scores, and NotBetterError where no fit is better than the release. With `force` all are taken.
    """
    released = scorer.runtime.released
    asked = [resolve_question(label.question, released.questions, released.name) for label in observed.labels]
    answers = [label.answer for label in observed.labels]
    questions, fits, left_out = dict(released.questions), {}, {}
    taken: dict[str, OwnQuestion] = {}
    for name in questions:
        of = [place for place, one in enumerate(answers) if asked[place] == name and one != "cannot tell"]
        labels = np.array([answers[place] == "same" for place in of], bool)
        if (reason := _explain_missing(labels)) is not None:
            left_out[name] = reason
            continue
        logits, seen = observed.logits[of], [observed.seen[place] for place in of]
        try:
            fits[name] = _fit_question(questions, name, logits, seen, labels, group_by_picture(observed.sides[of]))
        except ValueError as error:
            raise LabellingError(f"no calibration of {name!r} can be made: {error}") from None
        if force or fits[name].is_better:
            questions[name] = fits[name].own.apply_to(questions[name])
            taken[name] = fits[name].own
    if not fits:
        reasons = "; ".join(f"{name!r} {reason}" for name, reason in left_out.items())
        raise LabellingError(f"there are too few labels for a calibration: {reasons}. Label more (`diptych serve`)")
    made = OwnCalibration(
        model=model or released.name,
        revision=released.revision,
        released=released_digest(released),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        questions=taken,
    )
    fitted = Fitted(made, fits, left_out, answers.count("cannot tell"))
    if not taken:
        told = "the labels do not show that a calibration is better than the one that the model has; label more"
        raise NotBetterError(f"{told}, or take it nevertheless with --force (force=True in Python)", fitted=fitted)
    return fitted


def _explain_missing(labels: np.ndarray) -> str | None:
    """Say how many labels are missing; None if there are enough."""
    same, different = int(labels.sum()), int((~labels).sum())
    if same + different >= FEWEST and min(same, different) >= FEWEST_OF_A_KIND:
        return None
    needs = f"needs at least {FEWEST} answers and {FEWEST_OF_A_KIND} each of same and different"
    return f"{needs}, and has {same} same and {different} different"


def _fit_question(
    questions: Mapping[str, Question],
    name: str,
    logits: np.ndarray,
    seen: Sequence[Evidence | None],
    labels: np.ndarray,
    groups: np.ndarray,
) -> FittedQuestion:
    released = questions[name]
    before = question_probabilities(questions, logits, seen)[name]
    line = fit_line(log_odds(before), labels)
    after = np.empty(len(labels))
    for fold in range(FOLDS):
        held = groups % FOLDS == fold
        if held.any():
            others = fit_line(log_odds(before[~held]), labels[~held])
            laid = dict(questions) | {name: _make_own_question(others, released, labels).apply_to(released)}
            evidence = [one for one, chosen in zip(seen, held, strict=True) if chosen]
            after[held] = question_probabilities(laid, logits[held], evidence)[name]
    gains = log_loss(before, labels) - log_loss(after, labels)
    levels: dict[Verdict, Level] = {
        verdict: Level(level, line.released_level(level), line.released_interval(level))
        for verdict, level in verdict_thresholds(released.effective_thresholds).items()
    }
    return FittedQuestion(
        _make_own_question(line, released, labels), labels, before, after, _mean_interval(gains, groups), levels
    )


def _make_own_question(line: Line, released: Question, labels: np.ndarray) -> OwnQuestion:
    same, thresholds = int(labels.sum()), dict(released.effective_thresholds)
    return OwnQuestion(line.scale, line.offset, thresholds, same=same, different=len(labels) - same)


def _mean_interval(values: np.ndarray, groups: np.ndarray) -> tuple[float, float, float]:
    """The mean of values (P,) and its interval of 95 %, over groups."""
    mean = float(values.mean())
    wide = _WIDE * math.sqrt(float(np.square(np.bincount(groups, values - mean)).sum())) / len(values)
    return mean, mean - wide, mean + wide


def _index_pairs(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], np.ndarray]:
    """Index pairs: their distinct pictures, and the pairs int64 (P, 2) as places among them."""
    pictures = list(dict.fromkeys(one for pair in pairs for one in pair))
    place = {one: number for number, one in enumerate(pictures)}
    return pictures, np.array([(place[a], place[b]) for a, b in pairs], np.int64).reshape(-1, 2)


def _observe_tokens(
    scorer: Scorer,
    labels: Sequence[Label | LabelledRow],
    sides: np.ndarray,
    tokens: np.ndarray,
    original: Callable[[int], PictureSource | None],
) -> Observed:
    released = scorer.with_calibration(None)
    logits = released.all_logits(tokens[sides[:, 0]], tokens[sides[:, 1]])
    worth = needs_closer_look(released.runtime.manifest.questions, logits)
    return Observed(labels, logits, released.look_closer(sides, worth, original), sides)
