"""Scoring a whole table of pairs: in bounded memory, and so that a killed run can go on where it was."""

from __future__ import annotations

import json
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from diptych.durable import replacing, sync_folder, write_durably
from diptych.errors import BatchError, RemoteError
from diptych.lock import WriterLock
from diptych.naming import Fetch, is_address, refused
from diptych.pairs import Scored, Survey, make_writer, open_pairs, shortest, survey
from diptych.parallel import each
from diptych.scorer import ENCODE_BATCH, Scorer
from diptych_export.errors import PictureError

CHUNK = 256
CACHE_BYTES = 256 * 1024 * 1024

Tick = Callable[[int], None]


class PairScorer:
    """Scores pairs of paths; the tokens of pictures used lately are kept, the oldest of them let go."""

    def __init__(self, scorer: Scorer, base: Path, fetch: Fetch = refused) -> None:
        """`base` is the folder that relative paths start from, `fetch` gets what is named by web address."""
        self.scorer = scorer
        self.base = base
        self.fetch = fetch
        size = 2 * int(np.prod(scorer.runtime.token_shape))
        self.capacity = max(2 * CHUNK, CACHE_BYTES // size)
        self._kept: OrderedDict[str, np.ndarray | PictureError] = OrderedDict()

    def score(self, columns: Sequence[str], rows: Sequence[list[str]]) -> list[Scored]:
        """At most `CHUNK` rows with their scores; a picture that cannot be read is an error text in its row."""
        a, b = columns.index("image_a"), columns.index("image_b")
        self._encode({name: None for row in rows for name in (row[a], row[b])})
        sides = [(self._kept[row[a]], self._kept[row[b]]) for row in rows]
        good = [
            (place, tokens_a, tokens_b)
            for place, (tokens_a, tokens_b) in enumerate(sides)
            if isinstance(tokens_a, np.ndarray) and isinstance(tokens_b, np.ndarray)
        ]
        scored = [Scored(row, None, None, _reason(pair)) for row, pair in zip(rows, sides, strict=True)]
        if good:
            places, tokens_a, tokens_b = zip(*good, strict=True)
            logits = self.scorer.logits(np.stack(tokens_a), np.stack(tokens_b))
            relevance = self.scorer.relevance(logits)
            for place, score, logit in zip(places, relevance, logits, strict=True):
                scored[place] = Scored(rows[place], shortest(score), shortest(logit), None)
        while len(self._kept) > self.capacity:
            self._kept.popitem(last=False)
        return scored

    def _encode(self, names: Iterable[str]) -> None:
        missing = []
        for name in names:
            if name in self._kept:
                self._kept.move_to_end(name)
            else:
                missing.append(name)
        for start in range(0, len(missing), ENCODE_BATCH):
            batch = missing[start : start + ENCODE_BATCH]
            decoded = each(self._pixels, batch, self.scorer.runtime.threads)
            good = [pixels for pixels in decoded if isinstance(pixels, np.ndarray)]
            tokens = iter(self.scorer.encode_pixels(np.stack(good)).tokens if good else ())
            for name, pixels in zip(batch, decoded, strict=True):
                # A copy, or the whole batch would stay in memory for one row of it.
                self._kept[name] = pixels if isinstance(pixels, PictureError) else next(tokens).copy()

    def _pixels(self, name: str) -> np.ndarray:
        if not name:
            raise PictureError("the path is empty")
        if is_address(name):
            try:
                return self.scorer.pixels(self.fetch(name), name=name)
            except RemoteError as error:
                raise PictureError(str(error)) from None
        return self.scorer.pixels(self.base / name, name=name)


def _reason(pair: tuple[np.ndarray | PictureError, np.ndarray | PictureError]) -> str | None:
    faults = zip(("image_a", "image_b"), pair, strict=True)
    return "; ".join(f"{side}: {fault}" for side, fault in faults if isinstance(fault, PictureError)) or None


@dataclass(frozen=True)
class Report:
    """How a job went: `pairs` in the output, of which `errors` have no score, and how many were `scored` just now."""

    pairs: int
    errors: int
    scored: int


def score_stream(
    scorer: Scorer, table: str, output: IO[bytes], format: str, tick: Tick, fetch: Fetch = refused
) -> Report:
    """Score a table and write each chunk as soon as it is done; nothing is kept for a resumption."""
    pairs = errors = 0
    with open_pairs(table) as (columns, rows):
        worker = PairScorer(scorer, Path.cwd() if table == "-" else Path(table).absolute().parent, fetch)
        writer = make_writer(format, output, columns)
        for chunk in _chunks(rows):
            scored = worker.score(columns, chunk)
            writer.write(scored)
            pairs += len(scored)
            errors += sum(row.error is not None for row in scored)
            tick(len(scored))
        writer.close()
    return Report(pairs, errors, pairs)


class Job:
    """A table to score into a file, with a journal of finished chunks in the folder `OUT.parts` beside it."""

    def __init__(self, scorer: Scorer, table: Path, output: Path, format: str, fetch: Fetch = refused) -> None:
        """Look at the table; nothing is written yet. Raises BatchError."""
        self.scorer = scorer
        self.table = table
        self.output = output
        self.format = format
        self.fetch = fetch
        self.parts = output.with_name(output.name + ".parts")
        self.survey: Survey = survey(str(table))
        self.done = 0

    @contextmanager
    def opened(self, *, resume: bool, force: bool) -> Iterator[Job]:
        """Take hold of the journal: a new one, or with `resume` the one that a stopped run left.

        Raises BatchError if the output is there already, if there is a journal and neither `resume` nor `force` says
        what to do with it, or if it belongs to another table or model; StoreError if another process works on it.
        """
        if self.output.exists() and not force:
            raise BatchError(f"{self.output} exists already; name another file, or replace it with --force")
        if force and not resume and self.parts.exists():
            shutil.rmtree(self.parts)
        self.parts.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(self.parts / "lock", f"the job {self.parts}")
        try:
            self._continue(resume)
            yield self
        finally:
            lock.release()

    def run(self, tick: Tick) -> Report:
        """Score what is left, then put the output together and drop the journal."""
        scored = 0
        worker = PairScorer(self.scorer, self.table.absolute().parent, self.fetch)
        with open_pairs(str(self.table)) as (columns, rows):
            for chunk in _chunks(islice(rows, self.done * CHUNK, None)):
                results = worker.score(columns, chunk)
                write_durably(self._part(self.done), json.dumps(results, ensure_ascii=False).encode())
                self.done += 1
                scored += len(chunk)
                tick(len(chunk))
        pairs, errors = self._assemble()
        shutil.rmtree(self.parts)
        return Report(pairs, errors, scored)

    def _continue(self, resume: bool) -> None:
        path = self.parts / "job.json"
        wanted = {
            **asdict(self.survey),
            "model": self.scorer.runtime.revision,
            "folder": str(self.table.absolute().parent),
            "chunk": CHUNK,
            "format": 1,
        }
        try:
            found = json.loads(path.read_bytes())
        except FileNotFoundError:
            write_durably(path, json.dumps(wanted, indent=2).encode())
            sync_folder(self.parts.parent)
            return
        except (OSError, ValueError) as error:
            raise BatchError(f"{path} cannot be read ({error}); begin anew with --force") from None
        if not resume:
            raise BatchError(
                f"a run into {self.output} was stopped before its end; go on with --resume, or begin anew with --force"
            )
        for key, what in (("sha256", "the table"), ("model", "the model"), ("folder", "the table's folder")):
            if found.get(key) != wanted[key]:
                raise BatchError(
                    f"{what} is not the one this run began with ({wanted[key]}, expected {found.get(key)}); "
                    "go on with that one, or begin anew with --force"
                )
        if found != wanted:
            raise BatchError(f"{path} was written by another version of Diptych; begin anew with --force")
        while self._part(self.done).exists():
            self.done += 1

    @property
    def resumed(self) -> int:
        """How many pairs are finished by now."""
        return min(self.done * CHUNK, self.survey.rows)

    def _assemble(self) -> tuple[int, int]:
        pairs = errors = 0
        with replacing(self.output, self.parts / "output.tmp") as stream:
            writer = make_writer(self.format, stream, self.survey.columns)
            for number in range(self.done):
                rows = [Scored(*row) for row in json.loads(self._part(number).read_bytes())]
                writer.write(rows)
                pairs += len(rows)
                errors += sum(row.error is not None for row in rows)
            writer.close()
            if pairs != self.survey.rows:
                raise BatchError(
                    f"{self.table} had {self.survey.rows} pairs at the start and {pairs} at the end; "
                    "it changed in between: begin anew with --force"
                )
        return pairs, errors

    def _part(self, number: int) -> Path:
        return self.parts / f"part-{number:06d}.json"


def _chunks(rows: Iterable[list[str]]) -> Iterator[list[list[str]]]:
    rows = iter(rows)
    while chunk := list(islice(rows, CHUNK)):
        yield chunk
