"""A closer look at pairs that the network takes for copies, each taken once in all runs."""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import Literal, TypeVar

import numpy as np

from diptych.collection.collection import Collection
from diptych.dedupe.pair_cache import PairCache
from diptych.dedupe.pair_scores import PairScores
from diptych.errors import UnknownPictureError
from diptych.pictures.content import picture_id, read_bytes
from diptych.scoring.view_cache import ViewCache
from diptych_runtime import judgement
from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.calibration.folds import are_among
from diptych_runtime.calibration.questions import COPY
from diptych_runtime.closer_look.verification import View
from diptych_runtime.closer_look.votes import LENGTH, elected_of_crowd, make_signatures
from diptych_runtime.decoder import PictureLimits, PictureSource
from diptych_runtime.errors import PictureError

T = TypeVar("T")

LOOKS = 12  # at the pairs of one picture, at most, unless keypoints voted for more
BATCH = 16  # pairs, after each of which the cache has them; more of them would outlast a request on a busy machine


Stage = Literal["pairs", "keypoints", "closer_looks", "groups"]
# Called as a stage of a search begins, or goes on, with how much of it is missing and how much known; gives the
# callback of what is done, which may raise to end the search.
OnStage = Callable[[Stage, int, int], Callable[[int], object]]


def ignore_stage(stage: Stage, missing: int, known: int) -> Callable[[int], object]:
    """The `OnStage` that tells nobody."""
    return lambda done: None


def breadth_first(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """The permutation of pairs in which those of one picture lie close together, so that few views need be held.

    Pictures are numbered breadth first along the pairs, those with few of them first (Cuthill and McKee 1969).
    """
    beside: dict[int, list[int]] = {}
    for a, b in pairs:
        beside.setdefault(a, []).append(b)
        beside.setdefault(b, []).append(a)

    def sort_by_pair_count(pictures: Iterable[int]) -> list[int]:
        return sorted(pictures, key=lambda one: (len(beside[one]), one))

    number: dict[int, int] = {}
    for first in sort_by_pair_count(beside):
        if first in number:
            continue
        number[first] = len(number)
        queue = deque([first])
        while queue:
            for other in sort_by_pair_count(beside[queue.popleft()]):
                if other not in number:
                    number[other] = len(number)
                    queue.append(other)
    keys = [sorted((number[a], number[b]), reverse=True) for a, b in pairs]
    return sorted(range(len(pairs)), key=keys.__getitem__)


def likeliest_of_each(pairs: np.ndarray, scores: np.ndarray, needs_look: np.ndarray, most: int = LOOKS) -> np.ndarray:
    """Mark the pairs int64 (P, 2) to look at: of those that `needs_look`, bool (P,), the `most` likeliest of a picture.

    Of eighty frames of one scene each pair would deserve a look.
    """
    chosen, taken = np.zeros(len(pairs), bool), Counter[int]()
    for place in sorted(np.flatnonzero(needs_look).tolist(), key=lambda place: -scores[place]):
        ends = pairs[place].tolist()
        chosen[place] = min(taken[end] for end in ends) < most
        taken.update(ends)
    return chosen


class CloserLook:
    """Scores of pairs of the pictures `ids` after a closer look at their files, at `paths` or in the collection.

    Of a picture that has many likely pairs the likeliest are looked at (`likeliest_of_each`); the others do not match.
    `looks` says of each pair that deserved one whether it was taken; `taken` counts those that were not known, and
    `seconds` is the time that they took.
    """

    def __init__(
        self,
        collection: Collection,
        ids: Sequence[str],
        paths: Mapping[str, str],
        pair_cache: PairCache,
        question: str = COPY,
        on_stage: OnStage = ignore_stage,
        views: ViewCache | None = None,
    ) -> None:
        """Keypoints stay in `views`, by default until this is done."""
        self.collection, self.ids, self.paths, self.pair_cache = collection, ids, paths, pair_cache
        self.verification, self.on_stage = collection.scorer.asking(question).runtime.verification, on_stage
        self.looks: dict[tuple[int, int], judgement.CloserLook] = {}
        self.taken, self.seconds = 0, 0.0
        self._views = ViewCache() if views is None else views
        self._lost = set[str]()
        self._elected = np.empty((0, 2), np.int64)

    def elect_pairs(self, network: PairScores, pairs: np.ndarray, asking: np.ndarray, count: int) -> np.ndarray:
        """Candidates int64 (P, 2), up to `count` of each picture, with the pairs that local features vote for.

        They do so in a crowd, such as pages of one layout (`closer_look.votes`), where the original of a damaged copy
        may not be among its nearest. Such a pair deserves a look whatever its score; one of it is `asking`, bool (n,).
        """
        if self.verification is None:
            return pairs
        needs_look = self.verification.needs_look(network.score_pairs(pairs))
        threads = self.collection.scorer.runtime.threads
        elected = elected_of_crowd(pairs, needs_look, len(self.ids), count, self._get_signatures, threads)
        self._elected = elected[asking[elected].any(1)]
        return np.unique(np.concatenate([pairs, self._elected]), axis=0)

    def adjust_scores(self, pairs: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Scores float64 (P,) of pairs int64 (P, 2) of places in `ids`, from those that the network gave them.

        These are the network's own where its model takes no closer look.
        """
        if self.verification is None:
            return scores
        seen: list[Evidence | None] = [None] * len(pairs)
        needs_look = likeliest_of_each(pairs, scores, self.verification.needs_look(scores))
        needs_look |= are_among(pairs, self._elected)
        wanted = [(a, b) for a, b in np.sort(pairs[needs_look], 1).tolist()]
        places = np.flatnonzero(needs_look).tolist()
        for place, pair, evidence in zip(places, wanted, self._get_evidence(wanted), strict=True):
            seen[place] = evidence
            self.looks[pair] = "not taken" if evidence is None else "taken"
        return self.verification.shown_relevance(scores, seen, needs_look)

    def judge_pairs(self, network: PairScores, pairs: np.ndarray) -> np.ndarray:
        """Scores float64 (P,) of pairs int64 (P, 2) of places in `ids`, from those that the network gives them."""
        return self.adjust_scores(pairs, network.score_pairs(pairs))

    def _get_signatures(self, places: list[int]) -> list[np.ndarray]:
        """The signatures of the keypoints of the pictures at some places, none of a picture without a file."""
        ids = [self.ids[place] for place in places]
        found = self.pair_cache.get_signatures(ids)
        missing = [id for id in ids if id not in found]
        tick = self.on_stage("keypoints", len(missing), len(found))
        for batch in self._split_batches(missing, tick):
            views = self._views.get_views(batch, self._describe_pictures)
            made = {id: make_signatures(view.keypoints.descriptors) for id, view in views.items() if view is not None}
            self.pair_cache.add_signatures(made)
            found |= made
        return [found.get(id, np.empty((0, LENGTH), np.uint8)) for id in ids]

    def _get_evidence(self, pairs: list[tuple[int, int]]) -> list[Evidence | None]:
        named = [(self.ids[a], self.ids[b]) for a, b in pairs]
        seen = self.pair_cache.get_evidence(named)
        missing = [place for place in breadth_first(pairs) if seen[place] is None]
        tick = self.on_stage("closer_looks", len(missing), len(seen) - len(missing))
        for batch in self._split_batches(missing, tick):
            looked = self._look_at_pairs([named[place] for place in batch])
            made = [(place, evidence) for place, evidence in zip(batch, looked, strict=True) if evidence is not None]
            self.taken += len(made)
            self.pair_cache.add_evidence([named[place] for place, _ in made], [evidence for _, evidence in made])
            for place, evidence in made:
                seen[place] = evidence
        return seen

    def _split_batches(self, missing: list[T], tick: Callable[[int], object]) -> Iterator[list[T]]:
        """Batches, of each of which `tick` is told, and the time counted, once the caller is done with it."""
        for start in range(0, len(missing), BATCH):
            began, batch = perf_counter(), missing[start : start + BATCH]
            yield batch
            self.seconds += perf_counter() - began
            tick(len(batch))

    def _look_at_pairs(self, pairs: list[tuple[str, str]]) -> list[Evidence | None]:
        views = self._views.get_views(sorted({id for pair in pairs for id in pair}), self._describe_pictures)
        return self.collection.scorer.evidence([(views[a], views[b]) for a, b in pairs])

    def look_at_pair(self, a: str, b: str) -> Evidence | None:
        """The evidence of a closer look at two pictures by id; None where a file is missing or unreadable."""
        (seen,) = self.pair_cache.get_evidence([(a, b)])
        if seen is None:
            (seen,) = self._look_at_pairs([(a, b)])
            if seen is not None:
                self.pair_cache.add_evidence([(a, b)], [seen])
        return seen

    @property
    def limits(self) -> PictureLimits:
        """The limits within which files are read."""
        return self.collection.scorer.limits

    def _describe_pictures(self, ids: list[str]) -> dict[str, View | None]:
        """The views of pictures by id; one without a file, or that cannot be read, is asked for once."""
        sources = [None if id in self._lost else self.find_source(id) for id in ids]
        views = dict(zip(ids, self.collection.scorer.views(sources), strict=True))
        self._lost |= {id for id, view in views.items() if view is None}
        return views

    def find_source(self, id: str) -> PictureSource | None:
        """The bytes of a picture, and of no other one that has come into its place: what is seen is kept by its id."""
        try:
            if (path := self.paths.get(id)) is not None:
                data = read_bytes(path, self.collection.scorer.limits)
                if picture_id(hashlib.sha256(data).hexdigest()) == id:
                    return data
        except PictureError:
            pass
        try:
            return self.collection.content(id)[0]
        except UnknownPictureError:
            return None
