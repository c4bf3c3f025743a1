"""The run of fine-tuning: look once, choose by cross-validation, fit to all labels, and say what it is worth."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_count
from diptych_model import load_checkpoint, save_checkpoint
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.folds import group_by_picture
from diptych_runtime.calibration.recalibration import fit_line, log_odds
from diptych_runtime.judgement import needs_closer_look, question_probabilities
from diptych_runtime.manifest import Question
from diptych_runtime.models import find_checkpoint, full_name
from diptych_runtime.own_calibration import OwnQuestion
from diptych_runtime.paths import shell_word
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.fine_tuning.adapter import Adapter, Fitting, Labelled, Link
from diptych_training.fine_tuning.measured import measure_models, measured_text
from diptych_training.fine_tuning.table import Labels, Table, read_labels
from diptych_training.looks import Looks, spread_looks
from diptych_training.recipe import RunRecipe
from diptych_training.run import BEST, METRICS, Run
from diptych_training.tasks.labelled import read_panels

FEWEST, FEWEST_OF_A_KIND = 20, 5  # labels of a question
# Weaker ones learn by heart what labelled pairs have in common: cross-validation takes that for a gain where most pairs
# share pictures, and on pairs of other pictures the log-loss of *thing* rose from 0.18 to 0.45.
STRENGTHS = (1000.0, 300.0, 100.0)


@dataclass(frozen=True, kw_only=True)
class FineTuning(RunRecipe):
    """The resolved recipe of fine-tuning.

    `strengths` are how firmly logits may be held to those of the model it starts from, of which cross-validation over
    `folds` chooses; that model itself is always one of the choices. `background` pairs without a label, drawn from the
    same pictures, are held besides.
    """

    labels: Labels
    name: str = "labels"
    start: str = "photo"
    seed: int = 1
    folds: int = 5
    background: int = 500
    strengths: tuple[float, ...] = field(default=STRENGTHS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folds < 2 or self.background < 1:
            raise ValueError(
                f"fine-tuning needs folds of 2 at least, and background of 1, got {self.folds} and {self.background}"
            )
        if not self.strengths or min(self.strengths) <= 0:
            raise ValueError(f"strengths must be numbers above 0, got {list(self.strengths)}")


recipe_from = FineTuning.from_dict


class LabelsRun(Run):
    """The run of fine-tuning: the labels, the released model, and the same network in torch."""

    recipe: FineTuning

    def begin(self) -> None:
        """Open the released model and the labels. Raises `DataError` for a start without weights."""
        start, threads = self.recipe.start, self.recipe.threads
        self.runtime = Runtime.open(start, provider="cpu", threads=threads).with_calibration(None)
        self.released = self.runtime.released.questions
        try:
            network = load_checkpoint(find_checkpoint(start))[0]
        except (OSError, ValueError) as error:
            raise DataError(
                f"start = {start!r} must be a released model or an artifact that has its weights with it "
                f"(`diptych export --weights`): {error}"
            ) from None
        self.adapter = Adapter(network)
        self.table = read_labels(self.recipe.labels, self.runtime.questions, self.runtime.name)
        if self.table.left_out:
            left_out = format_count(self.table.left_out, "row")
            self.console.remark(f"left out, as they name no file or cannot tell: {left_out}")

    def learn(self, resume: bool) -> dict[str, Any]:
        """Fit every question that has labels enough, measure it on pairs held out, and write the checkpoint."""
        began = time.monotonic()
        try:
            found = self._fit_and_save()
        except ValueError as error:
            raise DataError(f"{self.recipe.labels.table}: {error}") from None
        except KeyboardInterrupt:
            self.console.remark(f"stopped; what was seen is kept in {self.directory}, and --resume goes on from there")
            raise
        found["seconds"] = time.monotonic() - began
        (self.directory / METRICS).write_text(json.dumps(found, indent=2) + "\n")
        return found

    def _compute_features(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The features of the labelled pairs and of the background (P, F), and the released logits (P, Q)."""
        paths, sides, parts = self.table.paths, self.table.sides, []
        with self.console.progress(total=len(paths), unit="picture", desc="reading") as bar:
            for start in range(0, len(paths), 64):
                batch = paths[start : start + 64]
                parts.append(self.runtime.encode(read_panels(batch, self.runtime.panel_size)).tokens)
                bar.update(len(batch))
        tokens, parts = np.concatenate(parts), []
        rng = np.random.default_rng(self.recipe.seed)
        drawn = rng.integers(0, len(paths), (self.recipe.background, 2))
        pairs = np.concatenate([sides, drawn[drawn[:, 0] != drawn[:, 1]]])
        with self.console.progress(total=len(pairs), unit="pair", desc="relating") as bar:
            for start in range(0, len(pairs), 48):
                a, b = pairs[start : start + 48].T
                parts.append(self.adapter.compute_features(tokens[a], tokens[b]))
                bar.update(len(a))
        made = np.concatenate(parts)
        features = made[: len(sides)]
        return features, made[len(sides) :], self.adapter.logits(features, self.adapter.weights())

    def _take_looks(self, *logits: np.ndarray) -> list[Evidence | None]:
        """The evidence of closer looks at the labelled pairs that deserve one by any of some logits (P, Q)."""
        worth = np.logical_or.reduce([needs_closer_look(self.released, one) for one in logits])
        cache = Looks(list(map(str, self.table.paths)), Path(), self.directory)
        with self.console.progress(total=int(worth.sum()), unit="pair", desc="looking closer") as bar:
            return spread_looks(worth, cache.look_at_pairs(self.table.sides[worth], self.recipe.threads, bar.update))

    def _fit_and_save(self) -> dict[str, Any]:
        recipe, adapter, table = self.recipe, self.adapter, self.table
        asked = _choose_questions(table, self.runtime.questions)
        features, background, before = self._compute_features()
        groups = group_by_picture(table.sides)
        weights, after, strengths = adapter.weights(), before.copy(), dict[str, float | None]()
        chosen = {name: np.array([one == name for one in table.questions]) for name in asked}
        with self.console.progress(total=len(asked) * recipe.folds, unit="fold", desc="fitting") as bar:
            for name in asked:
                of, link = chosen[name], Link.from_question(self.released[name])
                labelled = Labelled(name, features[of], table.same[of], groups[of]).renumber_groups()
                fitting = Fitting(adapter, weights, link, background, recipe.folds)
                after[of] = fitting.cross_validate(labelled, recipe.strengths, bar.update)
                strengths[name] = fitting.choose_strength(labelled, recipe.strengths)
                weights = fitting.fit_weights(labelled, strengths[name])
        seen = self._take_looks(before, after)
        questions, results = dict(self.released), dict[str, Any]()
        for name in asked:
            of = chosen[name]
            looked, groups = list(compress(seen, of)), group_by_picture(table.sides[of])
            judged = _Judged(questions, name, looked, table.same[of], groups % recipe.folds)
            released = judged.compute_probabilities(before[of], self.released)
            line, calibrated = judged.recalibrate_logits(before[of])
            tuned = calibrated
            if strengths[name] is not None:
                line, tuned = judged.recalibrate_logits(after[of])
            questions[name] = line.apply_to(questions[name])
            models = {"released": released, "calibrated": calibrated, "fine-tuned": tuned}
            measured = measure_models(judged.same, groups, questions[name].effective_thresholds, models)
            results[name] = measured | {"strength": strengths[name]}
        adapter.set_weights(weights)
        metadata = {
            "name": recipe.name,
            "panel_of": full_name(recipe.start),
            "recipe": recipe.to_dict(),
            "metrics": {"labels": {name: one["pairs"] for name, one in results.items()}},
            "questions": {name: asdict(question) for name, question in questions.items()},
        }
        save_checkpoint(adapter.network, self.directory / BEST, metadata)
        return {"questions": results, "text": measured_text(results)}


def train(recipe: FineTuning, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Fine-tune on labels; return the figures on pairs held out, by question.

    `directory` receives what every run leaves, what closer looks saw, and the checkpoint `best`. Raises `DataError`.
    """
    return LabelsRun(recipe, directory, quiet=quiet).carry_out(resume=resume)


def report(found: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """The result of a run as JSON and as text."""
    best, figures = directory / BEST, dict(found)
    text = (
        f"{figures.pop('text')}\ncheckpoint: {best}, in {found['seconds']:.0f} s\n"
        f"next: diptych models use {shell_word(directory)} --store STORE"
    )
    return {"checkpoint": str(best), **figures}, text


@dataclass(frozen=True)
class _Judged:
    """Labelled pairs of one question with the evidence of closer looks, for probabilities as they are shown."""

    questions: Mapping[str, Question]
    name: str
    seen: list[Evidence | None]
    same: np.ndarray
    folds: np.ndarray

    def compute_probabilities(self, logits: np.ndarray, questions: Mapping[str, Question] | None = None) -> np.ndarray:
        """Probabilities float64 (P,) of logits (P, Q)."""
        return question_probabilities(questions or self.questions, logits, self.seen)[self.name]

    def recalibrate_logits(self, logits: np.ndarray) -> tuple[OwnQuestion, np.ndarray]:
        """Fit a line through the log-odds for all labels, and cross-validate it.

        Return the line, and the probabilities (P,) by lines that saw none of a pair's fold.
        """
        known = self.compute_probabilities(logits)
        found = known.copy()
        for fold in np.unique(self.folds):
            out = self.folds == fold
            if out.all():
                continue
            laid = dict(self.questions) | {self.name: self._fit_line(known, ~out).apply_to(self.questions[self.name])}
            found[out] = self.compute_probabilities(logits, laid)[out]
        return self._fit_line(known, np.ones(len(known), bool)), found

    def _fit_line(self, known: np.ndarray, chosen: np.ndarray) -> OwnQuestion:
        line, same = fit_line(log_odds(known[chosen]), self.same[chosen]), self.same[chosen]
        stated = dict(self.questions[self.name].effective_thresholds)
        return OwnQuestion(line.scale, line.offset, stated, same=int(same.sum()), different=int((~same).sum()))


def _choose_questions(table: Table, questions: tuple[str, ...]) -> list[str]:
    """Choose the questions that have labels enough, in the network's order.

    Raises `DataError` where none has.
    """
    answers = Counter(zip(table.questions, table.same.tolist(), strict=True))
    counts = {name: (answers[name, True], answers[name, False]) for name in questions}
    found = [name for name, both in counts.items() if sum(both) >= FEWEST and min(both) >= FEWEST_OF_A_KIND]
    if not found:
        told = "; ".join(f"{name!r} has {same} same and {other} different" for name, (same, other) in counts.items())
        raise DataError(
            f"fine-tuning needs at least {FEWEST} answers to a question and {FEWEST_OF_A_KIND} each of same and "
            f"different: {told}. Label more with `diptych label`"
        )
    return found
