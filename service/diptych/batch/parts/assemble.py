"""The output of a job whose parts are all there: the table once more, row by row, with the scores beside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from diptych.batch.parts.folder import JobSpec, folder_of
from diptych.batch.parts.manifest import UNFINISHED, WHOLE, Manifest, differences
from diptych.batch.tables.read import digest, open_table
from diptych.batch.tables.scores import Scores
from diptych.batch.tables.write import make_writer
from diptych.errors import BatchError
from diptych_runtime.atomic import replacing_stream, write_atomic
from diptych_runtime.parsing import parse_json

Tick = Callable[[int], object]


@dataclass(frozen=True)
class Outcome:
    """The counts of an output: `pairs`, of which `errors` have no score, over so many distinct `pictures`, and the
    `closer_looks` that were taken.
    """

    pairs: int
    errors: int
    pictures: int
    closer_looks: int


def assemble(manifest: Manifest, output: Path, format: str, schema: Any, tick: Tick) -> Outcome:
    """Write the output and give it its name. Raises BatchError if the table has changed since the job began."""
    folder, temporary = folder_of(output), folder_of(output) / UNFINISHED
    Path(manifest.table).stat()  # as the system says it: what is done is kept
    parts = _Parts(folder, manifest)
    rows = 0
    with open_table(manifest.table, manifest.sides) as table, replacing_stream(output, temporary) as stream:
        writer = make_writer(format, stream, manifest.columns, lambda: schema)
        for batch in table.batches:
            rows += len(batch)
            if rows > manifest.rows:
                break
            writer.write(batch, parts.take(len(batch)))
            tick(len(batch))
        writer.close()
        if rows != manifest.rows or digest(manifest.table) != manifest.sha256:
            raise BatchError(f"{manifest.table} changed while it was scored; begin anew with --force")
        outcome = Outcome(manifest.rows, parts.errors, manifest.pictures, parts.closer_looks)
        stream.flush()
        job = {**manifest.identity, "the format": format}
        record = {"sha256": digest(temporary), "outcome": asdict(outcome), "job": job}
        write_atomic(folder / WHOLE, json.dumps(record, indent=2).encode())
    (folder / WHOLE).replace(record_of(output))
    return outcome


def record_of(output: Path) -> Path:
    """The hidden file beside a complete output that says which job it is of: `.OUT.job`."""
    return output.with_name(f".{output.name}.job")


def assembled(output: Path, order: JobSpec, format: str) -> Outcome | None:
    """The counts of an output that is complete; None if there is none, or nothing known of the file that is there.

    Raises BatchError if it is the output of another job.
    """
    # In the folder the record is while the job may be killed between the two renames.
    for path in (folder_of(output) / WHOLE, record_of(output)):
        try:
            found = parse_json(path.read_bytes())
            whole = output.exists() and digest(output) == found["sha256"]
            outcome, then = Outcome(**found["outcome"]), dict(found["job"])
        except (OSError, ValueError, KeyError, TypeError):  # a record of another version, or none
            continue
        if not whole:
            continue
        for what, before, now in differences(then, {**order.identity, "the format": format}):
            raise BatchError(
                f"{output} exists already, and {what} is not the one it was made with ({now}, then {before}); name "
                "another file, or replace it with --force"
            )
        return outcome
    return None


class _Parts:
    """The scores of all pairs, in order, a part at a time in memory."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.step = folder, manifest.scoring
        self.errors = self.closer_looks = 0
        self._place = 0
        self._part = Scores.empty(0, {})
        self._number = -1

    def take(self, count: int) -> Scores:
        """The scores of the next `count` pairs."""
        pieces, missing = [], count
        while missing:
            number, start = divmod(self._place, self.step.size)
            if number != self._number:
                self._part, self._number = Scores.load(self.folder / self.step.file(number)), number
            pieces.append(self._part[start : start + missing])
            self._place += len(pieces[-1])
            missing -= len(pieces[-1])
        scores = Scores.joined(pieces)
        self.errors += len(scores.errors)
        self.closer_looks += scores.closer_looks
        return scores
