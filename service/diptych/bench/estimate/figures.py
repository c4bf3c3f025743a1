"""The cost of one picture, one pair, one vector: measured here, on one core, in a few seconds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from diptych.bench.demo.collection import draw_collection
from diptych.bench.model import find_processor, resize_photo
from diptych.collection.collection import Collection
from diptych.scoring.scorer import Scorer
from diptych.store.index.vectors import Vectors
from diptych.store.sqlite.schema import DATABASE

_PICTURES = 64
_VECTORS = 100_000
_ROUNDS = 7


@dataclass(frozen=True)
class Figures:
    """Seconds of one core for one: a picture from its JPEG to tokens, a vector compared with, the tokens of a candidate
    read from the database and checked, a pair scored.

    `token_bytes` is what the database has of a picture's tokens, and `record_bytes` what beside tokens and embedding.
    """

    processor: str
    model: str
    embedding_dim: int
    token_bytes: int
    picture_seconds: float
    vector_seconds: float
    fetch_seconds: float
    pair_seconds: float
    record_bytes: float


def measure_figures(scorer: Scorer) -> Figures:
    """Measure the figures of a scorer's model on this machine, in some seconds.

    Pictures and pairs keep all its threads busy meanwhile.
    """
    runtime = scorer.runtime
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        photos = draw_collection(Path(folder, "drawn"), count=_PICTURES)
        files = [resize_photo(path) for path in photos]
        store = Path(folder, "store")
        with Collection.open(store, scorer, create=True) as collection:
            ids = [added.id for added in collection.add(photos)]
            tokens = np.stack([tokens for tokens, _ in collection.panels(ids).values()])
            held = list(range(1, len(ids) + 1))
            fetch = _time_rounds(lambda: collection.store.tokens(held)) / len(held)
        size = (store / DATABASE).stat().st_size / len(ids)
    vectors = Vectors(runtime.embedding_dim)
    points = random.normal(size=(_VECTORS, runtime.embedding_dim)).astype(np.float32)
    vectors.add(range(_VECTORS), points)
    return Figures(
        processor=find_processor(),
        model=runtime.name,
        embedding_dim=runtime.embedding_dim,
        token_bytes=runtime.codec.nbytes,
        picture_seconds=_time_rounds(lambda: scorer.panels(files)) * runtime.threads / len(files),
        vector_seconds=_time_rounds(lambda: vectors.search(points[0], 100)) / _VECTORS,
        fetch_seconds=fetch,
        pair_seconds=_time_rounds(lambda: scorer.logits(tokens[:1], tokens[1:])) * runtime.threads / (len(tokens) - 1),
        record_bytes=size - runtime.released.picture_bytes,
    )


def _time_rounds(work: Callable[[], object]) -> float:
    """The median of some rounds in seconds, after a warm-up round."""
    took = []
    for _ in range(_ROUNDS + 1):
        began = perf_counter()
        work()
        took.append(perf_counter() - began)
    return float(np.median(took[1:]))
