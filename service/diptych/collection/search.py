"""Two stages: the index finds candidates by one number per picture, the pair graph looks at both pictures at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from diptych.errors import UnknownPictureError
from diptych.pictures.content import content_id
from diptych.scoring.scorer import Scorer, best_first
from diptych.scoring.tracing import span
from diptych.store.filters import Filter
from diptych.store.open import Backend
from diptych.store.originals import read_original
from diptych.store.records import FileState, Record
from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.crops import nearest_of_all, second_looks
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import ArgumentError
from diptych_runtime.judgement import CLOSER_LOOKS, CloserLook, Judgement, select_competing

PAIR_BATCH = 64


@dataclass(frozen=True)
class Match:
    """A picture found. `rank` and `first_rank` count from 1.

    `similarity` is the cosine of the embeddings, as the question weighs their parts, of the query or of the crop of it
    that is nearest. `raw_score` is the pair's logit, of the better look where there were two, and `relevance_score` in
    [0, 1] says what it means among the others that were found (`calibration.normalization`); both are None for a
    picture that the pair graph did not look at, and so are `verdict` and `closer_look` (`Judgement`).

    `file_state` says whether the file at its path is still the one that the collection knows, by size and time: what is
    said of a picture is said of the content that was read.
    """

    id: str
    path: str | None
    metadata: dict[str, Any]
    relevance_score: float | None
    raw_score: float | None
    similarity: float
    rank: int
    first_rank: int
    verdict: Verdict | None = None
    closer_look: CloserLook | None = None
    file_state: FileState | None = None


@dataclass(frozen=True)
class SearchResult:
    """`matches`: the best after re-ranking, by their probability; `candidates`: the best by the first stage alone;
    `reranked`: how many candidates the network scored; `closer_looks`: how many of these got a closer look, of which
    there are `CLOSER_LOOKS` at most; `timings` in seconds.
    """

    matches: list[Match]
    candidates: list[Match]
    reranked: int
    closer_looks: int
    timings: dict[str, float]


@dataclass
class Stopwatch:
    """Seconds by stage, added up: `with watch("pair"): ...`."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time the enclosed block."""
        began = perf_counter()
        try:
            with span(stage):
                yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - began


def rerank_order(logits: np.ndarray, total: int) -> np.ndarray:
    """The re-ranked order int64 (total,) of a first-stage list whose first K entries have the logits float32 (K,).

    The first K are permuted, best first and equals in their first-stage order; the rest is untouched.
    """
    return np.concatenate([best_first(logits), np.arange(len(logits), total)])


def search_backend(
    backend: Backend,
    scorer: Scorer,
    query: PictureSource,
    top: int,
    candidates: int,
    early_stop: float | None,
    filter: Filter | None,
) -> SearchResult:
    """Retrieve `max(top, candidates)` pictures, re-rank the first `candidates` and answer `top` of both orders.

    With `early_stop` none is scored twice or against its rivals. Raises what `Collection.search` does.
    """
    if top < 1 or candidates < 0:
        raise ArgumentError(f"expected top >= 1 and candidates >= 0, got top={top} and candidates={candidates}")
    if early_stop is not None and not 0 < early_stop <= 1:
        raise ArgumentError(f"early_stop is a relevance above 0 and at most 1, got {early_stop}")
    watch = Stopwatch({"decode": 0.0, "panel": 0.0, "retrieve": 0.0, "pair": 0.0})
    column = scorer.runtime.column
    with watch("decode"):
        (query,) = scorer.fetch_sources([query])
        pixels = scorer.query_pixels(query)
        query_id = content_id(query)
    with watch("panel"):
        views = scorer.encode_pixels(pixels)
    with watch("retrieve"):
        asked = scorer.runtime.weight_queries(views.embeddings)
        found = [backend.nearest(embedding, max(top, candidates), filter) for embedding in asked]
        keys, cosines, view = nearest_of_all(found, max(top, candidates))
    look = _Look(backend, scorer, views.tokens, watch)
    logits, gone = look.score(keys[:candidates], early_stop=early_stop, wanted=top)
    if gone.any():  # removed by someone else since the index answered
        kept = np.concatenate([~gone, np.ones(len(keys) - len(gone), bool)])
        keys, cosines, view = keys[kept], cosines[kept], view[kept]
    held = logits
    if early_stop is None:
        logits = look.look_again(keys, logits, view)
        held = logits.copy()
        held[:, column] = scorer.runtime.question_settings.normalize_logits(logits[:, column])
    order = rerank_order(logits[:, column], len(keys))
    name, first = scorer.runtime.question, np.arange(min(top, len(keys)))
    competitors = np.flatnonzero(select_competing(scorer.runtime.manifest.questions, held, name, top))
    shown = np.union1d(competitors, first)
    with watch("retrieve"):
        records = backend.records(keys[shown].tolist())
    scored = shown[shown < len(logits)]
    found_records = [records.get(key) for key in keys[scored].tolist()]

    def read_file(number: int) -> PictureSource | None:
        """The file of the query, 0, or of a stored picture, from 1 on, where it is to be had."""
        if not number:
            return query
        record = found_records[number - 1]
        with suppress(UnknownPictureError):
            return record and read_original(backend, record, scorer.limits)
        return None

    with watch("pair"):
        contents = [query_id, *(None if record is None else record.id for record in found_records)]
        pairs = np.stack([np.zeros(len(scored), np.int64), np.arange(len(scored)) + 1], 1)
        judged = scorer.judge_pairs(
            logits[scored], pairs, read_file, contents, held=held[scored], asked=name, most=CLOSER_LOOKS
        )
    said = dict(zip(scored.tolist(), judged[name], strict=True))
    known = [place for place in order.tolist() if place in said]
    best = sorted(known, key=lambda place: -said[place].relevance_score)[:top]
    order = np.concatenate([np.array(best, np.int64), order[~np.isin(order, best)]])
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys))

    def list_matches(places: np.ndarray) -> list[Match]:
        found = ((place, records.get(keys[place].item())) for place in places.tolist())
        return [
            _make_match(record, said.get(place), float(cosines[place]), int(ranks[place]) + 1, place + 1)
            for place, record in found
            if record is not None
        ]

    closer_looks = sum(one.closer_look == "taken" for one in said.values())
    return SearchResult(list_matches(order[:top]), list_matches(first), len(logits), closer_looks, watch.seconds)


def _make_match(record: Record, said: Judgement | None, similarity: float, rank: int, first_rank: int) -> Match:
    scores = (None, None) if said is None else (said.relevance_score, said.raw_score)
    look = (None, None) if said is None else (said.verdict, said.closer_look)
    facts = record.id, record.path, record.metadata
    return Match(*facts, *scores, similarity, rank, first_rank, *look, record.file_state)


@dataclass(frozen=True)
class _Look:
    """The pair graph looking at a query, whose views have the tokens float16 (V, N, M, d), beside stored pictures."""

    backend: Backend
    scorer: Scorer
    views: np.ndarray
    watch: Stopwatch

    def score(
        self, keys: np.ndarray, queries: np.ndarray | None = None, *, early_stop: float | None = None, wanted: int = 0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Logits float32 (K, Q) of the keys still there, of all questions, and a mask bool (K,) of those that are gone.

        They are of the whole query, or of the tokens `queries` (K, N, M, d), one for each key. With `early_stop` they
        end with the key that is the `wanted`th to have that relevance. Tokens are in memory for one batch.
        """
        runtime = self.scorer.runtime
        step = PAIR_BATCH if early_stop is None else runtime.workers * runtime.pair_chunk
        logits, gone = np.empty((0, len(runtime.questions)), np.float32), np.zeros(len(keys), bool)
        for start in range(0, len(keys), step):
            rows = slice(start, start + step)
            batch = keys[rows].tolist()
            with self.watch("retrieve"):
                blobs = self.backend.tokens(batch)
            here = np.array([key in blobs for key in batch])
            gone[rows] = ~here
            if here.any():
                query = self.views[:1] if queries is None else queries[rows][here]
                stored = runtime.codec.unpack_tokens([blobs[key] for key in batch if key in blobs])
                with self.watch("pair"):
                    logits = np.concatenate([logits, self.scorer.all_logits(query, stored)])
            if early_stop is not None:
                reached = np.flatnonzero(self.scorer.relevance(logits[:, runtime.column]) >= early_stop)
                if len(reached) >= wanted:
                    return logits[: reached[wanted - 1] + 1], gone
        return logits, gone

    def look_again(self, keys: np.ndarray, logits: np.ndarray, view: np.ndarray) -> np.ndarray:
        """The logits (K, Q) of the first K keys after a second look at some of them in the view that found them."""
        places = second_looks(logits[:, self.scorer.runtime.column], view[: len(logits)])
        seen, gone = self.score(keys[places], self.views[view[places]])
        better, kept = logits.copy(), places[~gone]
        better[kept] = np.maximum(logits[kept], seen)
        return better
