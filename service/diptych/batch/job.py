"""A table scored into a file by way of a folder of parts, so that whatever ends a run costs the parts in work alone."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from diptych.batch.parts.assemble import Outcome, assemble, assembled
from diptych.batch.parts.disk import check_room, explained
from diptych.batch.parts.folder import Bar, JobSpec, folder_of, opened, remove
from diptych.batch.parts.manifest import NAMES, Manifest, Step
from diptych.batch.parts.picture_names import describe
from diptych.batch.tables.read import SIDES, schema_of
from diptych.batch.workers.executor import Executor
from diptych.batch.workers.retries import RetryQueue, Say
from diptych.batch.workers.tasks import PartWork, WorkerConfig, encode, score
from diptych.console import byte_size
from diptych.errors import BatchError
from diptych_runtime.calibration.questions import THING

_TOLD = 2**30  # bytes of disk that are announced
_ROW = 48  # bytes that the results add to a row of the output, about


@dataclass(frozen=True)
class Report:
    """The report of a run: the counts of the output, how much of it was done just now, and seconds of each step."""

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
    means: WorkerConfig = field(default_factory=WorkerConfig)
    sides: tuple[str, str] = SIDES
    question: str = THING
    closer_look: bool = True
    bar: Bar = lambda unit, count, done: nullcontext(lambda count: None)
    say: Say = lambda text: None

    def run(self, engine: AbstractContextManager[Executor], *, resume: bool = False, force: bool = False) -> Report:
        """Score the table, or with `resume` the rest that a stopped run left of it; then the folder of parts goes.

        With `resume`, an output that this very job has completed is left as it is: the report has no seconds.
        Raises BatchError if the output is there already and `force` is not given, if the disk does not suffice, if
        something is in the way, and what `opened` raises, all in words that say how to go on.
        """
        there = self.output.exists()
        if there and not resume and not force:
            raise BatchError(f"{self.output} exists already; name another file, or replace it with --force")
        began = perf_counter()
        order = JobSpec.of(self.table, self.means.model, self.sides, self.question, closer_look=self.closer_look)
        if there and resume and not force:
            outcome = assembled(self.output, order, self.format)
            if outcome is None:
                raise BatchError(
                    f"{self.output} exists already; --resume does not know it as this job's, so name another file, or "
                    "replace it with --force"
                )
            remove(folder_of(self.output))
            return Report(outcome, 0, 0, {})
        schema = schema_of(str(self.table), self.sides) if self.format == "parquet" else None
        with (
            explained(folder_of(self.output), "go on with the same command and --resume"),
            opened(order, self.output, resume=resume, force=force, bar=self.bar) as manifest,
        ):
            seconds = {"reading": perf_counter() - began}
            self._check_room(manifest)
            self._say_done(manifest)
            with engine as workers:
                encoded, seconds["encoding"] = self._do(workers, manifest.encoding, encode)
                scored, seconds["scoring"] = self._do(workers, manifest.scoring, score)
            began = perf_counter()
            with self.bar("row", manifest.rows, 0) as tick:
                outcome = assemble(manifest, self.output, self.format, schema, tick)
            remove(folder_of(self.output))
            seconds["writing"] = perf_counter() - began
        return Report(outcome, scored, encoded, seconds)

    def _do(self, workers: Executor, step: Step, function: PartWork) -> tuple[int, float]:
        """Do the parts of a step that are not done: how many items they had, and the seconds it took."""
        folder, began = folder_of(self.output).absolute(), perf_counter()
        there = step.done(folder)
        left = [number for number in range(step.parts) if number not in there]
        count = 0
        if left:
            attempts = RetryQueue(left, partial(self._rows, step), self.say)
            with self.bar(step.name[:-1], step.count, step.items(there)) as tick:
                for number in workers.run(partial(function, folder=str(folder), means=self.means), attempts):
                    done = step.items({number})
                    count += done
                    tick(done)
        return count, perf_counter() - began

    def _say_done(self, manifest: Manifest) -> None:
        """Say where a resumed run goes on."""
        folder = folder_of(self.output)
        done = {step: step.items(step.done(folder)) for step in (manifest.encoding, manifest.scoring)}
        if any(done.values()):
            step = manifest.encoding if done[manifest.encoding] < manifest.pictures else manifest.scoring
            self.say(f"going on from {done[step]:,} of {step.count:,} {step.name}")

    def _rows(self, step: Step, number: int) -> str:
        return describe(step, number, folder_of(self.output) / NAMES if step.name == "pictures" else None)

    def _check_room(self, manifest: Manifest) -> None:
        """Say how much disk it takes; raises BatchError if there is less."""
        folder = folder_of(self.output)
        pictures = manifest.pictures - manifest.encoding.items(manifest.encoding.done(folder))
        pairs = manifest.rows - manifest.scoring.items(manifest.scoring.done(folder))
        tokens = 2 * int(np.prod(manifest.token_shape))
        needed = pictures * tokens + pairs * 10 + self.table.stat().st_size + manifest.rows * _ROW
        what = f"the tokens of {pictures:,} pictures and the scores of {pairs:,} pairs"
        check_room(folder, needed, what, "make room and go on with --resume, or name an output on another disk")
        if needed >= _TOLD:
            self.say(
                f"{manifest.rows:,} pairs of {manifest.pictures:,} pictures take about {byte_size(needed)} of disk"
            )
