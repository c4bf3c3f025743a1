"""A calibration of one's own from labelled pairs: fitted, cross-validated, and what more labels would be worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from diptych.collection.collection import Collection
from diptych.errors import LabellingError, NotBetterError, UnknownPictureError
from diptych.labelling.table import LabelledRow
from diptych.scoring.scorer import Scorer
from diptych.store.records import Answer
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.folds import together
from diptych_runtime.calibration.questions import answered
from diptych_runtime.calibration.recalibration import Line, fit_line, log_loss, log_odds
from diptych_runtime.calibration.reliability import Reliability, reliability
from diptych_runtime.calibration.verdicts import Verdict, least_of
from diptych_runtime.decoder import PictureSource
from diptych_runtime.judgement import deserving, probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.own_calibration import OwnCalibration, OwnQuestion, released_digest

FEWEST, FEWEST_OF_A_KIND = 20, 5  # labels of a question
FOLDS = 10
BINS = 10
_WIDE = 1.96  # standard deviations, either way, of an interval of 95 %


@dataclass(frozen=True)
class LabelledPair:
    """An answer about two pictures, each named by a key: an id or a path."""

    a: Hashable
    b: Hashable
    question: str
    answer: Answer


@dataclass(frozen=True)
class Observed:
    """Labelled pairs (P,) as a model sees them: `logits` (P, Q), the evidence `seen` by closer looks, and the `sides`
    int64 (P, 2), places of the pictures.
    """

    pairs: Sequence[LabelledPair]
    logits: np.ndarray
    seen: Sequence[Evidence | None]
    sides: np.ndarray


@dataclass(frozen=True)
class Level:
    """The least probability of a verdict. It is reached from the `released` probability on, by the labels within
    `interval` (95 %), and with twice as many labels like these within about `doubled`; `more` labels halve it.
    """

    level: float
    released: float
    interval: tuple[float, float]
    doubled: tuple[float, float]
    more: int


@dataclass(frozen=True)
class FittedQuestion:
    """The fit of one question: `before` are the released probabilities (P,) of the labelled pairs, `after` those of
    fits that did not see the pair or another one with its pictures; `gain` is by how much the log-loss of a pair falls,
    with its interval of 95 %.
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
        return reliability(self.before, self.labels, bins=BINS)

    @property
    def reliability_after(self) -> Reliability:
        """The reliability of the recalibrated probabilities, by cross-validation."""
        return reliability(self.after, self.labels, bins=BINS)


@dataclass(frozen=True)
class Fitted:
    """A calibration, the fit of each question that has labels enough, why others have none, and how many labels say
    *cannot tell*. A question whose fit is no better than the release is in the calibration only if that was forced.
    """

    calibration: OwnCalibration
    questions: dict[str, FittedQuestion]
    left_out: dict[str, str]
    cannot_tell: int


def observe_pairs(
    scorer: Scorer, pairs: Sequence[LabelledPair], source: Callable[[Hashable], PictureSource]
) -> Observed:
    """Look at pairs of pictures that lie at the `source` of their keys.

    Raises PictureError for one that cannot be read.
    """
    keys, sides = _index_pairs(pairs)
    sources = list(map(source, keys))
    tokens = scorer.panels(sources).tokens
    return _observe_tokens(scorer, pairs, sides, tokens, sources.__getitem__)


def observe_stored(collection: Collection, pairs: Sequence[LabelledPair]) -> Observed:
    """Look at pairs of stored pictures by their ids; pairs of others are left out."""
    there = collection.panels(sorted({str(id) for pair in pairs for id in (pair.a, pair.b)}))
    pairs = [pair for pair in pairs if pair.a in there and pair.b in there]
    keys, sides = _index_pairs(pairs)
    shape = collection.scorer.runtime.token_shape
    tokens = np.stack([there[str(key)][0] for key in keys]) if keys else np.empty((0, *shape), np.float16)

    def open_original(place: int) -> PictureSource | None:
        try:
            return collection.content(str(keys[place]))[0]
        except UnknownPictureError:
            return None

    return _observe_tokens(collection.scorer, pairs, sides, tokens, open_original)


def calibrate_collection(collection: Collection, *, model: str | None = None, force: bool = False) -> Fitted:
    """Fit a calibration to the labels of a collection, over its scorer's model, which is opened as `model`, by default
    by its name.

    >>> calibrate_collection(collection).calibration.save(collection.directory / "calibration.json")

    Raises LabellingError, NotBetterError as `fit_calibration` does, and StoreError for a collection that is not in a
    folder.
    """
    pairs = [LabelledPair(one.a, one.b, one.question, one.answer) for one in collection.labels()]
    return fit_calibration(collection.scorer, observe_stored(collection, pairs), model=model, force=force)


def calibrate_files(
    scorer: Scorer, rows: Iterable[LabelledRow], *, model: str | None = None, force: bool = False
) -> Fitted:
    """Fit a calibration to the rows of a table, whose pictures are read from their paths; `calibrate_collection`
    besides.

    Raises LabellingError, also for a row without paths, and PictureError for the first picture that cannot be read.
    """
    pairs = []
    for row in rows:
        if not (row.path_a and row.path_b):
            raise LabellingError(
                f"row {row.number} names no files; import the table into the collection of its pictures with "
                "`diptych label --import`, and calibrate with --store"
            )
        pairs.append(LabelledPair(row.path_a, row.path_b, row.question, row.answer))
    return fit_calibration(scorer, observe_pairs(scorer, pairs, str), model=model, force=force)


def fit_calibration(scorer: Scorer, observed: Observed, *, model: str | None = None, force: bool = False) -> Fitted:
    """Fit a calibration of the questions that have labels enough, over the released one.

    The scorer's model is opened as `model`, by default by its name.

    Raises LabellingError where no question has `FEWEST` answers *same* or *different*, `FEWEST_OF_A_KIND` of each, or
    where the answers contradict the scores; and NotBetterError where the labels show of no question that its fit is
    better than the release. With `force` all fits are taken; else only those that are better.
    """
    released = scorer.runtime.released
    asked = [answered(pair.question, released.questions, released.name) for pair in observed.pairs]
    questions, fits, left_out = dict(released.questions), {}, {}
    taken: dict[str, OwnQuestion] = {}
    for name in questions:
        of = [
            place for place, pair in enumerate(observed.pairs) if asked[place] == name and pair.answer != "cannot tell"
        ]
        labels = np.array([observed.pairs[place].answer == "same" for place in of], bool)
        if (reason := _explain_missing(labels)) is not None:
            left_out[name] = reason
            continue
        logits, seen = observed.logits[of], [observed.seen[place] for place in of]
        try:
            fits[name] = _fit_question(questions, name, logits, seen, labels, together(observed.sides[of]))
        except ValueError as error:
            raise LabellingError(f"no calibration of {name!r} can be made: {error}") from None
        if force or fits[name].is_better:
            questions[name] = fits[name].own.over(questions[name])
            taken[name] = fits[name].own
    if not fits:
        raise LabellingError(
            "there are too few labels for a calibration: "
            + "; ".join(f"{name!r} {reason}" for name, reason in left_out.items())
            + ". Label more with `diptych label`"
        )
    made = OwnCalibration(
        model=model or released.name,
        revision=released.revision,
        released=released_digest(released),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        questions=taken,
    )
    fitted = Fitted(made, fits, left_out, sum(pair.answer == "cannot tell" for pair in observed.pairs))
    if not taken:
        raise NotBetterError(
            "the labels do not show that a calibration is better than the one that the model has; label more pairs "
            "with `diptych label`, or take it nevertheless with --force (force=True in Python)",
            fitted=fitted,
        )
    return fitted


def _explain_missing(labels: np.ndarray) -> str | None:
    """Say how many labels are missing; None if there are enough."""
    same, different = int(labels.sum()), int((~labels).sum())
    if same + different >= FEWEST and min(same, different) >= FEWEST_OF_A_KIND:
        return None
    return (
        f"needs at least {FEWEST} answers and {FEWEST_OF_A_KIND} each of same and different, "
        f"and has {same} same and {different} different"
    )


def _fit_question(
    questions: Mapping[str, Question],
    name: str,
    logits: np.ndarray,
    seen: Sequence[Evidence | None],
    labels: np.ndarray,
    groups: np.ndarray,
) -> FittedQuestion:
    released = questions[name]
    before = probabilities(questions, logits, seen)[name]
    line = fit_line(log_odds(before), labels)
    after = np.empty(len(labels))
    for fold in range(FOLDS):
        held = groups % FOLDS == fold
        if held.any():
            others = fit_line(log_odds(before[~held]), labels[~held])
            laid = dict(questions) | {name: _make_own_question(others, released, labels).over(released)}
            evidence = [one for one, chosen in zip(seen, held, strict=True) if chosen]
            after[held] = probabilities(laid, logits[held], evidence)[name]
    gains = log_loss(before, labels) - log_loss(after, labels)
    levels: dict[Verdict, Level] = {
        verdict: _make_level(line, level, len(labels)) for verdict, level in least_of(released.stated).items()
    }
    return FittedQuestion(
        _make_own_question(line, released, labels), labels, before, after, _mean_interval(gains, groups), levels
    )


def _make_own_question(line: Line, released: Question, labels: np.ndarray) -> OwnQuestion:
    return OwnQuestion(
        line.scale, line.offset, dict(released.stated), same=int(labels.sum()), different=int((~labels).sum())
    )


def _make_level(line: Line, level: float, labels: int) -> Level:
    more = math.ceil((line.factor_to_halve(level) - 1) * labels)
    return Level(level, line.released(level), line.interval(level), line.interval(level, 2.0), more)


def _mean_interval(values: np.ndarray, groups: np.ndarray) -> tuple[float, float, float]:
    """The mean of values (P,) and its interval of 95 %, over groups."""
    mean = float(values.mean())
    wide = _WIDE * math.sqrt(float(np.square(np.bincount(groups, values - mean)).sum())) / len(values)
    return mean, mean - wide, mean + wide


def _index_pairs(pairs: Sequence[LabelledPair]) -> tuple[list[Hashable], np.ndarray]:
    """Index pairs: their distinct keys, and the pairs int64 (P, 2) as places among them."""
    keys = list(dict.fromkeys(key for pair in pairs for key in (pair.a, pair.b)))
    place = {key: number for number, key in enumerate(keys)}
    return keys, np.array([(place[pair.a], place[pair.b]) for pair in pairs], np.int64).reshape(-1, 2)


def _observe_tokens(
    scorer: Scorer,
    pairs: Sequence[LabelledPair],
    sides: np.ndarray,
    tokens: np.ndarray,
    original: Callable[[int], PictureSource | None],
) -> Observed:
    released = scorer.calibrated(None)
    logits = released.all_logits(tokens[sides[:, 0]], tokens[sides[:, 1]])
    worth = deserving(released.runtime.manifest.questions, logits)
    return Observed(pairs, logits, released.look_closer(sides, worth, original), sides)
