"""The run of a pair network: draw, encode once, mine, relate in chunks, learn; validate, and keep the best."""

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diptych.console import format_count
from diptych_model import load_checkpoint, save_checkpoint
from diptych_model.checkpoint import read_description
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.thresholds import NEGATIVES, Negatives
from diptych_runtime.manifest import Question
from diptych_runtime.paths import shell_word
from diptych_training.data.archives import Archives
from diptych_training.errors import DataError
from diptych_training.learning.batch import draw_step
from diptych_training.learning.calibration import (
    FALSE_POSITIVE_RATES,
    NEAREST,
    fit_calibration,
    fit_cohort,
    fit_thresholds,
    weights_of_parts,
)
from diptych_training.learning.distributed import Processes
from diptych_training.learning.pretrained import PICTURES, initial_network
from diptych_training.learning.retention import PHOTOS, remember_photos
from diptych_training.learning.tempering import temper_network
from diptych_training.learning.trainer import Learner
from diptych_training.metrics import Ranking
from diptych_training.recipe import IMAGENET, Recipe, Stage, recipe_from
from diptych_training.run import BEST, LAST, STATE, MetricsLog, Run
from diptych_training.tasks import OpenTask, Source
from diptych_training.tasks.hard_negatives import embed_photos, fill_bank
from diptych_training.tasks.validation import ValidationSet, drawn_at_random, encode_validation, rank_encoded, validate

__all__ = ["LAST", "recipe_from", "report", "train"]

LARGEST = 224  # the side that photos are kept in: the archives' own are hardly larger
# One in a hundred of a query's hundred nearest is a false copy for every query: no threshold to throw pictures away by.
COPY_RATES = FALSE_POSITIVE_RATES[1:]
CROPS = 0.6  # of a query's sides, in which it is looked for as a copy: docs/studies/2026-11-accuracy.md
_FIGURES = {"map": "mAP", "micro_ap": "micro-AP"}  # as people write them


def train(
    recipe: Recipe, directory: Path, *, data: Path | None = None, resume: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Train a pair network and its embedding together; return the validation of the best checkpoint.

    `directory` receives the resolved recipe, metrics, the best and the last checkpoint (averaged weights) and the
    state from which `resume` goes on to the same numbers. `data` holds the archives, if a task needs them (default:
    DIPTYCH_DATA). The device is CUDA where there is one; started by `torchrun`, all processes share the work.
    """
    return PairRun(recipe, directory, data=data, quiet=quiet).carry_out(resume=resume)


def report(found: Mapping[str, Any], directory: Path) -> tuple[dict[str, Any], str]:
    """The result of a run as JSON and as text."""
    best = directory / BEST
    text = f"best checkpoint: {best}\nnext: diptych export {shell_word(best)} -o artifact"
    return {"checkpoint": str(best), "metrics": found}, text


class PairRun(Run):
    """A run's learner, its tasks and its kept files: the state, the last checkpoint and the best so far."""

    marker = STATE
    learner: Learner
    stage: Stage

    def __init__(self, recipe: Recipe, directory: Path, *, data: Path | None = None, quiet: bool = False) -> None:
        super().__init__(recipe, directory, quiet=quiet)
        self.recipe, self.data, self.save_every = recipe, data, recipe.checkpoint_every
        self.best = -math.inf
        self._neighbours: list[np.ndarray | None] = [None] * len(recipe.tasks)
        self._pictures, self._pixels = "", 0
        self.bank = torch.empty(0)
        self.tasks: list[OpenTask] = []
        self.validations: list[ValidationSet] = []

    def begin(self) -> None:
        """Make the network, on this process among those of the run."""
        processes = Processes()
        self.stack.callback(processes.end)
        self.first = processes.first
        self.learner = self.optimisation = Learner(self.recipe, initial_network(self.recipe), processes)

    def load(self) -> None:
        """Open the tasks of the stage that the next step belongs to; after the last step those of the last stage."""
        ends = self.recipe.stage_ends()
        self.stage = next((stage for stage, end in ends if self.learner.step < end), ends[-1][0])
        self._open_stage(self.stage)

    def introduce(self, journal: MetricsLog) -> None:
        """Tell the pictures of each task, and the figures of the network that the run begins with."""
        for settings, task, exam in zip(self.recipe.tasks, self.tasks, self.validations, strict=True):
            pictures, asked = (
                format_count(len(task.names), "picture"),
                format_count(len(exam.queries), "query", "queries"),
            )
            figure = _FIGURES.get(exam.headline, exam.headline)
            journal.say(f"{settings.kind}: {pictures}, judged by {figure} of {asked} held out")
        if self.recipe.start not in ("", IMAGENET):
            journal.say(f"{self.recipe.start}, with which it begins: {_list_figures(self._measure_tasks())}")

    def before_step(self) -> None:
        """Open the next stage where one has ended, and mine as often as the recipe says."""
        self.load()
        if self.learner.step % self.recipe.mine_every == 0:
            self._mine_negatives()

    def take_step(self, journal: MetricsLog) -> None:
        """Take one step and note it."""
        learner, stage, began = self.learner, self.stage, time.perf_counter()
        drawn = draw_step(self.tasks, learner.step, seed=self.recipe.seed, fill=stage.fill, device=learner.device)
        losses = learner.learn(drawn, stage)
        seconds = time.perf_counter() - began
        pairs = len(drawn.match) * (1 + stage.negatives) if stage.relate else 0
        journal.note_values(learner.step, {"rate": learner.rate, "seconds": seconds, "pairs": pairs} | losses)
        shown = {name: f"{losses[name]:.3f}" for name in ("pair", "embedding") if name in losses}
        unit, count = ("pairs/s", pairs) if pairs else ("pictures/s", len(drawn.pictures))
        journal.advance(shown | {unit: f"{count / seconds:.0f}"})

    def is_examined(self) -> bool:
        """True after every so many steps, and after the last."""
        step = self.learner.step
        return step % self.recipe.validate_every == 0 or step == self.recipe.steps

    def examine(self, journal: MetricsLog) -> None:
        """Measure the averaged network, and keep it if it is the best so far."""
        measured = self._measure_tasks()
        # A smaller panel is another, easier-going yardstick: only the recipe's own size competes for the best.
        if self.stage.pixels == self.recipe.network.pixels and measured["score"] > self.best:
            self.best = measured["score"]
            save_checkpoint(self.learner.average, self.directory / BEST, self._make_metadata(measured))
        journal.note_values(self.learner.step, measured, beneath="validation")
        journal.say(f"step {self.learner.step}: {_list_figures(measured)}")

    def wait(self) -> None:
        """Wait for the other processes of the run."""
        self.learner.processes.wait()

    def finish(self, journal: MetricsLog, seconds: float) -> dict[str, Any]:
        """Give the best checkpoint its calibration and thresholds; return its validation."""
        best = self.directory / BEST
        if self.first:
            journal.say(f"{best} gets its calibration and thresholds, from all pictures held out ...")
            temper_checkpoint(best, self.validations, self.learner.device)
            # Every picture there is: among few the nearest are not near, and thresholds found there are too low.
            both = zip(self.tasks, self.recipe.tasks, strict=True)
            asked = [task for task, settings in both if settings.calibrated] or self.tasks
            calibrate_checkpoint(best, [task.validation(whole=True) for task in asked], self.learner.device)
        self.wait()
        return read_description(best)["metadata"]["metrics"]

    def save(self) -> None:
        """Write the state to resume from, and the averaged weights beside it."""
        save_checkpoint(self.learner.average, self.directory / LAST, self._make_metadata({}))
        super().save()

    def state(self) -> dict[str, Any]:
        """What `restore` needs beside the optimisation."""
        neighbours = [None if found is None else torch.from_numpy(found) for found in self._neighbours]
        kept = {"before": self.learner.before, "best": self.best, "neighbours": neighbours}
        return kept | {"pictures": self._pictures}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        device = self.learner.device
        self.learner.before = [(logits.to(device), matched.to(device)) for logits, matched in state.get("before", [])]
        self.best, self._pictures = state["best"], state["pictures"]
        self._neighbours = [None if found is None else found.numpy() for found in state["neighbours"]]

    def _mine_negatives(self) -> None:
        """Let every task look for its hard negatives under the averaged network, and embed the bank anew."""
        mixed, pixels = self.recipe.learning.bfloat16, self.stage.pixels
        for task in self.tasks:
            task.mine_negatives(
                lambda photos: embed_photos(self.learner.average, photos, pixels, mixed=mixed).cpu().numpy()
            )
            if task.neighbours is not None:
                task.neighbours = self.learner.processes.as_first(task.neighbours)
        self._neighbours = [task.neighbours for task in self.tasks]
        for network in (self.learner.network, self.learner.average):
            fill_bank(network, self.bank, pixels)

    def _measure_tasks(self) -> dict[str, float]:
        """The validation of the averaged network: figures of each task, and the `score` by which the best is chosen."""
        measured, weighed = {}, 0.0
        network, pixels = self.learner.average, self.stage.pixels
        fill_bank(network, self.bank, pixels)
        for settings, validation in zip(self.recipe.tasks, self.validations, strict=True):
            first, after = (ranking.summary() for ranking in validate(network, validation, pixels))
            measured |= {f"{settings.kind}_{name}": value for name, value in first.items()}
            measured |= {f"{settings.kind}_reranked_{name}": value for name, value in after.items()}
            weighed += settings.weight * after[validation.headline]
        measured["score"] = weighed / sum(settings.weight for settings in self.recipe.tasks)
        return measured

    def _open_stage(self, stage: Stage) -> None:
        """Load every task's pictures for a stage, unless they are there in its size; a little larger than its panels,
        so that a crop has pixels left.
        """
        if stage.pixels == self._pixels:
            return
        self.tasks, self.validations = [], []  # two sizes at once would not fit the memory
        pixels = self.learner.drawn_pixels(stage)
        archives = Archives(min(round(pixels * 1.375), LARGEST), self.data)
        source = Source(archives, pixels, self.recipe.seed, self.learner.device)
        tasks = [settings.open(source) for settings in self.recipe.tasks]
        for task, neighbours in zip(tasks, self._neighbours, strict=True):
            task.neighbours = neighbours
        pictures = hashlib.sha256("\n".join(name for task in tasks for name in task.names).encode()).hexdigest()
        if self._pictures not in ("", pictures):
            raise DataError(
                f"the pictures are not those that {self.directory} was begun with: bring them back, or begin a new run "
                f"in another directory, with start = '{self.directory / LAST}' if it is to go on from there"
            )
        self._pictures, self._pixels, self.tasks = pictures, stage.pixels, tasks
        if self.recipe.start == IMAGENET and self.learner.step == 0:
            self.learner.begin(torch.from_numpy(archives.sample_pictures(PICTURES)), stage.pixels)
        if self.recipe.learning.retain:
            sampled = torch.from_numpy(archives.sample_pictures(PHOTOS))
            if not len(sampled):
                raise DataError("learning.retain compares photos of archives, and no task reads one: set it to 0")
            self.learner.memory = remember_photos(self.learner.network, sampled, stage.pixels)
        if self.recipe.network.bank:
            # Where no archive is read, as with pictures of one's own alone, the bank stays that of the start.
            self.bank = torch.from_numpy(archives.sample_pictures(self.recipe.network.bank))
            if not len(self.bank) and not self.learner.network.panel.embedding.bank.any():
                raise DataError(
                    f"a bank of {self.recipe.network.bank} pictures needs a task with archives, or the bank of another "
                    "network: name one with such a bank as start, or set network.bank=0"
                )
        self.validations = [task.validation() for task in tasks] if self.learner.processes.first else []

    def _make_metadata(self, measured: dict[str, float]) -> dict[str, Any]:
        recipe = self.recipe
        return {"name": recipe.name, "step": self.learner.step, "metrics": measured, "recipe": recipe.to_dict()}


def _list_figures(measured: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in measured.items())


def temper_checkpoint(checkpoint: Path, validations: list[ValidationSet], device: torch.device) -> None:
    """`temper_network` a checkpoint's network and write it back, once; `tempered` of its metadata says by how much."""
    network, metadata = load_checkpoint(checkpoint)
    if "tempered" in metadata:  # by a run that was stopped after it, and went on
        return
    metadata["tempered"] = temper_network(network.to(device), validations, network.config.pixels)
    save_checkpoint(network, checkpoint, metadata)


def calibrate_checkpoint(checkpoint: Path, validations: list[ValidationSet], device: torch.device) -> None:
    """Fit calibration and thresholds of every question on validation pairs and write them into the checkpoint's
    metadata, `questions`.

    The pairs are every query's with its 100 nearest candidates, of the tasks that are to be calibrated; each task
    weighs the same, and within it matches and others. `negatives` are thresholds for the ten nearest and for as many
    pairs drawn at random. To *copy* only the tasks of copies have matches, to *thing* all.
    Scores of *copy* are held against their rivals first, as much as serves them best (`fit_cohort`), and its queries
    are looked for in crops; of a thing any number may be in a list, and a part of it is often another thing.
    """
    network, metadata = load_checkpoint(checkpoint)
    network.to(device)
    rankings: dict[str, list[Ranking]] = {question: [] for question in network.config.questions}
    others: dict[str, list[dict[Negatives, Ranking]]] = {question: [] for question in network.config.questions}
    some_copies = any(validation.question == COPY for validation in validations)
    for validation in validations:
        looked = encode_validation(network, validation, network.config.pixels)
        for question, sat in rankings.items():
            if question != COPY or validation.question == COPY or not some_copies:
                asked = replace(validation, question=question)
                sat.append(rank_encoded(network, asked, looked, candidates=100)[1])
                drawn, near = (
                    drawn_at_random(asked, NEAREST),
                    rank_encoded(network, asked, looked, candidates=NEAREST)[1],
                )
                others[question].append({"random": rank_encoded(network, drawn, looked)[1], "nearest": near})
    metadata["questions"] = {}
    for question, sat in rankings.items():
        search = {"crops": CROPS} | fit_cohort(sat) if question == COPY else {}
        searched = replace(Question(), **search)
        parts = [ranking.relevant.ravel() for ranking in sat]
        logits = np.concatenate([searched.normalize_logits(ranking.scores).ravel() for ranking in sat])
        labels = np.concatenate(parts)
        try:
            fitted = fit_calibration(logits, labels, weights_of_parts(parts))
        except ValueError as error:
            # A network that has learnt nothing yet is still a checkpoint; it says itself that its scores are raw.
            metadata["uncalibrated"] = str(error)
            continue
        probabilities = 1 / (1 + np.exp(-(fitted["scale"] * logits + fitted["offset"])))
        rates = COPY_RATES if question == COPY else FALSE_POSITIVE_RATES
        thresholds = fit_thresholds(probabilities, labels, rates)
        asked = replace(searched, **fitted)
        negatives = {
            sort: _negative_thresholds(asked, sat, [one[sort] for one in others[question]]) for sort in NEGATIVES
        }
        metadata["questions"][question] = fitted | search | {"thresholds": thresholds, "negatives": negatives}
    save_checkpoint(network, checkpoint, metadata)


def _negative_thresholds(question: Question, sat: Sequence[Ranking], others: Sequence[Ranking]) -> dict[str, float]:
    """Thresholds for pairs of the same queries as in `sat`, whose rivals they are held against."""
    held = [
        found.scores - (ranking.scores - question.normalize_logits(ranking.scores))[:, :1]
        for ranking, found in zip(sat, others, strict=True)
    ]
    probabilities = question.relevance(np.concatenate([scores.ravel() for scores in held]))
    return fit_thresholds(probabilities, np.concatenate([found.relevant.ravel() for found in others]))
