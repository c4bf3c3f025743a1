"""The work on one part of a job, as plain functions of the job's folder and the part's number.

Whoever calls them, here, in another process or on another machine, and however often, the same file comes out. So a
part whose worker was lost is simply done again.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from diptych.batch.parts.manifest import MANIFEST, NAMES, PAIRS, Manifest, write_part
from diptych.batch.parts.picture_names import read_names
from diptych.batch.parts.tokens import Tokens
from diptych.batch.tables.scores import Scores
from diptych.batch.workers.encoder import Encoder, PairScorer
from diptych.errors import BatchError
from diptych.pictures.sources import make_fetcher
from diptych.scoring.decode_pool import make_decoder
from diptych.scoring.scorer import Scorer
from diptych_runtime.kernel.precision import VARIABLE as PAIRS_VARIABLE
from diptych_runtime.runtime import Runtime

AT_A_TIME = 512  # pairs whose tokens are in memory

PartWork = Callable[..., object]  # `encode_part` or `score_part`


@dataclass(frozen=True)
class WorkerConfig:
    """The configuration of a worker. It does not change the scores, so a job may go on with another."""

    model: str = "photo"
    provider: str = "auto"
    threads: int | None = None
    urls: bool = False


@dataclass(frozen=True)
class _OpenJob:
    """A job as a worker has it open."""

    folder: Path
    manifest: Manifest
    tokens: Tokens
    pairs: np.ndarray
    scorer: PairScorer


def encode_part(number: int, *, folder: str, config: WorkerConfig) -> None:
    """Encode the pictures of a part into tokens. Raises OSError if the table and its folder are gone meanwhile."""
    job = _open_job(Path(folder), config)
    names = read_names(job.folder / NAMES, range(*job.manifest.encoding.part_bounds(number)))
    stamps = [job.scorer.encoder.read_stamp(name) for name in names]
    tokens, errors = job.scorer.encoder.encode_pictures(names)
    if errors and not Path(job.manifest.folder).is_dir():
        # A disk that was pulled out is not a table full of missing pictures.
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), job.manifest.folder)
    job.tokens.write(number, tokens, errors, stamps)


def score_part(number: int, *, folder: str, config: WorkerConfig) -> None:
    """Score the pairs of a part, whose pictures all have been encoded."""
    job = _open_job(Path(folder), config)
    step = job.manifest.scoring
    pairs = np.asarray(job.pairs[slice(*step.part_bounds(number))])
    done = [_score_pairs(job, pairs[start : start + AT_A_TIME]) for start in range(0, len(pairs), AT_A_TIME)]
    write_part(job.folder / step.part_file(number), Scores.concatenate(done).to_bytes())


def clear_caches() -> None:
    """Forget the job and the model that were worked with last."""
    _load_job.cache_clear()
    _open_scorer.cache_clear()


def _score_pairs(job: _OpenJob, pairs: np.ndarray) -> Scores:
    places = np.unique(pairs).tolist()
    names = dict(zip(places, read_names(job.folder / NAMES, places), strict=True))
    errors = {names[place]: error for place, error in job.tokens.find_errors(places).items()}
    stamps = {names[place]: job.tokens.find_stamp(place) for place in places}
    named = [(names[a], names[b]) for a, b in pairs.tolist()]
    tokens_a, tokens_b = (job.tokens.read_tokens(side) for side in pairs.T)
    return job.scorer.score_pairs(named, tokens_a, tokens_b, errors, stamps)


def _open_job(folder: Path, config: WorkerConfig) -> _OpenJob:
    try:
        manifest = Manifest.load(folder)
    except FileNotFoundError:
        raise make_unseen_error(folder / MANIFEST, "the output") from None
    return _load_job(folder, manifest, config)


@lru_cache(1)
def _load_job(folder: Path, manifest: Manifest, config: WorkerConfig) -> _OpenJob:
    scorer = load_scorer(config, manifest.model).asking(manifest.question)
    own = scorer.runtime.scores_revision
    if (known := manifest.fix_scores_revision(folder, own)) != own:
        theirs = "int8" if known.endswith("-int8") else "float32"
        here = f"on {os.uname().nodename} they would be those of {own} ({scorer.runtime.pair_path})"
        alike = known.removesuffix("-int8") == own.removesuffix("-int8")  # but for the precision of pairs
        way = f"set {PAIRS_VARIABLE}={theirs} to go on, or begin anew" if alike else "begin anew"
        raise BatchError(f"the scores of this job are those of {known}, and {here}; {way} with --force")
    tokens = Tokens(folder, manifest.encoding, manifest.token_shape)
    pairs = np.memmap(folder / PAIRS, np.uint32, "r", shape=(manifest.rows, 2))
    encoder = Encoder(scorer, Path(manifest.folder), make_fetcher(config.urls))
    return _OpenJob(
        folder, manifest, tokens, pairs, PairScorer(encoder, manifest.sides, closer_look=manifest.closer_look)
    )


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
