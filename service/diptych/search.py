"""Two stages: the index finds candidates by one number per picture, the pair graph looks at both pictures at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

from diptych.backend import Backend
from diptych.filters import Filter
from diptych.records import Record
from diptych.scorer import Scorer, best_first
from diptych.tracing import span
from diptych_export.pictures import PictureSource

PAIR_BATCH = 64


@dataclass(frozen=True)
class Match:
    """A picture found. `rank` and `first_rank` count from 0.

    `similarity` is the cosine of the embeddings, as the question weighs their parts. `relevance_score` in [0, 1] and
    `raw_score` are None for a picture that the pair graph did not look at.
    """

    id: str
    path: str | None
    metadata: dict[str, Any]
    relevance_score: float | None
    raw_score: float | None
    similarity: float
    rank: int
    first_rank: int


@dataclass(frozen=True)
class SearchResult:
    """`matches`: the best after re-ranking; `candidates`: the best by the first stage alone; `looked_at`: how many of
    these the network looked at; `timings` in seconds.
    """

    matches: list[Match]
    candidates: list[Match]
    looked_at: int
    timings: dict[str, float]


@dataclass
class Stopwatch:
    """Seconds by stage, added up: `with watch("pair"): ...`."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time what runs inside."""
        began = perf_counter()
        try:
            with span(stage):
                yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - began


def permuted(logits: np.ndarray, total: int) -> np.ndarray:
    """The re-ranked order int64 (total,) of a first-stage list whose first K entries have the logits float32 (K,).

    The first K are permuted, best first and equals in their first-stage order; the rest is untouched.
    """
    return np.concatenate([best_first(logits), np.arange(len(logits), total)])


def search(
    backend: Backend,
    scorer: Scorer,
    query: PictureSource,
    *,
    top: int,
    candidates: int,
    enough: float | None = None,
    filter: Filter | None = None,
) -> SearchResult:
    """Retrieve `max(top, candidates)` pictures, re-rank the first `candidates` and answer `top` of both orders.

    With `enough` no more of them, in their order, are looked at once `top` have that relevance. That is an
    approximation: a later one might have had more. With a `filter` there is nothing but the pictures that meet it.
    """
    if top < 1 or candidates < 0:
        raise ValueError(f"expected top >= 1 and candidates >= 0, got top={top} and candidates={candidates}")
    if enough is not None and not 0 < enough <= 1:
        raise ValueError(f"enough is a relevance above 0 and at most 1, got {enough}")
    watch = Stopwatch({"decode": 0.0, "panel": 0.0, "retrieve": 0.0, "pair": 0.0})
    with watch("decode"):
        pixels = scorer.pixels(query)
    with watch("panel"):
        panel = scorer.encode_pixels(pixels[None])
    with watch("retrieve"):
        keys, cosines = backend.nearest(scorer.runtime.queries(panel.embeddings)[0], max(top, candidates), filter)
    logits, gone = _pair_logits(backend, scorer, panel.tokens, keys[:candidates], watch, enough, top)
    if gone.any():  # removed by someone else since the index answered
        kept = np.concatenate([~gone, np.ones(len(keys) - len(gone), bool)])
        keys, cosines = keys[kept], cosines[kept]
    order = permuted(logits, len(keys))
    with watch("retrieve"):
        records = backend.records([*{*keys[order[:top]].tolist(), *keys[:top].tolist()}])
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = np.arange(len(keys))
    found = _Found(keys, cosines, logits, scorer.relevance(logits), ranks, records)
    first = found.matches(np.arange(len(keys))[:top])
    return SearchResult(found.matches(order[:top]), first, len(logits), watch.seconds)


def _pair_logits(
    backend: Backend,
    scorer: Scorer,
    query: np.ndarray,
    keys: np.ndarray,
    watch: Stopwatch,
    enough: float | None,
    wanted: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Logits float32 of the keys still there, and a mask bool (K,) of those that are gone; memory for one batch.

    With `enough`, only up to the key that is the `wanted`th to have that relevance.
    """
    parts = [np.empty(0, np.float32)]
    gone = np.zeros(len(keys), bool)
    step = PAIR_BATCH if enough is None else scorer.runtime.workers * scorer.runtime.pair_chunk
    for start in range(0, len(keys), step):
        batch = keys[start : start + step].tolist()
        with watch("retrieve"):
            blobs = backend.tokens(batch)
        gone[start : start + len(batch)] = [key not in blobs for key in batch]
        present = [np.frombuffer(blobs[key], "<f2").reshape(query.shape[1:]) for key in batch if key in blobs]
        if present:
            with watch("pair"):
                parts.append(scorer.logits(query, np.stack(present)))
        if enough is not None:
            reached = np.flatnonzero(scorer.relevance(np.concatenate(parts)) >= enough)
            if len(reached) >= wanted:
                return np.concatenate(parts)[: reached[wanted - 1] + 1], gone
    return np.concatenate(parts), gone


@dataclass(frozen=True)
class _Found:
    """A first-stage list as arrays, turned into matches where it is asked for."""

    keys: np.ndarray
    cosines: np.ndarray
    logits: np.ndarray
    relevance: np.ndarray
    ranks: np.ndarray
    records: Mapping[Any, Record]

    def matches(self, places: np.ndarray) -> list[Match]:
        made = []
        for place in places.tolist():
            record = self.records.get(self.keys[place].item())
            if record is None:
                continue
            scored = place < len(self.logits)
            made.append(
                Match(
                    id=record.id,
                    path=record.path,
                    metadata=record.metadata,
                    relevance_score=float(self.relevance[place]) if scored else None,
                    raw_score=float(self.logits[place]) if scored else None,
                    similarity=float(self.cosines[place]),
                    rank=int(self.ranks[place]),
                    first_rank=place,
                )
            )
        return made
