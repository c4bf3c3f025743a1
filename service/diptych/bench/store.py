"""`diptych bench store`: what a folder or a Milvus server takes to hold so many pictures, and to find among them.

Features are drawn, not computed: it is the place that is measured, and no model.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import islice
from time import perf_counter
from typing import Any

import numpy as np

from diptych.bench.model import find_processor
from diptych.collection.ingest import BATCH
from diptych.console import format_table
from diptych.pictures.content import picture_id
from diptych.store.open import Backend
from diptych.store.records import NewPicture
from diptych_runtime.runtime import Runtime

CANDIDATES, QUERIES = 100, 200
_CLUSTERS = 200  # that embeddings gather about, as photos of the same kinds do
_KINDS = 10


def measure_store(
    backend: Backend, runtime: Runtime, count: int, on_progress: Callable[[int], object] = lambda done: None
) -> dict[str, Any]:
    """Measure an empty collection: fill it with `count` drawn pictures, search it, and empty it again."""
    embeddings = draw_embeddings(count, runtime.embedding_dim)
    drawing, ids, adding = _draw_pictures(embeddings, runtime), [], []
    while batch := list(islice(drawing, BATCH)):
        ids += [picture.id for picture in batch]
        adding.append(_time_call(lambda batch=batch: backend.insert(batch)))
        on_progress(len(batch))
    random = np.random.default_rng(2)
    queries = embeddings[random.integers(count, size=QUERIES)] + random.normal(0, 0.03, (QUERIES, embeddings.shape[1]))
    queries = (queries / np.linalg.norm(queries, axis=1, keepdims=True)).astype(np.float32)
    seconds: dict[str, list[float]] = {"nearest": [], "tokens": [], "records": [], "whole": [], "filtered": []}
    recall = []
    for query in queries:
        began = perf_counter()
        keys, _ = backend.nearest(query, CANDIDATES, None)
        found = perf_counter()
        backend.tokens(keys.tolist())
        read = perf_counter()
        records = backend.records(keys.tolist())
        over = perf_counter()
        for stage, value in zip(seconds, (found - began, read - found, over - read, over - began), strict=False):
            seconds[stage].append(value)
        exact = np.argsort(-(embeddings @ query), kind="stable")[:CANDIDATES]
        recall.append(len({ids[place] for place in exact} & {record.id for record in records.values()}) / len(exact))
        seconds["filtered"].append(_time_call(lambda query=query: backend.nearest(query, CANDIDATES, {"kind": 3})))
    removing = _time_call(lambda: [backend.remove(ids[start : start + 1000]) for start in range(0, count, 1000)])
    return {
        "processor": find_processor(),
        "store": backend.name,
        "count": count,
        "token_bytes": runtime.codec.nbytes,
        "added_per_second": count / sum(adding),
        "batch_milliseconds": _compute_percentiles(adding),
        "milliseconds": {stage: _compute_percentiles(each) for stage, each in seconds.items()},
        "recall": float(np.mean(recall)),
        "removed_per_second": count / removing,
    }


def draw_embeddings(count: int, dimension: int) -> np.ndarray:
    """Unit vectors float32 (count, dimension) that gather in clusters, always the same."""
    random = np.random.default_rng(1)
    centres = random.normal(size=(_CLUSTERS, dimension))
    made = centres[random.integers(_CLUSTERS, size=count)] + random.normal(0, 0.7, (count, dimension))
    return (made / np.linalg.norm(made, axis=1, keepdims=True)).astype("<f4")


def format_figures(result: dict[str, Any]) -> str:
    """Format the figures as a table for people."""
    half, most = result["batch_milliseconds"]
    rows = [
        ("adding", f"{result['added_per_second']:,.0f}/s", f"{BATCH} at once: {half:.0f} ms", f"p99 {most:.0f} ms"),
        ("removing", f"{result['removed_per_second']:,.0f}/s", "", ""),
        *(
            (f"candidates: {stage}", "", f"{half:.1f} ms", f"p99 {most:.1f} ms")
            for stage, (half, most) in result["milliseconds"].items()
        ),
        (f"recall@{CANDIDATES}", f"{result['recall']:.4f}", "", ""),
    ]
    head = f"{result['count']:,} pictures in {result['store']}, {result['token_bytes']:,} bytes of tokens each"
    return "\n".join([result["processor"], head, format_table(("", "", "time", ""), rows)])


def _draw_pictures(embeddings: np.ndarray, runtime: Runtime) -> Iterator[NewPicture]:
    random, codec = np.random.default_rng(3), runtime.codec
    for number, embedding in enumerate(embeddings):
        sha256 = hashlib.sha256(f"drawn {number}".encode()).hexdigest()
        yield NewPicture(
            id=picture_id(sha256),
            sha256=sha256,
            path=f"/drawn/{number:08d}.jpg",
            media_type="image/jpeg",
            width=480,
            height=360,
            metadata={"kind": number % _KINDS},
            revision=runtime.revision,
            embedding=embedding.tobytes(),
            tokens=codec.pack_tokens(
                codec.round_tokens(random.random((1, *codec.shape), np.float32).astype(np.float16))
            )[0],
            data=None,
        )


def _time_call(work: Callable[[], object]) -> float:
    began = perf_counter()
    work()
    return perf_counter() - began


def _compute_percentiles(seconds: list[float]) -> list[float]:
    """Milliseconds: half of them took at most the first, 99 % the second."""
    return [round(1000 * float(value), 2) for value in np.percentile(seconds, [50, 99])]
