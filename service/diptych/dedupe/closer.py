"""A closer look at pairs that the network takes for copies, each taken once in all runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.errors import UnknownPictureError
from diptych_runtime import judgement
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.closer_look.evidence import Evidence
from diptych_runtime.closer_look.verification import View
from diptych_runtime.decoder import PictureSource

BATCH = 16  # pairs, after each of which the ledger has them; more of them would outlast a request on a busy machine
_KEPT = 256  # pictures whose keypoints stay in memory, 1.3 MB each


@runtime_checkable
class LookProgress(Protocol):
    """A callback of the progress of pairs that counts the closer looks by themselves."""

    def __call__(self, done: int, /) -> object:
        """So many more pairs are scored."""
        ...

    def closer_looks(self, missing: int, known: int) -> Callable[[int], object]:
        """So many more closer looks are to be taken, and so many are known; returns the callback of those taken."""
        ...


class CloserLook:
    """Scores of pairs of the pictures `ids` of a collection after a closer look at their files, which lie at `paths`
    or where the collection has them.

    A pair of which a file is not to be had is judged without (`Verification.judged`). `looks` says of each pair that
    deserved one, the lower place first, whether it was taken, and `frames` which of the two has a frame around the
    other (`Evidence.framed`).
    """

    def __init__(
        self,
        collection: Collection,
        ids: Sequence[str],
        paths: Mapping[str, str],
        ledger: PairCache,
        question: str = COPY,
        tick: Callable[[int], object] | LookProgress = lambda n: None,
    ) -> None:
        """`tick` is told how many pairs were looked at, each time some were; before that, if it is a `LookProgress`,
        how many will be.
        """
        self.collection, self.ids, self.paths, self.ledger = collection, ids, paths, ledger
        self.verification, self.tick = collection.scorer.asking(question).runtime.verification, tick
        self.looks: dict[tuple[int, int], judgement.CloserLook] = {}
        self.frames: dict[tuple[int, int], float] = {}
        self._views: OrderedDict[int, View | None] = OrderedDict()

    def scores(self, pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Scores float64 (P,) of pairs int64 (P, 2) of places in `ids`, rounded as `PairScores` does, from those that
        the network gave them: these themselves, where its model takes no closer look at what answers the question.
        """
        if self.verification is None:
            return scores
        seen: list[Evidence | None] = [None] * len(pairs)
        worth = np.flatnonzero(self.verification.worth(scores))
        wanted = [(a, b) for a, b in np.sort(pairs[worth], 1).tolist()]
        for place, pair, evidence in zip(worth.tolist(), wanted, self._seen(wanted), strict=True):
            seen[place] = evidence
            self.looks[pair] = "not taken" if evidence is None else "taken"
            if evidence is not None and evidence.framed:
                self.frames[pair] = evidence.framed
        return self.verification.judged(scores, seen)

    def _seen(self, pairs: list[tuple[int, int]]) -> list[Evidence | None]:
        named = [(self.ids[a], self.ids[b]) for a, b in pairs]
        seen = self.ledger.evidence(named)
        missing = [place for place, evidence in enumerate(seen) if evidence is None]
        tick = self.tick
        if isinstance(tick, LookProgress):
            tick = tick.closer_looks(len(missing), len(seen) - len(missing))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            looked = self._look([pairs[place] for place in batch])
            made = [(place, evidence) for place, evidence in zip(batch, looked, strict=True) if evidence is not None]
            self.ledger.add_evidence([named[place] for place, _ in made], [evidence for _, evidence in made])
            for place, evidence in made:
                seen[place] = evidence
            tick(len(batch))
        return seen

    def _look(self, pairs: list[tuple[int, int]]) -> list[Evidence | None]:
        self._load(sorted({place for pair in pairs for place in pair}))
        return self.collection.scorer.evidence([(self._views[a], self._views[b]) for a, b in pairs])

    def _load(self, places: list[int]) -> None:
        """Have the keypoints of these pictures in memory, and forget those that were not asked for longest."""
        wanted = [place for place in places if place not in self._views]
        sources = [self._source(self.ids[place]) for place in wanted]
        self._views.update(zip(wanted, self.collection.scorer.views(sources), strict=True))
        for place in places:
            self._views.move_to_end(place)
        while len(self._views) > max(_KEPT, len(places)):
            self._views.popitem(last=False)

    def _source(self, id: str) -> PictureSource | None:
        if Path(path := self.paths.get(id, "")).is_file():
            return path
        try:
            return self.collection.content(id)[0]
        except UnknownPictureError:
            return None
