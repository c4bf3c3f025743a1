"""The work on one part of a job, as plain functions of the job's folder and the part's number.

Whoever calls them, here, in another process or on another machine, and however often, the same file comes out. So a
part whose worker was lost is simply done again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from diptych.batch.parts.manifest import MANIFEST, NAMES, PAIRS, Manifest, write_part
from diptych.batch.parts.picture_names import read_names
from diptych.batch.parts.tokens import Tokens
from diptych.batch.tables.scores import Scores
from diptych.errors import BatchError, RemoteError
from diptych.pictures.content import content_id
from diptych.pictures.sources import is_url, make_fetcher
from diptych.scoring.decode_pool import make_decoder
from diptych.scoring.scorer import ENCODE_BATCH, Scorer
from diptych.scoring.threads import map_pictures
from diptych.scoring.view_cache import ViewCache
from diptych.store.records import FileStamp
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look.verification import View
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import PictureError
from diptych_runtime.judgement import Judgement, judge_pairs, needs_closer_look
from diptych_runtime.kernel.precision import VARIABLE as PAIRS_VARIABLE
from diptych_runtime.paths import existing_form
from diptych_runtime.runtime import Runtime

AT_A_TIME = 512  # pairs whose tokens are in memory
_LOOKED = 16  # pairs whose pictures are read at once for a closer look

PartWork = Callable[..., object]  # `encode_part` or `score_part`


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a worker. It does not change the scores, so a job may go on with another."""

    model: str = "photo"
    provider: str = "auto"
    threads: int | None = None
    urls: bool = False


def encode_part(number: int, *, folder: str, config: WorkerConfig) -> None:
    """Encode the pictures of a part into tokens. Raises OSError if the table and its folder are gone meanwhile."""
    job = _open_job(Path(folder), config)
    names = read_names(job.folder / NAMES, range(*job.manifest.encoding.part_bounds(number)))
    stamps = [job.read_stamp(name) for name in names]
    tokens, errors = job.encode_pictures(names)
    if errors and not Path(job.manifest.folder).is_dir():
        # A disk that was pulled out is not a table full of missing pictures.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), job.manifest.folder)
    job.tokens.write(number, tokens, errors, stamps)


def score_part(number: int, *, folder: str, config: WorkerConfig) -> None:
    """Score the pairs of a part, whose pictures all have been encoded."""
    job = _open_job(Path(folder), config)
    step = job.manifest.scoring
    pairs = np.asarray(job.pairs[slice(*step.part_bounds(number))])
    done = [job.score_pairs(pairs[start : start + AT_A_TIME]) for start in range(0, len(pairs), AT_A_TIME)]
    write_part(job.folder / step.part_file(number), Scores.concatenate(done).to_bytes())


def clear_caches() -> None:
    """Forget the job and the model that were worked with last."""
    _load_job.cache_clear()
    _open_scorer.cache_clear()


class _File(NamedTuple):
    """A picture by the name in the table, and its stamp when it was encoded."""

    name: str
    stamp: FileStamp | None


class _OpenJob:
    """A job as a worker has it open. Relative names start from the manifest's folder."""

    def __init__(self, folder: Path, manifest: Manifest, config: WorkerConfig) -> None:
        self.folder, self.manifest = folder, manifest
        self.scorer = load_scorer(config, manifest.model).asking(manifest.question)
        _check_precision(self.scorer.runtime, manifest, folder)
        self.tokens = Tokens(folder, manifest.encoding, manifest.token_shape)
        self.pairs = np.memmap(folder / PAIRS, np.uint32, "r", shape=(manifest.rows, 2))
        self._fetch, self._views = make_fetcher(config.urls), ViewCache()

    def encode_pictures(self, names: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
        """Encode pictures to tokens float16 (P, N, M, d), zeros for one that cannot be read, and errors by place."""
        tokens = np.zeros((len(names), *self.scorer.runtime.token_shape), np.float16)
        errors: dict[int, str] = {}
        for start in range(0, len(names), ENCODE_BATCH):
            batch = names[start : start + ENCODE_BATCH]
            good = []
            for place, pixels in enumerate(map_pictures(self._decode, batch, self.scorer.runtime.threads), start):
                if isinstance(pixels, PictureError):
                    errors[place] = str(pixels)
                else:
                    good.append((place, pixels))
            if good:
                places, pixels = zip(*good, strict=True)
                tokens[list(places)] = self.scorer.encode_pixels(np.stack(pixels)).tokens
        return tokens, errors

    def score_pairs(self, pairs: np.ndarray) -> Scores:
        """Score pairs uint32 (P, 2) of places; a picture with an error is one of its pairs."""
        places = np.unique(pairs).tolist()
        errors, stamps = self.tokens.find_facts(places)
        names = read_names(self.folder / NAMES, places)
        files = dict(zip(places, map(_File, names, stamps.values()), strict=True))
        failed: dict[int, str] = {}
        for row, pair in enumerate(pairs.tolist()):
            sides = zip(self.manifest.sides, pair, strict=True)
            if told := [f"{side}: {errors[place]}" for side, place in sides if place in errors]:
                failed[row] = "; ".join(told)
        judgements: list[Judgement | None] = [None] * len(pairs)
        good = np.setdiff1d(np.arange(len(pairs)), list(failed))
        if len(good):
            logits = self.scorer.all_logits(*map(self.tokens.read_tokens, pairs[good].T))
            named = [(files[a], files[b]) for a, b in pairs[good].tolist()]
            for row, judgement in zip(good.tolist(), self._judge_pairs(named, logits), strict=True):
                judgements[row] = judgement
        return Scores.from_judgements(judgements, failed)

    def read_stamp(self, name: str) -> FileStamp | None:
        """Read the size and the time of a file; None where there is no file."""
        return None if not name or is_url(name) else FileStamp.of(str(self._resolve_path(name)))

    def _judge_pairs(self, pairs: Sequence[tuple[_File, _File]], logits: np.ndarray) -> list[Judgement]:
        """Judge pairs by their logits (P, Q), after a closer look at the files of those that deserve it."""
        questions, asked = self.scorer.runtime.manifest.questions, self.scorer.runtime.question
        same = np.array([self._have_one_content(a, b) for a, b in pairs], bool)
        seen: list[Evidence | None] = [None] * len(pairs)
        if self.manifest.closer_look:
            rows = np.flatnonzero(needs_closer_look(questions, logits, asked) & ~same).tolist()
            for start in range(0, len(rows), _LOOKED):
                batch = rows[start : start + _LOOKED]
                stamps = dict(file for row in batch for file in pairs[row])
                views = self._views.get_views([*stamps], partial(self._describe, stamps=stamps))
                found = self.scorer.evidence([(views[a.name], views[b.name]) for a, b in map(pairs.__getitem__, batch)])
                for row, evidence in zip(batch, found, strict=True):
                    seen[row] = evidence
        return judge_pairs(questions, logits, seen, same=same)[asked]

    def _have_one_content(self, a: _File, b: _File) -> bool:
        """True for one picture, and for two files with the same bytes; of other sizes neither is read."""
        if a.name == b.name or a.stamp is None or b.stamp is None or a.stamp.bytes != b.stamp.bytes:
            return a.name == b.name
        found = self._find_content_id(a)
        return found is not None and found == self._find_content_id(b)

    def _find_content_id(self, file: _File) -> str | None:
        """The id of a file's content; None unless it still has the stamp of when it was encoded."""
        if self.read_stamp(file.name) != file.stamp:
            return None
        return _content_id(self._resolve_path(file.name), file.stamp)

    def _describe(self, names: Sequence[str], stamps: Mapping[str, FileStamp | None]) -> dict[str, View | None]:
        """Describe pictures by name; None for a file that is gone, or that changed since it was encoded."""
        same = [name for name in names if self.read_stamp(name) == stamps[name]]
        sources = map_pictures(self._open_source, same, self.scorer.runtime.threads)
        there = [None if isinstance(source, PictureError) else source for source in sources]
        views = dict(zip(same, self.scorer.views(there), strict=True))
        # Once more: none may have changed while it was read.
        return {name: views.get(name) if self.read_stamp(name) == stamps[name] else None for name in names}

    def _decode(self, name: str) -> np.ndarray:
        return self.scorer.pixels(self._open_source(name), name=name)

    def _open_source(self, name: str) -> PictureSource:
        """The file of a name, or the bytes behind a web address. Raises PictureError."""
        if not name:
            raise PictureError("the path is empty")
        try:
            return self._fetch(name) if is_url(name) else self._resolve_path(name)
        except RemoteError as error:
            raise PictureError(str(error)) from None

    def _resolve_path(self, name: str) -> Path:
        return Path(existing_form(str(Path(self.manifest.folder) / name)))


@lru_cache(maxsize=4096)
def _content_id(path: Path, stamp: FileStamp | None) -> str | None:
    return content_id(path)


def _open_job(folder: Path, config: WorkerConfig) -> _OpenJob:
    try:
        manifest = Manifest.load(folder)
    except FileNotFoundError:
        raise make_unseen_error(folder / MANIFEST, "the output") from None
    return _load_job(folder, manifest, config)


_load_job = lru_cache(1)(_OpenJob)


def _check_precision(runtime: Runtime, manifest: Manifest, folder: Path) -> None:
    """Raise BatchError where pairs would be scored otherwise than by the job's first worker."""
    own = runtime.scores_revision
    if (known := manifest.fix_scores_revision(folder, own)) != own:
        theirs = "int8" if known.endswith("-int8") else "float32"
        here = f"on {os.uname().nodename} they would be those of {own} ({runtime.pair_path})"
        alike = known.removesuffix("-int8") == own.removesuffix("-int8")  # but for the precision of pairs
        way = f"set {PAIRS_VARIABLE}={theirs} to go on, or begin anew" if alike else "begin anew"
        raise BatchError(f"the scores of this job are those of {known}, and {here}; {way} with --force")


def make_unseen_error(path: Path, whose: str) -> BatchError:
    """The error of a worker that does not see the first file of a job, in the folder of `whose`."""
    needed = f"every worker has to see the folder of {whose} and that of the pictures under the same paths"
    return BatchError(f"{path} is not to be seen on {os.uname().nodename}; {needed}")


def load_scorer(config: WorkerConfig, revision: str) -> Scorer:
    """The model that a job began with, kept for the next part. Raises BatchError if it is another one here."""
    scorer = _open_scorer(config)
    if scorer.runtime.revision != revision:
        here = f"the model {config.model} is {scorer.runtime.revision} on {os.uname().nodename}"
        raise BatchError(f"{here}, and the job began with {revision}; every worker needs that one")
    return scorer


@lru_cache(1)
def _open_scorer(config: WorkerConfig) -> Scorer:
    runtime = Runtime.open(config.model, provider=config.provider, threads=config.threads)
    return Scorer(runtime, decoder=make_decoder(config.urls, runtime.threads))
