"""Scores of pairs of stored pictures, each computed once in all runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import UnknownPictureError
from diptych_runtime.calibration.questions import COPY, THING

BATCH = 1024  # pairs, after each of which the cache has them
_KEPT = 8192  # pictures whose tokens stay in memory, 8 KB each


class PairScores:
    """Relevance scores of pairs of the pictures `ids` of a collection; pairs are places in `ids`, in either order.

    They answer the `question` that is asked of the collection's model; that of a *thing* is no lower than of a *copy*.
    `scored` counts the pairs that were asked for, `computed` those of them that the cache did not know.
    """

    def __init__(
        self,
        collection: Collection,
        ids: Sequence[str],
        pair_cache: PairCache,
        tick: Callable[[int], object] = lambda n: None,
        question: str = COPY,
    ) -> None:
        """`tick` is told how many were computed, each time some were."""
        self.collection, self.ids, self.pair_cache, self.tick = collection, ids, pair_cache, tick
        self.computed, self._shifts = 0, np.zeros(len(ids), np.float32)
        self._asked = np.empty(0, np.int64)
        self.scorer = collection.scorer.asking(question)
        runtime = self.scorer.runtime
        apart = runtime.question == THING and COPY in runtime.questions
        self._copies = PairScores(collection, ids, pair_cache) if apart else None
        self._keys, self._logits = pair_cache.get_scores(ids, self.scorer.runtime.question)
        self._tokens: OrderedDict[int, np.ndarray] = OrderedDict()

    @property
    def requested_count(self) -> int:
        """The number of different pairs that were requested."""
        return len(self._asked)

    def count_missing(self, pairs: np.ndarray) -> int:
        """The number of the pairs int64 (P, 2) that `score_pairs` would have to compute."""
        return len(np.setdiff1d(self._pair_keys(pairs), self._keys))

    def score_pairs(self, pairs: np.ndarray) -> np.ndarray:
        """Scores float64 (P,) of pairs int64 (P, 2), rounded to 7 decimals, as many as a float32 has there.

        Rounded because a report's page compares them as decimals, and has to find the same groups.
        """
        lowered = self._shifts[np.asarray(pairs, np.int64).reshape(-1, 2)].mean(1)
        logits = self.get_logits(pairs) - lowered
        scores = np.round(self.scorer.relevance(logits).astype(np.float64), 7)
        return scores if self._copies is None else np.maximum(scores, self._copies.score_without_look(pairs))

    def score_without_look(self, pairs: np.ndarray) -> np.ndarray:
        """`score_pairs` pairs as it is shown without a closer look."""
        scores, verification = self.score_pairs(pairs), self.scorer.runtime.verification
        return scores if verification is None else verification.shown_relevance(scores, [None] * len(scores))

    def hold_against(self, pairs: np.ndarray) -> None:
        """From now on hold each score against the rivals of both pictures, their `pairs` (`logit_shifts`)."""
        settings = self.scorer.runtime.question_settings
        self._shifts = settings.logit_shifts(pairs, self.get_logits(pairs), len(self.ids))

    def get_logits(self, pairs: np.ndarray) -> np.ndarray:
        """Logits float32 (P,) of pairs int64 (P, 2), whatever else there is."""
        keys = self._pair_keys(pairs)
        self._asked = np.union1d(self._asked, keys)
        self._compute_logits(np.setdiff1d(keys, self._keys))
        return self._logits[np.searchsorted(self._keys, keys)]

    def _pair_keys(self, pairs: np.ndarray) -> np.ndarray:
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        return pairs.min(1, initial=len(self.ids)) * len(self.ids) + pairs.max(1, initial=0)

    def _compute_logits(self, keys: np.ndarray) -> None:
        ids, pairs = list(self.ids), np.stack(np.divmod(keys, len(self.ids)), 1)
        logits = [self._logits]
        question = self.scorer.runtime.question
        for start in range(0, len(pairs), BATCH):
            batch = pairs[start : start + BATCH]
            self._load_tokens(set(batch.ravel().tolist()))
            first, second = (np.stack([self._tokens[place] for place in side]) for side in batch.T.tolist())
            made = self.scorer.logits(first, second)
            self.pair_cache.add_scores([(ids[a], ids[b]) for a, b in batch.tolist()], made, question)
            logits.append(made)
            self.computed += len(batch)
            self.tick(len(batch))
        found = np.concatenate([self._keys, keys])
        order = np.argsort(found)
        self._keys, self._logits = found[order], np.concatenate(logits)[order]

    def _load_tokens(self, places: set[int]) -> None:
        """Have the tokens of these pictures in memory, and forget those that were not asked for longest."""
        wanted = sorted(places - self._tokens.keys())
        found = self.collection.panels([self.ids[place] for place in wanted])
        for place in wanted:
            if (id := self.ids[place]) not in found:
                raise UnknownPictureError(
                    f"the picture {id} was removed from {self.collection.name} meanwhile; start again"
                )
            self._tokens[place], _ = found[id]
        for place in places:
            self._tokens.move_to_end(place)
        while len(self._tokens) > max(_KEPT, len(places)):
            self._tokens.popitem(last=False)
