"""The training run, on one page: draw, encode once, mine, relate in chunks, learn; validate, keep the best, resume."""

import hashlib
import json
import math
import pickle
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
from torch.utils.tensorboard import SummaryWriter

from diptych.console import Console, counted
from diptych.signals import deferred
from diptych_model import load_checkpoint, save_checkpoint
from diptych_model.checkpoint import read_description
from diptych_runtime.atomic import replacing, write_atomic
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.thresholds import NEGATIVES, Negatives
from diptych_runtime.manifest import Question
from diptych_training.data.archives import Archives
from diptych_training.device import environment
from diptych_training.errors import DataError
from diptych_training.learning.batch import draw_step
from diptych_training.learning.distributed import Processes
from diptych_training.learning.fitting.calibration import (
    FALSE_POSITIVE_RATES,
    fit_calibration,
    fit_cohort,
    fit_thresholds,
    weights_of_parts,
)
from diptych_training.learning.fitting.negatives import NEAREST
from diptych_training.learning.fitting.tempering import temper
from diptych_training.learning.pretrained import PICTURES, initial_network
from diptych_training.learning.retention import PHOTOS, remember
from diptych_training.learning.trainer import Learner
from diptych_training.metrics import Ranking
from diptych_training.recipe import IMAGENET, Recipe, Stage, read_recipe
from diptych_training.run_folder import RECIPE, locked, require_begun
from diptych_training.tasks import OpenTask, Source
from diptych_training.tasks.hard_negatives import embed, fill_bank
from diptych_training.tasks.validation import ValidationSet, drawn_at_random, look, rank, validate
from diptych_training.threads import torch_threads

LARGEST = 224  # the side that photos are kept in: the archives' own are hardly larger
# One in a hundred of a query's hundred nearest is a false copy for every query: no threshold to throw pictures away by.
COPY_RATES = FALSE_POSITIVE_RATES[1:]
CROPS = 0.6  # of a query's sides, in which it is looked for as a copy: docs/studies/2026-11-accuracy.md
_FIGURES = {"map": "mAP", "micro_ap": "micro-AP"}  # as people write them
METRICS, EVENTS = "metrics.jsonl", "tensorboard"
STATE, ENVIRONMENT, BEST, LAST = "state.pt", "environment.json", "best", "last"


def train(
    recipe: Recipe, directory: Path, *, data: Path | None = None, resume: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Train a pair network and its embedding together; return the validation of the best checkpoint.

    `directory` receives the resolved recipe, metrics, the best and the last checkpoint (averaged weights) and the
    state from which `resume` goes on to the same numbers. `data` holds the archives, if a task needs them (default:
    DIPTYCH_DATA). The device is CUDA where there is one; started by `torchrun`, all processes share the work.
    """
    require_begun(directory / STATE, resume)
    with torch_threads(recipe.threads):
        return _trained(recipe, directory, data=data, resume=resume, quiet=quiet)


def _trained(recipe: Recipe, directory: Path, *, data: Path | None, resume: bool, quiet: bool) -> dict[str, Any]:
    torch.manual_seed(recipe.seed)
    processes = Processes()
    run = Run(recipe, directory, processes)
    if resume:
        _require_same(recipe, directory / RECIPE)
        run.restore()
    spans = [(stage, end) for stage, end in recipe.stage_ends() if run.learner.step < end or end == recipe.steps]
    # What is missing is missed before anything is written.
    run.open(spans[0][0], data)
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory) if processes.first else nullcontext():
        if processes.first and not resume:
            (directory / RECIPE).write_text(tomli_w.dumps(recipe.to_dict()))
            (directory / ENVIRONMENT).write_text(json.dumps(environment(), indent=2) + "\n")
        journal = MetricsLog(
            directory, step=run.learner.step, steps=recipe.steps, quiet=quiet, silent=not processes.first
        )
        try:
            if resume:
                journal.say(f"going on after step {run.learner.step} of {recipe.steps}")
            elif processes.first:
                run.introduce(spans[0][0], journal)
            run.run_stages(spans, journal, data)
        except KeyboardInterrupt:
            journal.say(f"stopped after step {run.learner.step}; {run.kept()}")
            raise
        finally:
            journal.say(run.account())
            journal.close()
            processes.end()
    return read_description(directory / BEST)["metadata"]["metrics"]


class MetricsLog:
    """`metrics.jsonl` and TensorBoard's events in the directory of a run; nothing at all where `silent`.

    On resuming, what was noted of steps after `step` is dropped: they will be made again.
    """

    def __init__(self, directory: Path, *, step: int, steps: int, quiet: bool, silent: bool = False) -> None:
        self.path = directory / METRICS
        self._console, self._events = Console(quiet=quiet or silent), None
        self.bar = self._console.progress(total=steps, initial=step, unit="step")
        if silent:
            return
        if self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            # A line that a crash cut short is of a step that will be made again.
            kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
            write_atomic(self.path, "".join(kept).encode())
        self._events = SummaryWriter(str(directory / EVENTS), purge_step=step + 1, flush_secs=30)

    def note(self, step: int, values: Mapping[str, Any], *, beneath: str = "") -> None:
        """Note numbers of a step, in one group of that name if there is one."""
        if self._events is None:
            return
        written = {"step": step} | ({beneath: dict(values)} if beneath else dict(values))
        with self.path.open("a") as file:
            file.write(json.dumps(written) + "\n")
        for name, value in values.items():
            self._events.add_scalar(f"{beneath or 'training'}/{name}", value, step)

    def advance(self, shown: Mapping[str, str]) -> None:
        """One step further on the terminal."""
        self.bar.describe(", ".join(f"{name} {value}" for name, value in shown.items()))
        self.bar.update()

    def say(self, line: str) -> None:
        """A line above the progress."""
        self._console.remark(line)

    def close(self) -> None:
        """Finish the writes in progress."""
        self.bar.close()
        if self._events is not None:
            self._events.close()


class Run:
    """A run's learner, its tasks and its kept files: the state, the last checkpoint and the best so far."""

    def __init__(self, recipe: Recipe, directory: Path, processes: Processes) -> None:
        self.recipe, self.directory, self.learner = (
            recipe,
            directory,
            Learner(recipe, initial_network(recipe), processes),
        )
        self.best, self.pairs = -math.inf, 0
        self.seconds: dict[str, float] = defaultdict(float)
        self._neighbours: list[np.ndarray | None] = [None] * len(recipe.tasks)
        self._pictures, self._pixels = "", 0
        self._saved = 0
        self.bank = torch.empty(0)
        self.tasks: list[OpenTask] = []
        self.validations: list[ValidationSet] = []

    def introduce(self, stage: Stage, journal: MetricsLog) -> None:
        """Tell the pictures of each task, and the figures of the network that the run begins with."""
        for settings, task, exam in zip(self.recipe.tasks, self.tasks, self.validations, strict=True):
            pictures, asked = counted(len(task.names), "picture"), counted(len(exam.queries), "query", "queries")
            figure = _FIGURES.get(exam.headline, exam.headline)
            journal.say(f"{settings.kind}: {pictures}, judged by {figure} of {asked} held out")
        if self.recipe.start not in ("", IMAGENET):
            journal.say(f"{self.recipe.start}, with which it begins: {_said(self.measured(stage))}")

    def run_stages(self, spans: list[tuple[Stage, int]], journal: MetricsLog, data: Path | None) -> None:
        """Take all steps of the stages, each with the step at which it ends."""
        recipe, learner, first = self.recipe, self.learner, self.learner.processes.first
        for stage, end in spans:
            self.open(stage, data)
            while learner.step < end:
                if learner.step % recipe.mine_every == 0:
                    self.mine(stage)
                with deferred() as waiting:
                    self.advance(stage, journal)
                    validated = learner.step % recipe.validate_every == 0 or learner.step == recipe.steps
                    if waiting and not validated and first:
                        self.save()
                if validated and first:
                    measured = self.validate(stage)
                    journal.note(learner.step, measured, beneath="validation")
                    journal.say(f"step {learner.step}: {_said(measured)}")
                if (validated or learner.step % recipe.checkpoint_every == 0) and first:
                    self.save()
                learner.processes.wait()
        if first:
            journal.say(f"{self.directory / BEST} gets its calibration and thresholds, from all pictures held out ...")
            temper_checkpoint(self.directory / BEST, self.validations, learner.device)
            # Every picture there is: among few the nearest are not near, and thresholds found there are too low.
            both = zip(self.tasks, recipe.tasks, strict=True)
            asked = [task for task, settings in both if settings.calibrated] or self.tasks
            calibrate(self.directory / BEST, [task.validation(whole=True) for task in asked], learner.device)
        learner.processes.wait()

    def open(self, stage: Stage, data: Path | None) -> None:
        """Load every task's pictures for a stage, unless they are there in its size; a little larger than its panels,
        so that a crop has pixels left.
        """
        if stage.pixels == self._pixels:
            return
        self.tasks, self.validations = [], []  # two sizes at once would not fit the memory
        pixels = self.learner.drawn_pixels(stage)
        archives = Archives(min(round(pixels * 1.375), LARGEST), data)
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
            self.learner.begin(torch.from_numpy(archives.sample(PICTURES)), stage.pixels)
        if self.recipe.learning.retain:
            sampled = torch.from_numpy(archives.sample(PHOTOS))
            if not len(sampled):
                raise DataError("learning.retain compares photos of archives, and no task reads one: set it to 0")
            self.learner.memory = remember(self.learner.network, sampled, stage.pixels)
        if self.recipe.network.bank:
            # Where no archive is read, as with pictures of one's own alone, the bank stays that of the start.
            self.bank = torch.from_numpy(archives.sample(self.recipe.network.bank))
            if not len(self.bank) and not self.learner.network.panel.embedding.bank.any():
                raise DataError(
                    f"a bank of {self.recipe.network.bank} pictures needs a task with archives, or the bank of another "
                    "network: name one with such a bank as start, or set network.bank=0"
                )
        self.validations = [task.validation() for task in tasks] if self.learner.processes.first else []

    def mine(self, stage: Stage) -> None:
        """Let every task look for its hard negatives under the averaged network, and embed the bank anew."""
        began, mixed = time.perf_counter(), self.recipe.learning.bfloat16
        for task in self.tasks:
            task.mine(lambda photos: embed(self.learner.average, photos, stage.pixels, mixed=mixed).cpu().numpy())
            if task.neighbours is not None:
                task.neighbours = self.learner.processes.as_first(task.neighbours)
        self._neighbours = [task.neighbours for task in self.tasks]
        for network in (self.learner.network, self.learner.average):
            fill_bank(network, self.bank, stage.pixels)
        self.seconds["mine"] += time.perf_counter() - began

    def advance(self, stage: Stage, journal: MetricsLog) -> None:
        """Take one step and note it."""
        learner, began = self.learner, time.perf_counter()
        drawn = draw_step(self.tasks, learner.step, seed=self.recipe.seed, fill=stage.fill, device=learner.device)
        ready = time.perf_counter()
        try:
            losses = learner.learn(drawn, stage)
        except DataError as error:
            raise DataError(f"{error}; {self.kept()}") from None
        seconds = time.perf_counter() - began
        self.seconds["draw"] += ready - began
        pairs = len(drawn.match) * (1 + stage.negatives) if stage.relate else 0
        self.pairs += pairs
        journal.note(learner.step, {"rate": learner.rate, "seconds": seconds, "pairs": pairs} | losses)
        shown = {name: f"{losses[name]:.3f}" for name in ("pair", "embedding") if name in losses}
        unit, count = ("pairs/s", pairs) if pairs else ("pictures/s", len(drawn.pictures))
        journal.advance(shown | {unit: f"{count / seconds:.0f}"})

    def measured(self, stage: Stage) -> dict[str, float]:
        """The validation of the averaged network: figures of each task, and the `score` by which the best is chosen."""
        began, measured, weighed = time.perf_counter(), {}, 0.0
        fill_bank(self.learner.average, self.bank, stage.pixels)
        for settings, validation in zip(self.recipe.tasks, self.validations, strict=True):
            first, after = (ranking.summary() for ranking in validate(self.learner.average, validation, stage.pixels))
            measured |= {f"{settings.kind}_{name}": value for name, value in first.items()}
            measured |= {f"{settings.kind}_reranked_{name}": value for name, value in after.items()}
            weighed += settings.weight * after[validation.headline]
        measured["score"] = weighed / sum(settings.weight for settings in self.recipe.tasks)
        self.seconds["validate"] += time.perf_counter() - began
        return measured

    def validate(self, stage: Stage) -> dict[str, float]:
        """Measure the averaged network, and keep it if it is the best so far."""
        measured = self.measured(stage)
        # A smaller panel is another, easier-going yardstick: only the recipe's own size competes for the best.
        if stage.pixels == self.recipe.network.pixels and measured["score"] > self.best:
            self.best = measured["score"]
            save_checkpoint(self.learner.average, self.directory / BEST, self._metadata(measured))
        return measured

    def save(self) -> None:
        """Write the state to resume from, whole or not at all, and the averaged weights beside it."""
        neighbours = [None if found is None else torch.from_numpy(found) for found in self._neighbours]
        save_checkpoint(self.learner.average, self.directory / LAST, self._metadata({}))
        state = self.learner.state() | {"best": self.best, "neighbours": neighbours, "pictures": self._pictures}
        with replacing(self.directory / STATE) as stream:
            torch.save(state, stream)
        self._saved = self.learner.step

    def kept(self) -> str:
        """The text that says from where a run that ended early can go on."""
        if not (self.directory / STATE).exists():
            return "nothing was saved yet"
        return f"the state of step {self._saved} is kept in {self.directory}, and --resume goes on from there"

    def restore(self) -> None:
        """Go on from the last saved state."""
        path = self.directory / STATE
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except (RuntimeError, pickle.UnpicklingError, EOFError) as error:
            raise DataError(
                f"{path} is damaged ({str(error).split('. ')[0]}): begin a new run in another directory, with "
                f"start = '{self.directory / LAST}' to go on from its last weights"
            ) from None
        self.learner.restore(state)
        self._saved = self.learner.step
        self.best, self._pictures = state["best"], state["pictures"]
        self._neighbours = [None if found is None else found.numpy() for found in state["neighbours"]]

    def account(self) -> str:
        """Say how fast it went, and where the time went."""
        seconds = dict(self.seconds) | dict(self.learner.seconds)
        total = sum(seconds.values()) or 1.0
        longest = sorted(seconds.items(), key=lambda item: -item[1])
        parts = ", ".join(f"{part} {value / total:.0%}" for part, value in longest) or "no step was left to take"
        return f"{self.pairs:,} pairs in {total:.0f} s, {self.pairs / total:,.0f} a second ({parts})"

    def _metadata(self, measured: dict[str, float]) -> dict[str, Any]:
        recipe = self.recipe
        return {"name": recipe.name, "step": self.learner.step, "metrics": measured, "recipe": recipe.to_dict()}


def _said(measured: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in measured.items())


def temper_checkpoint(checkpoint: Path, validations: list[ValidationSet], device: torch.device) -> None:
    """`temper` a checkpoint's network and write it back, once; `tempered` of its metadata says by how much."""
    network, metadata = load_checkpoint(checkpoint)
    if "tempered" in metadata:  # by a run that was stopped after it, and went on
        return
    metadata["tempered"] = temper(network.to(device), validations, network.config.pixels)
    save_checkpoint(network, checkpoint, metadata)


def calibrate(checkpoint: Path, validations: list[ValidationSet], device: torch.device) -> None:
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
        looked = look(network, validation, network.config.pixels)
        for question, sat in rankings.items():
            if question != COPY or validation.question == COPY or not some_copies:
                asked = replace(validation, question=question)
                sat.append(rank(network, asked, looked, candidates=100)[1])
                drawn, near = drawn_at_random(asked, NEAREST), rank(network, asked, looked, candidates=NEAREST)[1]
                others[question].append({"random": rank(network, drawn, looked)[1], "nearest": near})
    metadata["questions"] = {}
    for question, sat in rankings.items():
        search = {"crops": CROPS} | fit_cohort(sat) if question == COPY else {}
        searched = replace(Question(), **search)
        parts = [ranking.relevant.ravel() for ranking in sat]
        logits = np.concatenate([searched.normalized(ranking.scores).ravel() for ranking in sat])
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
        found.scores - (ranking.scores - question.normalized(ranking.scores))[:, :1]
        for ranking, found in zip(sat, others, strict=True)
    ]
    probabilities = question.relevance(np.concatenate([scores.ravel() for scores in held]))
    return fit_thresholds(probabilities, np.concatenate([found.relevant.ravel() for found in others]))


def _require_same(recipe: Recipe, path: Path) -> None:
    """Refuse to go on with another recipe than the run began with: its numbers would belong to neither.

    How much is related at a time, and how often the state is saved, are no part of the numbers.
    """
    begun = read_recipe(path)
    free = {"threads": begun.threads, "checkpoint_every": begun.checkpoint_every}
    asked = replace(recipe, learning=replace(recipe.learning, chunk=begun.learning.chunk), **free)
    changed = [name for name, value in asked.to_dict().items() if begun.to_dict()[name] != value]
    if changed:
        raise DataError(
            f"{path.parent} was begun with another recipe (another {', '.join(changed)}); resume with {path}, or begin "
            f"a new run in another directory, with start = '{path.parent / LAST}' if it is to go on from there"
        )
