"""A training run of any kind: its folder, its loop, and what it writes down.

A new network to train is a recipe, and a `Run` that brings its examples, its loss and its measure.
"""

import fcntl
import json
import os
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import tomli_w
import torch
from torch.utils.tensorboard import SummaryWriter

from diptych.console import Console
from diptych.signals import defer_signals
from diptych_runtime.atomic import write_atomic
from diptych_runtime.manifest import digest
from diptych_runtime.own_files import open_regular
from diptych_training.device import describe_environment, torch_threads
from diptych_training.errors import DataError
from diptych_training.recipe import RunRecipe

RECIPE, ENVIRONMENT, LOCK = "recipe.toml", "environment.json", "writer.lock"
NOTES, EVENTS, METRICS = "metrics.jsonl", "tensorboard", "metrics.json"
STATE, BEST, LAST = "state.pt", "best", "last"
# Settings that are no part of the numbers, and may be others when a run goes on.
FREE = (("threads",), ("checkpoint_every",), ("learning", "chunk"))


class Run:
    """One run of a recipe in a folder; a kind of network says the rest by what it overrides.

    `marker` is the file by which a run is known to have begun, and the state is saved every `save_every` steps.
    """

    marker, save_every, first = RECIPE, 100, True
    optimisation: Any  # an `Optimisation`

    def __init__(self, recipe: Any, directory: Path, *, quiet: bool = False) -> None:
        self.recipe, self.directory, self.console = recipe, directory, Console(quiet=quiet)
        self.stack = ExitStack()
        self.rng = np.random.default_rng(recipe.seed)
        self._saved = 0

    def begin(self) -> None:
        """Make the network and its optimisation; nothing has been written yet."""
        raise NotImplementedError

    def load(self) -> None:
        """Load what is learnt from, for the step that the run is at; nothing has been written yet."""

    def prepare(self) -> None:
        """Prepare what is learnt from in the folder of the run; what `stack` is given ends with the run."""

    def differentiate(self) -> dict[str, float]:
        """Draw the examples of a step, leave their gradients in the network, and return the losses."""
        raise NotImplementedError

    def measure(self) -> dict[str, Any]:
        """The figures of the network, once it has learnt."""
        raise NotImplementedError

    def write(self, figures: Mapping[str, Any]) -> Path:
        """Write the network into `best`; return the file of its weights."""
        raise NotImplementedError

    def before_step(self) -> None:
        """What comes before some steps, such as mining."""

    def take_step(self, journal: "MetricsLog") -> None:
        """Take one step and note it."""
        began, optimisation = time.perf_counter(), self.optimisation
        losses = optimisation.take_step(self.differentiate)
        seconds = time.perf_counter() - began
        journal.note_values(optimisation.step, {"rate": optimisation.rate, "seconds": seconds} | losses)
        journal.advance({name: f"{value:.3f}" for name, value in losses.items()})

    def is_examined(self) -> bool:
        """True after a step at which the network is measured on the way."""
        return False

    def examine(self, journal: "MetricsLog") -> None:
        """Measure the network on the way."""

    def wait(self) -> None:
        """Wait for the other processes of the run."""

    def state(self) -> dict[str, Any]:
        """What `restore` needs beside the optimisation."""
        return {"rng": json.dumps(self.rng.bit_generator.state)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self.rng.bit_generator.state = json.loads(state["rng"])

    def save(self) -> None:
        """Write the state to resume from, whole or not at all."""
        self.optimisation.save(self.directory / STATE, **self.state())
        self._saved = self.optimisation.step

    def finish(self, journal: "MetricsLog", seconds: float) -> dict[str, Any]:
        """Measure the network that has learnt, and write it with its figures."""
        self.optimisation.average.eval()
        curve = np.array_split(journal.read_notes("loss"), min(30, self.optimisation.step))
        figures = self.measure() | {
            "curve": [float(np.mean(part)) for part in curve],
            "seconds": round(seconds),
            "environment": describe_environment(),
        }
        figures["digest"] = digest(self.write(figures).read_bytes())
        write_atomic(self.directory / METRICS, (json.dumps(figures, indent=2) + "\n").encode())
        return figures

    def introduce(self, journal: "MetricsLog") -> None:
        """Tell what the run begins with."""

    def describe_state(self) -> str:
        """Say from where a run that ended early can go on."""
        if not (self.directory / STATE).exists():
            return "nothing was saved yet"
        return f"the state of step {self._saved} is kept in {self.directory}, and --resume goes on from there"

    def carry_out(self, *, resume: bool) -> dict[str, Any]:
        """Train from the first step, or from the last saved one, and return what is known in the end.

        Raises `DataError` where the folder has a run already, or is to go on and has none, or one of another recipe.
        """
        require_begun(self.directory / self.marker, resume)
        with self.stack, torch_threads(self.recipe.threads), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.recipe.seed)
            if resume:
                require_same(self.recipe, self.directory)
            self.begin()
            if resume and (self.directory / STATE).exists():
                advice = "begin a new run in another directory"
                if (self.directory / LAST).exists():
                    advice += f", with start = '{self.directory / LAST}' to go on from its last weights"
                self.restore(self.optimisation.restore(self.directory / STATE, advice))
                self._saved = self.optimisation.step
            self.load()
            with open_folder(self.recipe, self.directory, resume=resume) if self.first else nullcontext():
                return self.learn(resume)

    def learn(self, resume: bool) -> dict[str, Any]:
        """Take the steps that are left, and finish. By default they are those of the optimisation."""
        optimisation = self.optimisation
        began, steps = time.perf_counter(), optimisation.steps
        self.prepare()
        journal = MetricsLog(
            self.directory, step=optimisation.step, steps=steps, quiet=self.console.quiet, silent=not self.first
        )
        try:
            if resume:
                journal.say(f"going on after step {optimisation.step} of {steps}")
            elif self.first:
                self.introduce(journal)
            while optimisation.step < steps:
                self._advance_step(journal)
            return self.finish(journal, time.perf_counter() - began)
        except KeyboardInterrupt:
            journal.say(f"stopped after step {optimisation.step}; {self.describe_state()}")
            raise
        finally:
            journal.close()

    def _advance_step(self, journal: "MetricsLog") -> None:
        self.before_step()
        with defer_signals() as waiting:
            try:
                self.take_step(journal)
            except DataError as error:
                raise DataError(f"{error}; {self.describe_state()}") from None
            is_examined = self.is_examined()
            if waiting and not is_examined and self.first:
                self.save()
        if is_examined and self.first:
            self.examine(journal)
        if (is_examined or self.optimisation.step % self.save_every == 0) and self.first:
            self.save()
        self.wait()


class MetricsLog:
    """`metrics.jsonl` and TensorBoard's events in the directory of a run; nothing at all where `silent`.

    On resuming, what was noted of steps after `step` is dropped: they will be made again.
    """

    def __init__(self, directory: Path, *, step: int, steps: int, quiet: bool, silent: bool = False) -> None:
        self.path = directory / NOTES
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

    def note_values(self, step: int, values: Mapping[str, Any], *, beneath: str = "") -> None:
        """Note numbers of a step, in one group of that name if there is one."""
        if self._events is None:
            return
        written = {"step": step} | ({beneath: dict(values)} if beneath else dict(values))
        with open_end(self.path) as file:
            file.write(json.dumps(written) + "\n")
        for name, value in values.items():
            self._events.add_scalar(f"{beneath or 'training'}/{name}", value, step)

    def read_notes(self, name: str) -> list[float]:
        """Read the numbers of one name, in the order of the steps."""
        notes = [json.loads(line) for line in self.path.read_text().splitlines()]
        return [note[name] for note in notes if name in note]

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


def require_begun(file: Path, begun: bool) -> None:
    """Raise `DataError` where a run has the file by which it is known and is to be begun, or the other way round."""
    if file.exists() != begun:
        state = "has no run to resume" if begun else "has a run already: add --resume or name another"
        raise DataError(f"{file.parent} {state}")


def require_same(recipe: RunRecipe, directory: Path) -> None:
    """Raise `DataError` for another recipe than a run began with: its numbers would belong to neither."""
    path = directory / RECIPE
    begun, asked = recipe.from_dict(tomllib.loads(path.read_text())).to_dict(), recipe.to_dict()
    for *tables, name in FREE:
        for values in (begun, asked):
            for table in tables:
                values = values.get(table, {})
            values.pop(name, None)
    if changed := [name for name in asked if begun[name] != asked[name]]:
        last = directory / LAST
        raise DataError(
            f"{directory} was begun with another recipe (another {', '.join(changed)}); resume with {path}, or begin a "
            "new run in another directory" + (f", with start = '{last}' if it is to go on from there" * last.exists())
        )


@contextmanager
def open_folder(recipe: RunRecipe, directory: Path, *, resume: bool = False) -> Iterator[None]:
    """Keep other processes from training in the folder of a run, made if there is none, and write into a new one the
    resolved recipe and the environment. Raises `DataError` where another process trains there.
    """
    directory.mkdir(parents=True, exist_ok=True)
    if linked := [name for name in (EVENTS, BEST, LAST) if (directory / name).is_symlink()]:
        raise DataError(f"{directory / linked[0]} is a link, and a run writes nothing outside its folder; remove it")
    with open_end(directory / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another process is training in {directory}: wait for it or stop it, or name another directory"
            ) from None
        if not resume:
            write_atomic(directory / RECIPE, tomli_w.dumps(recipe.to_dict()).encode())
            write_atomic(directory / ENVIRONMENT, (json.dumps(describe_environment(), indent=2) + "\n").encode())
        yield


def open_end(path: Path) -> TextIO:
    """A file of a run, made if there is none, to be written at its end. Raises `DataError` for a link."""
    try:
        return os.fdopen(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a", encoding="utf-8")
    except OSError as error:
        raise DataError(f"{path} cannot be written: {error.strerror}; remove it") from None
