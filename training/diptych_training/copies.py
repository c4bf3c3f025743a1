"""The copies protocol: edited queries against a gallery of unedited photos, through the runtime that serves. No torch.

One table holds the hash people use today, the embedding alone, and the embedding's candidates re-ranked by the pair
scorer.
"""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from diptych_export.pictures import open_picture, panel_pixels
from diptych_export.runtime import Panels, Runtime
from diptych_training.calibration import even_weights, expected_calibration_error
from diptych_training.edits import picture_names
from diptych_training.errors import DataError
from diptych_training.metrics import Ranking, bootstrap, two_stages
from diptych_training.tables import read_table

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]


def read_truth(path: Path) -> list[tuple[str, str]]:
    """Read (query, reference) rows; an empty reference marks a query without a match."""
    rows = [(row["query"], row["reference"] or "") for row in read_table(path, ["query", "reference"])]
    if not any(reference for _, reference in rows):
        raise DataError(f"{path} names no reference: at least one query needs a match")
    return rows


def evaluate_copies(
    runtime: Runtime,
    references: Path,
    queries: Path,
    truth: Sequence[tuple[str, str]],
    *,
    candidates: int = 100,
    baselines: bool = True,
    progress: Progress = lambda items, total, name: items,
) -> dict[str, Any]:
    """Measure both stages; return micro-AP and recall of each, the paired gain with 95 % intervals, and pHash's.

    Raises `DataError` where the truth names a picture that is not there.
    """
    gallery = picture_names(references)
    asked = list(dict.fromkeys(query for query, _ in truth))
    place = {name: i for i, name in enumerate(gallery)}
    matches: dict[str, set[int]] = {query: set() for query in asked}
    for query, reference in truth:
        if reference and reference not in place:
            raise DataError(
                f"the truth names the reference {reference!r}, which is not among the {len(gallery)} of {references}"
            )
        if reference:
            matches[query].add(place[reference])
    known = np.zeros((len(asked), len(gallery)), bool)
    for row, query in enumerate(asked):
        known[row, list(matches[query])] = True
    stored = encode_files(runtime, [references / name for name in gallery], progress, "references")
    looked = encode_files(runtime, [queries / name for name in asked], progress, "queries")
    first, after = both_stages(runtime, looked, stored, known, min(candidates, len(gallery)), progress)
    result = after.summary() | {"first_stage": first.summary(), "gain": _gain(first, after)}
    result |= {"queries": len(asked), "references": len(gallery), "candidates": min(candidates, len(gallery))}
    result["calibration"] = _calibration(runtime, after)
    result["interval"] = {"micro_ap": list(bootstrap(after.micro_ap_of, len(asked)))}
    if baselines:
        result["baselines"] = {
            "phash": _phash(references, gallery, queries, asked, known, candidates, progress).summary()
        }
    return result


def both_stages(
    runtime: Runtime, looked: Panels, stored: Panels, known: np.ndarray, candidates: int, progress: Progress
) -> tuple[Ranking, Ranking]:
    """Rank by cosine, exactly; then permute the first `candidates` of each query by the pair scorer.

    `known` (Q, R) bool marks the matches.
    """
    cosines = looked.embeddings @ stored.embeddings.T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :candidates]
    rows = progress(range(len(order)), len(order), "re-ranking")
    logits = np.stack([runtime.pair_logits(looked.tokens[i : i + 1], stored.tokens[order[i]]) for i in rows])
    return two_stages(
        np.take_along_axis(cosines, order, 1),
        logits,
        np.take_along_axis(known, order, 1),
        np.asarray(known.any(axis=1)),
    )


def encode_files(runtime: Runtime, paths: Sequence[Path], progress: Progress, name: str) -> Panels:
    """Encode picture files with the runtime, decoding two at a time."""
    with ThreadPoolExecutor(2) as pool:
        starts = progress(range(0, len(paths), 64), -(-len(paths) // 64), name)
        size = runtime.panel_size
        parts = [
            runtime.encode(np.stack(list(pool.map(lambda path: panel_pixels(path, size), paths[start : start + 64]))))
            for start in starts
        ]
    return Panels(np.concatenate([p.tokens for p in parts]), np.concatenate([p.embeddings for p in parts]))


def _calibration(runtime: Runtime, after: Ranking) -> dict[str, Any]:
    """What the model's probabilities and thresholds are worth on these candidates, matches and others weighing the
    same.
    """
    probabilities, labels = runtime.relevance(after.scores.ravel()), after.relevant.ravel()
    if labels.all() or not labels.any():
        return {}
    passed = {rate: probabilities >= threshold for rate, threshold in runtime.thresholds.items()}
    return {
        "ece": expected_calibration_error(probabilities, labels, even_weights(labels)),
        "thresholds": {
            rate: {
                "threshold": runtime.thresholds[rate],
                "false_positive_rate": float(over[~labels].mean()),
                "recall": float(over[labels].sum() / after.positives.sum()),
            }
            for rate, over in passed.items()
        },
    }


def _gain(first: Ranking, after: Ranking) -> dict[str, list[float]]:
    """Paired differences, re-ranked minus first stage, as [value, low, high] by resampling queries."""
    hits = (after.ranks < 1).astype(float) - (first.ranks < 1)
    micro = lambda rows: after.micro_ap_of(rows) - first.micro_ap_of(rows)  # noqa: E731
    everything = np.arange(len(first.scores))
    return {
        "recall@1": [float(hits.mean()), *bootstrap(lambda rows: float(hits[rows].mean()), len(hits))],
        "micro_ap": [micro(everything), *bootstrap(micro, len(everything))],
    }


def _phash(
    references: Path,
    gallery: Sequence[str],
    queries: Path,
    asked: Sequence[str],
    known: np.ndarray,
    candidates: int,
    progress: Progress,
) -> Ranking:
    try:
        from imagehash import phash
    except ImportError:
        raise DataError(
            "the pHash baseline needs `pip install 'diptych[evaluate]'`; --no-baselines leaves it out"
        ) from None

    def bits(paths: Sequence[Path], name: str) -> np.ndarray:
        rows = progress(paths, len(paths), name)
        return np.stack([phash(open_picture(path)).hash.ravel() for path in rows]).astype(np.float32)

    stored = bits([references / name for name in gallery], "pHash of references")
    looked = bits([queries / name for name in asked], "pHash of queries")
    distance = looked @ (1 - stored).T + (1 - looked) @ stored.T
    order = np.argsort(distance, axis=1, kind="stable")[:, :candidates]
    return Ranking(
        -np.take_along_axis(distance, order, 1), np.take_along_axis(known, order, 1), np.asarray(known.any(axis=1))
    )
