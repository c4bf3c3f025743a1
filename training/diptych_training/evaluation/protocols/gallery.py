"""Searching a gallery: the whole of it ranked by a first stage, and the first K of every query looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from diptych_runtime.crops import second_looks
from diptych_runtime.runtime import Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate, Resampling
from diptych_training.evaluation.scored import Scored, Side
from diptych_training.evaluation.stages import (
    Comparison,
    Entrants,
    Method,
    Progress,
    compare,
    describe,
    encode,
    pair_logits,
)
from diptych_training.metrics import Ranking

if TYPE_CHECKING:
    from diptych_training.evaluation.baselines import Control

_QUERIES = 256


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

    def permuted(self, scores: np.ndarray) -> Found:
        """The same candidates by other scores (Q, K); the ranks behind them stay untouched."""
        right = np.zeros(scores.shape, bool)
        for row, places in zip(right, self.places, strict=True):
            row[places[places < len(row)]] = True
        order = np.lexsort((right, -scores), axis=-1)
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


def measure(entrants: Entrants, search: Search, figures: Figures) -> tuple[Comparison, Scored]:
    """Both stages of every model and all controls on the same queries, and the pairs our model scored.

    A control that verifies takes the candidates of our first stage; any other ranks the whole gallery itself.
    """

    def look(runtime: Runtime) -> tuple[Found, Found]:
        return _two_stages(runtime, search, entrants.progress)

    def ask(control: Control, first: Found) -> Found:
        return _control(control, search, first, entrants.progress)

    def judge(name: str, found: Found) -> Method:
        ranking = found.ranking(search)
        return Method(name, figures(found, ranking), ranking)

    comparison, found = compare(entrants, look, ask, judge)
    labels, matches = comparison.ours.reranked.ranking.relevant, sum(len(right) for right in search.matches)
    scored = Scored(search.queries, search.gallery, _pairs(found), found.scores.ravel(), labels.ravel(), matches)
    return comparison, scored


def by_query(search: Search) -> Resampling:
    """Queries drawn anew."""
    return Resampling("queries", np.arange(len(search.queries.files)))


def _two_stages(runtime: Runtime, search: Search, progress: Progress) -> tuple[Found, Found]:
    """The gallery by cosine, exactly, and its candidates by logits: as a search of a collection has it."""
    stored = encode(runtime, search.gallery.files, progress, "the gallery")
    looked = encode(runtime, search.queries.files, progress, "queries", crops=runtime.crops)
    count = len(search.queries.files)
    # In float64, rounded back: in float32 the cosines of equal pictures differ in their last bits, by where they lie.
    columns = stored.embeddings.T.astype(np.float64)
    asked = runtime.queries(looked.embeddings).reshape(count, -1, runtime.embedding_dim)
    blocks = (asked[s : s + _QUERIES] @ columns for s in range(0, count, _QUERIES))
    first = _first_stage((views for block in blocks for views in block.astype(np.float32)), search)
    views = looked.tokens.reshape(count, -1, *runtime.token_shape)
    logits = pair_logits(runtime, views[:, 0], stored.tokens, _pairs(first), progress).reshape(first.order.shape)
    again = [second_looks(*of_one) for of_one in zip(logits, first.views, strict=True)]
    rows, places = np.repeat(np.arange(count), [len(of_one) for of_one in again]), np.concatenate(again)
    pairs = np.stack([rows * views.shape[1] + first.views[rows, places], first.order[rows, places]], 1)
    seen = pair_logits(runtime, looked.tokens, stored.tokens, pairs, progress)
    logits[rows, places] = np.maximum(logits[rows, places], seen)
    return first, first.permuted(runtime.normalized(logits))


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
