"""The cost of one picture, one pair, one vector: measured here, on one core, in a few seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from diptych.bench.demo.collection import draw_collection
from diptych.bench.model import processor, resized
from diptych.collection.collection import Collection
from diptych.scoring.scorer import Scorer
from diptych.store.index.vectors import Vectors
from diptych.store.sqlite.schema import DATABASE

_PICTURES = 64
_VECTORS = 100_000
_ROUNDS = 7
_FULL = 127


@dataclass(frozen=True)
class Figures:
    """Seconds of one core for one: a picture from its JPEG to tokens, a vector compared with, the tokens of a candidate
    read from the database and checked, a pair scored.

    `record_bytes` is what the database has of a picture beside tokens and embedding. `int8_error` is the largest change
    of a raw score where tokens are kept in 8 bits, with a scale for each patch, and `int8_order` the share of the ten
    best of 63 that are still among them.
    """

    processor: str
    model: str
    embedding_dim: int
    token_count: int
    token_width: int
    picture_seconds: float
    vector_seconds: float
    fetch_seconds: float
    pair_seconds: float
    record_bytes: float
    int8_error: float
    int8_order: float


def measured(scorer: Scorer) -> Figures:
    """The figures of a scorer's model here, in some seconds; pictures and pairs keep all its threads busy meanwhile."""
    runtime = scorer.runtime
    rows, cols, width = runtime.token_shape
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=_PICTURES)
        files = [resized(path) for path in photos]
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add(photos)]
            tokens = np.stack([tokens for tokens, _ in collection.panels(ids).values()])
            held = list(range(1, len(ids) + 1))
            fetch = _seconds(lambda: collection.store.tokens(held)) / len(held)
        size = (store / DATABASE).stat().st_size / len(ids)
    vectors = Vectors(runtime.embedding_dim)
    points = random.normal(size=(_VECTORS, runtime.embedding_dim)).astype(np.float32)
    vectors.add(range(_VECTORS), points)
    exact = scorer.logits(tokens[:1], tokens[1:])
    error = scorer.logits(_in_8_bits(tokens[:1]), _in_8_bits(tokens[1:])) - exact
    best, kept = (set(np.argsort(-logits)[:10].tolist()) for logits in (exact, exact + error))
    return Figures(
        processor=processor(),
        model=runtime.name,
        embedding_dim=runtime.embedding_dim,
        token_count=rows * cols,
        token_width=width,
        picture_seconds=_seconds(lambda: scorer.panels(files)) * runtime.threads / len(files),
        vector_seconds=_seconds(lambda: vectors.search(points[0], 100)) / _VECTORS,
        fetch_seconds=fetch,
        pair_seconds=_seconds(lambda: scorer.logits(tokens[:1], tokens[1:])) * runtime.threads / (len(tokens) - 1),
        record_bytes=size - tokens[0].nbytes - 4 * runtime.embedding_dim,
        int8_error=float(np.abs(error).max()),
        int8_order=len(best & kept) / len(best),
    )


def _in_8_bits(tokens: np.ndarray) -> np.ndarray:
    """Tokens float16 (B, N, M, d) as they are after being kept as int8, with one scale a patch."""
    scale = np.abs(tokens).max(-1, keepdims=True).astype(np.float32) / _FULL
    whole = np.rint(tokens / np.maximum(scale, 1e-8)).astype(np.int8)
    return (whole * scale).astype(np.float16)


def _seconds(work: Callable[[], object]) -> float:
    """The median of some rounds in seconds, after a warm-up round."""
    took = []
    for _ in range(_ROUNDS + 1):
        began = perf_counter()
        work()
        took.append(perf_counter() - began)
    return float(np.median(took[1:]))
