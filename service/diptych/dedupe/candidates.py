"""Which pairs are looked at: every picture with its nearest neighbours by embedding."""

from __future__ import annotations

import faiss
import numpy as np

from diptych_runtime.errors import ArgumentError

CANDIDATES = 20


def candidate_pairs(
    embeddings: np.ndarray,
    count: int = CANDIDATES,
    threads: int = 1,
    *,
    queries: np.ndarray | None = None,
    asking: np.ndarray | None = None,
) -> np.ndarray:
    """Pairs int64 (P, 2), first < second, sorted: each of n unit vectors float32 (n, e) and its `count` nearest.

    `queries` are the same vectors as they ask a question (`Runtime.queries`), by default as they are. A pair is there
    once, whichever of the two is near the other. With `asking`, bool (n,), only these m look for neighbours, and two
    others are no pair. Exact, and the same for the same vectors: it takes m * n * e multiplications, 2 s for all of
    20,000 pictures and some minutes for 200,000.
    """
    if count < 1:
        raise ArgumentError(f"count must be at least 1 candidate, got {count}")
    total = len(embeddings)
    if total < 2 or (asking is not None and not asking.any()):
        return np.empty((0, 2), np.int64)
    stored = np.ascontiguousarray(embeddings, np.float32)
    asked = stored if queries is None else np.ascontiguousarray(queries, np.float32)
    own = (np.arange(total) if asking is None else np.flatnonzero(asking))[:, None]
    near = _find_nearest(asked[own[:, 0]], stored, min(count + 1, total), threads)
    others = near != own
    # A picture with equals may not be among its own neighbours: then the last one is one too many.
    others[others.all(1), -1] = False
    first, second = np.broadcast_to(own, near.shape)[others], near[others]
    keys = np.unique(np.minimum(first, second) * total + np.maximum(first, second))
    return np.stack([keys // total, keys % total], 1)


def _find_nearest(queries: np.ndarray, embeddings: np.ndarray, count: int, threads: int) -> np.ndarray:
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(threads)
    try:
        return faiss.knn(queries, embeddings, count, metric=faiss.METRIC_INNER_PRODUCT)[1].astype(np.int64)
    finally:
        faiss.omp_set_num_threads(before)
