"""A table scored into a file by way of a folder of parts, so that whatever ends a run costs the parts in work alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Protocol

import numpy as np

from diptych.batch.assembly import Outcome, assemble, assembled
from diptych.batch.attempts import Attempts, Say
from diptych.batch.journal import Bar, Order, folder_of, opened, remove
from diptych.batch.manifest import NAMES, Manifest, Step
from diptych.batch.names import names_between
from diptych.batch.tables import SIDES, schema_of
from diptych.batch.work import Means, PartWork, Work, encode, let_go, score
from diptych.errors import BatchError

_TOLD = 2**30  # bytes of disk that are announced
_ROW = 48  # bytes that the results add to a row of the output, about


class Engine(Protocol):
    """Who does the parts: `Serial`, `Pool` or `Cluster`."""

    def run(self, work: Work, attempts: Attempts) -> Iterator[int]:
        """How many items each part had, as soon as it is done, in any order."""
        ...


class Serial:
    """Does the parts in this process, one after the other, each with all threads."""

    def run(self, work: Work, attempts: Attempts) -> Iterator[int]:
        """How many items each part had."""
        while attempts:
            yield work(attempts.take())

    def __enter__(self) -> Serial:
        return self

    def __exit__(self, *_: object) -> None:
        let_go()


@dataclass(frozen=True)
class Report:
    """How a run went: what is in the output, how much of that was done just now, and the seconds of each step."""

    outcome: Outcome
    scored: int
    encoded: int
    seconds: dict[str, float]


@dataclass
class Job:
    """`Job(Path("pairs.csv"), Path("out.csv"), "csv").run(Serial)`.

    `bar` is told of each step: its unit, of how many, of which so many are done; `say` what else there is to tell.
    """

    table: Path
    output: Path
    format: str
    means: Means = field(default_factory=Means)
    sides: tuple[str, str] = SIDES
    bar: Bar = lambda unit, count, done: nullcontext(lambda count: None)
    say: Say = lambda text: None

    def run(self, engine: AbstractContextManager[Engine], *, resume: bool = False, force: bool = False) -> Report:
        """Score the table, or with `resume` what a stopped run left of it; then the folder of parts goes.

        Raises BatchError if the output is there already and `force` is not given, if the disk does not suffice, if
        something is in the way, and what `opened` raises, all in words that say how to go on.
        """
        if resume and (outcome := assembled(self.output)):
            remove(folder_of(self.output))
            return Report(outcome, 0, 0, {})
        if self.output.exists() and not force:
            raise BatchError(f"{self.output} exists already; name another file, or replace it with --force")
        began = perf_counter()
        order = Order.of(self.table, self.means.model, self.sides)
        schema = schema_of(str(self.table), self.sides) if self.format == "parquet" else None
        with opened(order, self.output, resume=resume, force=force, bar=self.bar) as manifest, self._explained():
            seconds = {"reading": perf_counter() - began}
            self._check_room(manifest)
            with engine as workers:
                encoded, seconds["encoding"] = self._do(workers, manifest.encoding, encode)
                scored, seconds["scoring"] = self._do(workers, manifest.scoring, score)
            began = perf_counter()
            with self.bar("row", manifest.rows, 0) as tick:
                outcome = assemble(manifest, self.output, self.format, schema, tick)
            remove(folder_of(self.output))
            seconds["writing"] = perf_counter() - began
        return Report(outcome, scored, encoded, seconds)

    def _do(self, workers: Engine, step: Step, function: PartWork) -> tuple[int, float]:
        """Do the parts of a step that are not done: how many items they had, and the seconds it took."""
        folder, began = folder_of(self.output).absolute(), perf_counter()
        there = step.done(folder)
        left = [number for number in range(step.parts) if number not in there]
        if there:
            self.say(f"{step.items(there):,} of {step.count:,} {step.name} are done")
        count = 0
        if left:
            attempts = Attempts(left, partial(self._rows, step), self.say)
            with self.bar(step.name[:-1], step.count, step.items(there)) as tick:
                for done in workers.run(partial(function, folder=str(folder), means=self.means), attempts):
                    count += done
                    tick(done)
        return count, perf_counter() - began

    def _rows(self, step: Step, number: int) -> str:
        first, stop = step.bounds(number)
        text = f"the {step.name} {first + 1:,} to {stop:,}"
        if step.name == "pictures":
            path = folder_of(self.output) / NAMES
            one, other = (names_between(path, place, place + 1)[0] for place in (first, stop - 1))
            text += f" ({one} to {other})"
        return text

    def _check_room(self, manifest: Manifest) -> None:
        """Say how much disk it takes; raises BatchError if there is less."""
        folder = folder_of(self.output)
        pictures = manifest.pictures - manifest.encoding.items(manifest.encoding.done(folder))
        pairs = manifest.rows - manifest.scoring.items(manifest.scoring.done(folder))
        tokens = 2 * int(np.prod(manifest.token_shape))
        needed = pictures * tokens + pairs * 8 + self.table.stat().st_size + manifest.rows * _ROW
        free = shutil.disk_usage(folder).free
        if needed > free:
            raise BatchError(
                f"{folder} needs about {_size(needed)} of disk for the tokens of {pictures:,} pictures and the scores "
                f"of {pairs:,} pairs, and {_size(free)} are free; make room and go on with --resume, or name an output "
                "on another disk"
            )
        if needed >= _TOLD:
            self.say(f"{manifest.rows:,} pairs of {manifest.pictures:,} pictures take about {_size(needed)} of disk")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What the system refuses, as an error that says what to do."""
        try:
            yield
        except OSError as error:
            raise BatchError(
                f"{error.filename or folder_of(self.output)}: {error.strerror or error}; what is done is kept, so mend "
                "that and go on with the same command and --resume"
            ) from None


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.1f} MB"
