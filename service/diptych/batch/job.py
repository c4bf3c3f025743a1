"""A table scored into a file by way of a folder of parts, so that whatever ends a run costs the parts in work alone."""

from __future__ import annotations

import json
import shutil
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.batch.parts.folder import Bar, Tick, explain_disk_errors, folder_of, open_job, remove_folder, specify_job
from diptych.batch.parts.manifest import NAMES, UNFINISHED, JobSpec, Manifest, Step, list_differences
from diptych.batch.parts.picture_names import describe_part
from diptych.batch.tables.read import SIDES, hash_file, open_table, read_schema
from diptych.batch.tables.scores import Scores
from diptych.batch.tables.write import make_writer
from diptych.batch.workers.executor import Executor, RetryQueue, Say
from diptych.batch.workers.tasks import PartWork, WorkerConfig, encode_part, score_part
from diptych.console import byte_size
from diptych.errors import BatchError
from diptych_runtime.atomic import replacing_stream, write_atomic
from diptych_runtime.calibration.questions import THING
from diptych_runtime.parsing import parse_json

_ROW = 48  # bytes that the results add to a row of the output, about
_REPLACE = "name another file, or replace it with --force"


@dataclass(frozen=True)
class Outcome:
    """The counts of an output: pairs, those without a score, distinct pictures, and closer looks taken."""

    pairs: int
    errors: int
    pictures: int
    closer_looks: int


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

    Relative paths start from `base`, by default the table's folder. `bar` is told of each step: its unit, of how many,
    of which so many are done; `say` what else there is to tell.
    """

    table: Path
    output: Path
    format: str
    config: WorkerConfig = field(default_factory=WorkerConfig)
    sides: tuple[str, str] = SIDES
    question: str = THING
    closer_look: bool = True
    base: Path | None = None
    bar: Bar = lambda unit, count, done: nullcontext(lambda count: None)
    say: Say = lambda text: None

    @property
    def folder(self) -> Path:
        """The folder of parts."""
        return folder_of(self.output)

    def run(self, engine: AbstractContextManager[Executor], *, resume: bool = False, force: bool = False) -> Report:
        """Score the table, or with `resume` the rest that a stopped run left of it; then the folder of parts goes.

        With `resume`, an output that this very job has completed is left as it is: the report has no seconds.
        Raises BatchError, in words that say how to go on, and what `open_job` raises.
        """
        there = self.output.exists()
        if there and not resume and not force:
            raise BatchError(f"{self.output} exists already; {_REPLACE}")
        began = perf_counter()
        how = {"closer_look": self.closer_look, "base": self.base}
        spec = specify_job(self.table, self.config.model, self.sides, self.question, **how)
        if there and resume and not force:
            outcome = read_outcome(self.output, spec, self.format)
            if outcome is None:
                raise BatchError(
                    f"{self.output} exists already; --resume does not know it as this job's, so {_REPLACE}"
                )
            remove_folder(self.folder)
            return Report(outcome, 0, 0, {})
        schema = read_schema(str(self.table), self.sides) if self.format == "parquet" else None
        with (
            explain_disk_errors(self.folder, "go on with the same command and --resume"),
            open_job(spec, self.folder, resume=resume, force=force, bar=self.bar) as manifest,
        ):
            seconds = {"reading": perf_counter() - began}
            self._announce_work(manifest)
            with engine as workers:
                encoded, seconds["encoding"] = self._do_step(workers, manifest.encoding, encode_part)
                scored, seconds["scoring"] = self._do_step(workers, manifest.scoring, score_part)
            began = perf_counter()
            with self.bar("row", manifest.rows, 0) as tick:
                outcome = write_output(manifest, self.output, self.format, schema, tick)
            remove_folder(self.folder)
            seconds["writing"] = perf_counter() - began
        return Report(outcome, scored, encoded, seconds)

    def _do_step(self, workers: Executor, step: Step, function: PartWork) -> tuple[int, float]:
        """Do the parts of a step that are not done: how many items they had, and the seconds it took."""
        folder, began = self.folder.absolute(), perf_counter()
        names = folder / NAMES if step.name == "pictures" else None
        there = step.find_done_parts(folder)
        left = [number for number in range(step.parts) if number not in there]
        count = 0
        if left:
            attempts = RetryQueue(left, partial(describe_part, step, names=names), self.say)
            with self.bar(step.name[:-1], step.count, step.count_items(there)) as tick:
                for number in workers.run(partial(function, folder=str(folder), config=self.config), attempts):
                    done = step.count_items({number})
                    count += done
                    tick(done)
        return count, perf_counter() - began

    def _announce_work(self, manifest: Manifest) -> None:
        """Say where a resumed run goes on. Raises BatchError for too small a disk."""
        steps = (manifest.encoding, manifest.scoring)
        encoded, scored = (step.count_items(step.find_done_parts(self.folder)) for step in steps)
        pictures, pairs = manifest.pictures - encoded, manifest.rows - scored
        tokens = 2 * int(np.prod(manifest.token_shape))
        needed = pictures * tokens + pairs * 10 + self.table.stat().st_size + manifest.rows * _ROW
        if needed > (free := shutil.disk_usage(self.folder).free):
            what = f"the tokens of {pictures:,} pictures and the scores of {pairs:,} pairs"
            raise BatchError(
                f"{self.folder} needs about {byte_size(needed)} of disk for {what}, and {byte_size(free)} are free; "
                "make room and go on with --resume, or name an output on another disk"
            )
        if encoded or scored:
            done, step = (encoded, manifest.encoding) if pictures else (scored, manifest.scoring)
            self.say(f"going on from {done:,} of {step.count:,} {step.name}")


def write_output(manifest: Manifest, output: Path, format: str, schema: Any, tick: Tick) -> Outcome:
    """Write the table with the scores of all parts. Raises BatchError if it has changed since the job began."""
    folder = folder_of(output)
    Path(manifest.table).stat()  # as the system says it: what is done is kept
    rows = errors = closer_looks = 0
    with open_table(manifest.table, manifest.sides) as table, replacing_stream(output, folder / UNFINISHED) as stream:
        writer = make_writer(format, stream, manifest.columns, schema)
        parts = (folder / manifest.scoring.part_file(number) for number in range(manifest.scoring.parts))
        results = (result for part in parts for result in Scores.load(part).list_results())
        for batch in table.batches:
            rows += len(batch)
            if rows > manifest.rows:
                break
            found = list(islice(results, len(batch)))
            writer.write(batch, found)
            errors += sum(result.error is not None for result in found)
            closer_looks += sum(result.closer_look == "taken" for result in found)
            tick(len(batch))
        writer.close()
        if rows != manifest.rows or hash_file(manifest.table) != manifest.sha256:
            raise BatchError(f"{manifest.table} changed while it was scored; begin anew with --force")
        outcome = Outcome(manifest.rows, errors, manifest.pictures, closer_looks)
        stream.flush()
        job = {**manifest.identity, "the format": format}
        record = {"sha256": hash_file(folder / UNFINISHED), "outcome": asdict(outcome), "job": job}
        # First, so that an output with its name has its record: without that output it means nothing.
        write_atomic(record_of(output), json.dumps(record, indent=2).encode())
    return outcome


def record_of(output: Path) -> Path:
    """The hidden file beside a complete output that says which job it is of: `.OUT.job`."""
    return output.with_name(f".{output.name}.job")


def read_outcome(output: Path, spec: JobSpec, format: str) -> Outcome | None:
    """The counts of a complete output; None where nothing is known. Raises BatchError for that of another job."""
    try:
        found = parse_json(record_of(output).read_bytes())
        is_whole = output.exists() and hash_file(output) == found["sha256"]
        outcome, then = Outcome(**found["outcome"]), dict(found["job"])
    except (OSError, ValueError, KeyError, TypeError):  # a record of another version, or none
        return None
    if not is_whole:
        return None
    for what, before, now in list_differences(then, {**spec.identity, "the format": format}):
        other = f"{what} is not the one it was made with ({now}, then {before})"
        raise BatchError(f"{output} exists already, and {other}; {_REPLACE}")
    return outcome
