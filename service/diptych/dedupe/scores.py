"""Scores of pairs of stored pictures, each computed once in all runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from diptych.collection import Collection
from diptych.dedupe.ledger import Ledger
from diptych.errors import UnknownPictureError

BATCH = 1024  # pairs, after each of which the ledger has them
_KEPT = 8192  # pictures whose tokens stay in memory, 8 KB each


class PairScores:
    """Relevance scores of pairs of the pictures `ids` of a collection; pairs are places in `ids`, in either order.

    `looked_at` counts the pairs that were asked for, `computed` those of them that the ledger did not know.
    """

    def __init__(
        self, collection: Collection, ids: Sequence[str], ledger: Ledger, tick: Callable[[int], object] = lambda n: None
    ) -> None:
        """`tick` is told how many were computed, each time some were."""
        self.collection, self.ids, self.ledger, self.tick = collection, ids, ledger, tick
        self.computed = 0
        self._asked = np.empty(0, np.int64)
        self._keys, self._logits = ledger.scores(ids)
        self._tokens: OrderedDict[int, np.ndarray] = OrderedDict()

    @property
    def looked_at(self) -> int:
        """How many different pairs were asked for."""
        return len(self._asked)

    def missing(self, pairs: np.ndarray) -> int:
        """How many of the pairs int64 (P, 2) `of` would have to compute."""
        return len(np.setdiff1d(self._key(pairs), self._keys))

    def of(self, pairs: np.ndarray) -> np.ndarray:
        """Scores float64 (P,) of pairs int64 (P, 2), rounded to 7 decimals, as many as a float32 has there.

        Rounded because a report's page compares them as decimals, and has to find the same groups.
        """
        keys = self._key(pairs)
        self._asked = np.union1d(self._asked, keys)
        self._compute(np.setdiff1d(keys, self._keys))
        logits = self._logits[np.searchsorted(self._keys, keys)]
        return np.round(self.collection.scorer.relevance(logits).astype(np.float64), 7)

    def _key(self, pairs: np.ndarray) -> np.ndarray:
        pairs = np.asarray(pairs, np.int64).reshape(-1, 2)
        return pairs.min(1, initial=len(self.ids)) * len(self.ids) + pairs.max(1, initial=0)

    def _compute(self, keys: np.ndarray) -> None:
        ids, made = list(self.ids), [self._logits]
        for start in range(0, len(keys), BATCH):
            batch = keys[start : start + BATCH]
            first, second = (places.tolist() for places in np.divmod(batch, len(self.ids)))
            self._load({*first, *second})
            logits = self.collection.scorer.logits(
                np.stack([self._tokens[place] for place in first]), np.stack([self._tokens[place] for place in second])
            )
            self.ledger.add_scores([(ids[a], ids[b]) for a, b in zip(first, second, strict=True)], logits)
            made.append(logits)
            self.computed += len(batch)
            self.tick(len(batch))
        every = np.concatenate([self._keys, keys])
        order = np.argsort(every)
        self._keys, self._logits = every[order], np.concatenate(made)[order]

    def _load(self, places: set[int]) -> None:
        """Have the tokens of these pictures in memory, and forget those that were not asked for longest."""
        wanted = sorted(places - self._tokens.keys())
        found = self.collection.panels([self.ids[place] for place in wanted])
        for place in wanted:
            if self.ids[place] not in found:
                raise UnknownPictureError(
                    f"the picture {self.ids[place]} was removed from {self.collection.name} meanwhile; start again"
                )
            self._tokens[place] = found[self.ids[place]][0]
        for place in places:
            self._tokens.move_to_end(place)
        while len(self._tokens) > max(_KEPT, len(places)):
            self._tokens.popitem(last=False)
