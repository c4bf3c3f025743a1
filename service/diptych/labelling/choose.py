"""The pairs that teach most: near the thresholds, in disagreement, and of many different pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from diptych.collection.collection import Collection
from diptych.dedupe.candidates import candidate_pairs
from diptych.dedupe.closer import CloserLook, OnStage, ignore_stage
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.scoring.view_cache import ViewCache
from diptych.store.records import Record
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.calibration.recalibration import log_odds
from diptych_runtime.calibration.verdicts import Verdict, verdict_thresholds
from diptych_runtime.errors import ArgumentError

Reason = Literal["threshold", "disagreement", "spread"]

PICTURES = 20_000  # compared with each other, at most: of a larger collection a part that its digests choose
NEIGHBOURS = 5  # of each picture
POOL = 500  # pairs that are scored, of those not yet labelled
_SPREAD = 4  # one in so many is chosen for a probability that few of the others have
_BINS = 10


@dataclass(frozen=True)
class PairToLabel:
    """A pair worth a label: its probability and verdict now, the cosine of its embeddings, and the `reason`.

    It is near a *threshold*, in *disagreement* with the embeddings or a closer look, or adds to the *spread*.
    """

    a: Record
    b: Record
    relevance_score: float
    verdict: Verdict
    similarity: float
    reason: Reason


def pairs_to_label(
    collection: Collection,
    count: int = 10,
    *,
    question: str = COPY,
    ledger: PairCache | None = None,
    on_stage: OnStage = ignore_stage,
    views: ViewCache | None = None,
) -> list[PairToLabel]:
    """The `count` pairs of a collection that teach most and have no label yet, the best first, or all there are.

    The same collection and labels give the same pairs. The `ledger` keeps scores for the next time; `on_stage` and
    `views` are as in `duplicates_among`. Raises ArgumentError, StoreError, UnknownPictureError and ArtifactError.
    """
    if count < 1:
        raise ArgumentError(f"count must be at least 1, got {count}")
    asked = collection.scorer.asking(question).runtime
    ids = collection.store.ids(PICTURES)
    labelled = collection.store.labelled_pairs(question)
    pairs, cosines = _draw_pool(collection, ids, labelled, question)
    if not len(pairs):
        return []
    records = {ids[place]: collection.get(ids[place]) for place in np.unique(pairs).tolist()}
    ledger = ledger or PairCache(None, asked.revision)
    scores = PairScores(collection, ids, ledger, question=question)
    missing = scores.count_missing(pairs)
    scores.tick = on_stage("pairs", missing, len(pairs) - missing)
    alone = scores.score_pairs(pairs)
    paths = {id: record.path for id, record in records.items() if record.path is not None}
    shown = CloserLook(collection, ids, paths, ledger, question, on_stage, views).adjust_scores(pairs, alone)
    near = _measure_nearness(shown, verdict_thresholds(asked.question_settings.effective_thresholds)["likely"])
    apart = np.maximum(_measure_disagreement(shown, cosines), np.abs(shown - alone))
    used = Counter(id for pair in labelled for id in pair)
    chosen = _choose_pairs(near + apart, shown, [(ids[a], ids[b]) for a, b in pairs.tolist()], used, count)
    return [
        PairToLabel(
            records[ids[pairs[place, 0]]],
            records[ids[pairs[place, 1]]],
            float(shown[place]),
            asked.question_settings.verdict(float(shown[place])),
            float(cosines[place]),
            "spread" if spread else "threshold" if near[place] >= apart[place] else "disagreement",
        )
        for place, spread in chosen
    ]


def _draw_pool(
    collection: Collection, ids: Sequence[str], labelled: Sequence[tuple[str, str]], question: str
) -> tuple[np.ndarray, np.ndarray]:
    """Draw pairs int64 (P, 2) of places in `ids` without a label, and their cosines float32 (P,).

    Half are the most alike, half drawn evenly from the rest.
    """
    asked = collection.scorer.asking(question).runtime
    _, embeddings = collection.embeddings(ids)
    queries = asked.weight_queries(embeddings)
    pairs = candidate_pairs(embeddings, NEIGHBOURS, asked.threads, queries=queries)
    place = {id: number for number, id in enumerate(ids)}
    known = {tuple(sorted(place[id] for id in pair)) for pair in labelled if {*pair} <= place.keys()}
    pairs = pairs[[pair not in known for pair in map(tuple, pairs.tolist())]] if len(pairs) else pairs
    cosines = np.einsum("pe,pe->p", queries[pairs[:, 0]], embeddings[pairs[:, 1]])
    order = np.argsort(-cosines, kind="stable")
    if len(order) > POOL:
        rest = order[POOL // 2 :]
        order = np.concatenate([order[: POOL // 2], rest[np.linspace(0, len(rest) - 1, POOL // 2).astype(np.int64)]])
    return pairs[order], cosines[order]


def _measure_nearness(shown: np.ndarray, likely: float) -> np.ndarray:
    """1 where a probability (P,) lies between even odds and that of *likely*, and less the further away it is."""
    odds, bound = log_odds(shown), float(log_odds(np.array(likely)))
    return 1 / (1 + np.abs(odds - np.clip(odds, min(0.0, bound), max(0.0, bound))))


def _measure_disagreement(shown: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """The share (P,) of the pairs by which the places differ that the probability and the embeddings give a pair."""
    return np.abs(_rank_values(shown) - _rank_values(cosines)) / max(len(shown) - 1, 1)


def _rank_values(values: np.ndarray) -> np.ndarray:
    """Rank values: the place (P,) of each in their order; equal ones share the lowest."""
    ordered = np.sort(values)
    return np.searchsorted(ordered, values)


def _choose_pairs(
    worth: np.ndarray, shown: np.ndarray, pairs: Sequence[tuple[str, str]], used: Counter[str], count: int
) -> list[tuple[int, bool]]:
    """Choose places of the pairs to ask about, and whether each was chosen for the spread.

    One after the other, it is the worthiest pair whose pictures were used least.
    """
    left, bins = set(range(len(pairs))), np.minimum((shown * _BINS).astype(np.int64), _BINS - 1).tolist()
    filled: Counter[int] = Counter()
    chosen: list[tuple[int, bool]] = []

    def rate_pair(place: int) -> tuple[float, int]:
        return float(worth[place]) / (1 + sum(used[id] for id in pairs[place])) ** 2, -place

    while left and len(chosen) < count:
        spread = len(chosen) % _SPREAD == _SPREAD - 1
        rarest = min(filled[bins[place]] for place in left)
        of = [place for place in left if not spread or filled[bins[place]] == rarest]
        best = max(of, key=rate_pair)
        left.remove(best)
        chosen.append((best, spread))
        filled[bins[best]] += 1
        used.update(pairs[best])
    return chosen
