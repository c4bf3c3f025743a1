"""Searching a gallery: the whole of it ranked by a first stage, and the first K of every query looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych_runtime.calibration.evidence import Evidence
from diptych_runtime.closer_look import verification as closer_look
from diptych_runtime.crops import second_looks
from diptych_runtime.judgement import CLOSER_LOOKS, deserving, probabilities
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate, Resampling
from diptych_training.evaluation.scored import Scored, Side
from diptych_training.evaluation.stages import (
    Comparison,
    Entrants,
    Method,
    Progress,
    all_logits,
    compare,
    describe,
    encode,
)
from diptych_training.metrics import Ranking

if TYPE_CHECKING:
    from diptych_training.evaluation.baselines import Control

_QUERIES = 256
_VIEWS = 512  # pictures whose keypoints are kept, 1.3 MB each


@dataclass(frozen=True)
class Search:
    """Queries and the gallery they are searched in.

    `matches[q]` and `left_out[q]` are int arrays of gallery rows: those that are right, and those that do not take
    part, such as the query's own file. `candidates` is K.
    """

    queries: Side
    gallery: Side
    matches: Sequence[np.ndarray]
    left_out: Sequence[np.ndarray]
    candidates: int

    @property
    def depth(self) -> int:
        """The number of candidates that every query really has, at most K."""
        if self.candidates < 1:
            raise DataError(f"at least one candidate must be looked at, got --candidates {self.candidates}")
        present = len(self.gallery.files) - max(len(rows) for rows in self.left_out)
        if present < 1:
            raise DataError("the gallery has no picture but the query itself; give it more")
        return min(self.candidates, present)


@dataclass(frozen=True)
class Found:
    """A ranking of the gallery, in which of equals the right one comes last, so that a tie is not won.

    `order` int and `scores` float (Q, K) are of the candidates, best first, and `views` int (Q, K) by which view of the
    query each was found, 0 being the whole; `places` are for each query the 0-based places of all its matches in the
    whole ranking, ascending.
    """

    order: np.ndarray
    scores: np.ndarray
    views: np.ndarray
    places: tuple[np.ndarray, ...]

    def ranking(self, search: Search) -> Ranking:
        """The candidates as a `Ranking`."""
        relevant = np.stack([np.isin(row, right) for row, right in zip(self.order, search.matches, strict=True)])
        return Ranking(self.scores, relevant, np.array([len(right) for right in search.matches]))

    def permuted(self, scores: np.ndarray, *, equals: np.ndarray | None = None) -> Found:
        """The same candidates by other scores (Q, K); the ranks behind them stay untouched. Of equal ones those with
        the higher `equals` (Q, K) come first.
        """
        right = np.zeros(scores.shape, bool)
        for row, places in zip(right, self.places, strict=True):
            row[places[places < len(row)]] = True
        ties = np.zeros(scores.shape) if equals is None else equals
        order = np.lexsort((right, -ties, -scores), axis=-1)
        place = np.argsort(order, axis=1)
        moved = [
            np.sort(np.where(places < len(row), row[np.minimum(places, len(row) - 1)], places))
            for row, places in zip(place, self.places, strict=True)
        ]
        candidates, ranked, views = (
            np.take_along_axis(values, order, 1) for values in (self.order, scores, self.views)
        )
        return Found(candidates, ranked, views, tuple(moved))


Figures = Callable[[Found, Ranking], dict[str, Estimate]]


@dataclass(frozen=True)
class Searched:
    """One model's search: the `first` stage, and of its candidates the `logits` (Q, K) that the network alone gives
    and, where the model takes closer looks, the probabilities after these, `judged` (Q, K).
    """

    first: Found
    logits: np.ndarray
    judged: np.ndarray | None = None

    @property
    def alone(self) -> Found:
        """The candidates re-ranked by the network alone."""
        return self.first.permuted(self.logits)

    @property
    def reranked(self) -> Found:
        """The order of a search: after the closer look, and of what is equal then that of the network."""
        return self.alone if self.judged is None else self.first.permuted(self.judged, equals=self.logits)


@dataclass(frozen=True)
class Measured:
    """All entrants side by side, the pairs our model scored, and its order by the network `alone` where a closer look
    changes it.
    """

    comparison: Comparison
    scored: Scored
    alone: Method | None

    def closer_look(self) -> dict[str, Any]:
        """The JSON of the worth of the closer look; empty where there is none."""
        if self.alone is None:
            return {}
        gain = self.comparison.ours.reranked.gains_over(self.alone)
        return {"closer_look": {"without": self.alone.values, "interval": self.alone.intervals, "gain": gain}}


def measure(entrants: Entrants, search: Search, figures: Figures) -> Measured:
    """Both stages of every model and all controls on the same queries.

    A control that verifies takes the candidates of our first stage; any other ranks the whole gallery itself.
    """
    searched: dict[int, Searched] = {}

    def look(runtime: Runtime) -> tuple[Found, Found]:
        known = searched[id(runtime)] = _searched(runtime, search, entrants.progress)
        return known.first, known.reranked

    def ask(control: Control, first: Found) -> Found:
        return _control(control, search, first, entrants.progress)

    def judge(name: str, found: Found) -> Method:
        ranking = found.ranking(search)
        return Method(name, figures(found, ranking), ranking)

    comparison, _ = compare(entrants, look, ask, judge)
    ours = searched[id(entrants.model)]
    labels, matches = ours.first.ranking(search).relevant, sum(len(right) for right in search.matches)
    shown = None if ours.judged is None else ours.judged.ravel()
    pairs, logits = _pairs(ours.first), ours.logits.ravel()
    scored = Scored(search.queries, search.gallery, pairs, logits, labels.ravel(), matches, shown)
    return Measured(comparison, scored, None if shown is None else judge("network alone", ours.alone))


def by_query(search: Search) -> Resampling:
    """Queries drawn anew."""
    return Resampling("queries", np.arange(len(search.queries.files)))


def _searched(runtime: Runtime, search: Search, progress: Progress) -> Searched:
    """The gallery by cosine, exactly, and its candidates looked at together: as a search of a collection has it that
    answers with all of them.
    """
    stored = encode(runtime, search.gallery.files, progress, "the gallery")
    looked = encode(runtime, search.queries.files, progress, "queries", crops=runtime.crops)
    count = len(search.queries.files)
    # In float64, rounded back: in float32 the cosines of equal pictures differ in their last bits, by where they lie.
    columns = stored.embeddings.T.astype(np.float64)
    asked = runtime.queries(looked.embeddings).reshape(count, -1, runtime.embedding_dim)
    blocks = (asked[s : s + _QUERIES] @ columns for s in range(0, count, _QUERIES))
    first = _first_stage((views for block in blocks for views in block.astype(np.float32)), search)
    views = looked.tokens.reshape(count, -1, *runtime.token_shape)
    logits = all_logits(runtime, views[:, 0], stored.tokens, _pairs(first), progress).reshape(*first.order.shape, -1)
    again = [second_looks(*of_one) for of_one in zip(logits[..., runtime.column], first.views, strict=True)]
    rows, places = np.repeat(np.arange(count), [len(of_one) for of_one in again]), np.concatenate(again)
    pairs = np.stack([rows * views.shape[1] + first.views[rows, places], first.order[rows, places]], 1)
    seen = all_logits(runtime, looked.tokens, stored.tokens, pairs, progress)
    logits[rows, places] = np.maximum(logits[rows, places], seen)
    logits[..., runtime.column] = runtime.normalized(logits[..., runtime.column])
    judged = _judged(runtime, search, first, logits, progress)
    return Searched(first, np.ascontiguousarray(logits[..., runtime.column]), judged)


def _judged(
    runtime: Runtime, search: Search, found: Found, logits: np.ndarray, progress: Progress
) -> np.ndarray | None:
    """The probabilities float64 (Q, K) of candidates with logits (Q, K, questions) after a closer look at those that
    deserve one, of each query the likeliest `CLOSER_LOOKS` at most; None where the model takes none.
    """
    questions = runtime.manifest.questions
    if all(question.verification is None for question in questions.values()):
        return None
    flat = logits.reshape(-1, logits.shape[-1])
    worth = np.stack([deserving(questions, row, runtime.question, CLOSER_LOOKS) for row in logits])
    described = lru_cache(_VIEWS)(closer_look.describe)
    chosen = np.argwhere(worth).tolist()

    def look(place: list[int]) -> Evidence:
        query, candidate = place
        files = search.queries.files[query], search.gallery.files[found.order[query, candidate]]
        return closer_look.verify(*(described(file) for file in files))

    seen: list[Evidence | None] = [None] * worth.size
    with ThreadPoolExecutor(runtime.threads) as pool:
        for place, evidence in zip(
            np.flatnonzero(worth).tolist(),
            progress(pool.map(look, chosen), len(chosen), "looking closer"),
            strict=True,
        ):
            seen[place] = evidence
    return probabilities(questions, flat, seen)[runtime.question].reshape(worth.shape)


def _first_stage(rows: Iterator[np.ndarray], search: Search) -> Found:
    """Rank the whole gallery by each query's scores (V, R), of which only candidates and places are kept; a picture has
    the highest of the V views of the query.
    """
    depth, orders, scores, found, places = search.depth, [], [], [], []
    for views, left_out, right in zip(rows, search.left_out, search.matches, strict=True):
        row, by = views.max(0), views.argmax(0)
        row[left_out] = -np.inf
        order = np.lexsort((np.isin(np.arange(len(row)), right), -row))
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        orders.append(order[:depth])
        scores.append(row[order[:depth]])
        found.append(by[order[:depth]])
        places.append(np.sort(place[right]))
    return Found(np.stack(orders), np.stack(scores), np.stack(found), tuple(places))


def _control(control: Control, search: Search, first: Found, progress: Progress) -> Found:
    gallery = describe(control, search.gallery.files, progress, "the gallery")
    asked = describe(control, search.queries.files, progress, "queries")
    queries = progress(range(len(asked)), len(asked), f"{control.name}, queries")
    if control.verifies:
        return first.permuted(
            np.stack([control.scores(asked[q], [gallery[i] for i in first.order[q]]) for q in queries])
        )
    return _first_stage((np.asarray(control.scores(asked[q], gallery))[None] for q in queries), search)


def _pairs(found: Found) -> np.ndarray:
    """Every query with each of its candidates, int (Q * K, 2)."""
    queries, depth = found.order.shape
    return np.stack([np.repeat(np.arange(queries), depth), found.order.ravel()], 1)
