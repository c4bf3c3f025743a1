"""Pairs of a collection's pictures scored by workers: the parts of a table of pairs, made from what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from diptych.batch.parts.disk import check_room
from diptych.batch.parts.manifest import NAMES, PAIRS, Manifest, make_job_id, part_sizes
from diptych.batch.parts.picture_names import PictureNames, read_names
from diptych.batch.parts.tokens import Tokens
from diptych.batch.tables.scores import Scores
from diptych.batch.workers.shared_folder import SharedParts, WorkerPool
from diptych.batch.workers.tasks import score_part
from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import BatchError, UnknownPictureError
from diptych_runtime.atomic import write_atomic

_NAME = "pairs"


def score_by_workers(
    collection: Collection, ids: Sequence[str], pairs: np.ndarray, workers: WorkerPool, question: str
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(pairs int64 (p, 2), logits float32 (p,)), part by part in order, of pairs (P, 2) of places in `ids`.

    The logits answer the question. A part counts as taken when the next one is asked for. Raises BatchError.
    """
    exchange = SharedParts.for_collection(collection, _NAME)
    with exchange.explain_errors():
        with exchange.begin_job() as job:
            manifest = _write_job(job, collection, ids, pairs, question)
        step = manifest.scoring
        for number, part in exchange.complete_parts(job, step, score_part, workers, step.describe_part):
            yield pairs[slice(*step.part_bounds(number))], Scores.load(part).raw
        exchange.clear()


def recover_scores(collection: Collection, pair_cache: PairCache) -> None:
    """Put into the cache the scores that workers had when an earlier run ended; damaged ones are computed again."""
    exchange = SharedParts.for_collection(collection, _NAME)
    with exchange.explain_errors():
        for job in exchange.list_jobs():
            with suppress(BatchError, FileNotFoundError, ValueError):
                _take_over(job, collection, pair_cache)
        exchange.clear()


def tokens_of(collection: Collection, ids: Sequence[str]) -> dict[str, np.ndarray]:
    """The tokens float16 (N, M, d) of stored pictures by id. Raises UnknownPictureError if one is not there."""
    found = {id: tokens for id, (tokens, _) in collection.panels(ids).items()}
    for id in ids:
        if id not in found:
            raise UnknownPictureError(f"the picture {id} was removed from {collection.name} meanwhile; start again")
    return found


def _take_over(job: Path, collection: Collection, pair_cache: PairCache) -> None:
    manifest = Manifest.load(job)
    runtime = collection.scorer.runtime
    if (
        manifest.model != runtime.revision
        or manifest.fix_scores_revision(job, runtime.scores_revision) != runtime.scores_revision
    ):
        return
    ids = read_names(job / NAMES, range(manifest.pictures))
    pairs = np.fromfile(job / PAIRS, np.uint32).reshape(manifest.rows, 2)
    for number in sorted(manifest.scoring.find_done_parts(job)):
        places = pairs[slice(*manifest.scoring.part_bounds(number))].tolist()
        with suppress(BatchError):
            found = Scores.load(job / manifest.scoring.part_file(number))
            pair_cache.add_scores([(ids[a], ids[b]) for a, b in places], found.raw, manifest.question)


def _write_job(job: Path, collection: Collection, ids: Sequence[str], pairs: np.ndarray, question: str) -> Manifest:
    """The tokens and the pairs where `batch.work.score` looks for them."""
    asked = np.zeros(len(ids), bool)
    asked[pairs.ravel()] = True
    places = np.flatnonzero(asked)
    pictures_part, pairs_part = part_sizes(len(places), len(pairs))
    manifest = Manifest(
        table=collection.name,
        sha256="",
        rows=len(pairs),
        columns=(),
        sides=("a", "b"),
        folder=str(job),
        model=collection.scorer.runtime.revision,
        question=question,
        closer_look=False,
        token_shape=collection.scorer.runtime.token_shape,
        pictures=len(places),
        pictures_part=pictures_part,
        pairs_part=pairs_part,
        id=make_job_id(),
    )
    needed = len(places) * 2 * int(np.prod(manifest.token_shape)) + 16 * len(pairs)
    check_room(job, needed, "the tokens that workers read and their scores", "make room and run the same command again")
    tokens = Tokens(job, manifest.encoding, manifest.token_shape)
    with closing(PictureNames(job / NAMES)) as names:
        for number in range(manifest.encoding.parts):
            first, stop = manifest.encoding.part_bounds(number)
            wanted = [ids[int(place)] for place in places[first:stop]]
            found = tokens_of(collection, wanted)
            tokens.write(number, np.stack([found[id] for id in wanted]), {}, [None] * len(wanted))
            for id in wanted:
                names.place(id)
        names.commit()
    rank = (np.cumsum(asked) - 1).astype(np.uint32)
    write_atomic(job / PAIRS, rank[pairs].tobytes())
    manifest.save(job)
    return manifest
