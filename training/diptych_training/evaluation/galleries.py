"""Pictures searched in a gallery: all of it ranked, the first K of every query looked at again, by two protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_count
from diptych_runtime.crops import second_looks
from diptych_runtime.judgement import CLOSER_LOOKS, needs_closer_look, question_probabilities
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.data.csv import read_table
from diptych_training.data.edits import picture_names
from diptych_training.errors import DataError
from diptych_training.evaluation.stages import (
    Comparison,
    Entrants,
    Estimate,
    Evidence,
    Method,
    Progress,
    Resampling,
    Scored,
    Stages,
    all_logits,
    compare_entrants,
    encode_files,
    require_pictures,
)
from diptych_training.looks import spread_looks, take_looks
from diptych_training.metrics import Pool, Ranking

_QUERIES = 256


@dataclass(frozen=True)
class Search:
    """Queries and the gallery they are searched in.

    `matches[q]` and `left_out[q]` are int arrays of gallery rows: those that are right, and those that do not take
    part, such as the query's own file. `candidates` is K.
    """

    queries: Sequence[Path]
    gallery: Sequence[Path]
    matches: Sequence[np.ndarray]
    left_out: Sequence[np.ndarray]
    candidates: int

    @property
    def depth(self) -> int:
        """The number of candidates that every query really has, at most K."""
        if self.candidates < 1:
            raise DataError(f"at least one candidate must be looked at, got --candidates {self.candidates}")
        present = len(self.gallery) - max(len(rows) for rows in self.left_out)
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

    def make_ranking(self, search: Search) -> Ranking:
        """Make a `Ranking` of the candidates, for the measures of `metrics`."""
        relevant = np.stack([np.isin(row, right) for row, right in zip(self.order, search.matches, strict=True)])
        return Ranking(self.scores, relevant, np.array([len(right) for right in search.matches]))

    def permute_candidates(self, scores: np.ndarray, *, equals: np.ndarray | None = None) -> Found:
        """Order the same candidates by other scores (Q, K).

        The ranks behind them stay untouched. Of equal ones those with the higher `equals` (Q, K) come first.
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
        return self.first.permute_candidates(self.logits)

    @property
    def reranked(self) -> Found:
        """The order of a search: after the closer look, and of what is equal then that of the network."""
        return self.alone if self.judged is None else self.first.permute_candidates(self.judged, equals=self.logits)


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


def measure_search(entrants: Entrants, search: Search, figures: Figures) -> Measured:
    """Both stages of every model on the same queries."""

    def judge(found: Found) -> Method:
        ranking = found.make_ranking(search)
        return Method(figures(found, ranking), ranking)

    comparison, ours = compare_entrants(
        entrants,
        lambda runtime: _search_gallery(runtime, search, entrants.progress),
        lambda searched: Stages(judge(searched.first), judge(searched.reranked)),
    )
    labels, matches = ours.first.make_ranking(search).relevant, sum(len(right) for right in search.matches)
    shown = None if ours.judged is None else ours.judged.ravel()
    scored = Scored(ours.logits.ravel(), labels.ravel(), matches, shown)
    return Measured(comparison, scored, None if shown is None else judge(ours.alone))


def resample_queries(search: Search) -> Resampling:
    """Queries drawn anew."""
    return Resampling("queries", np.arange(len(search.queries)))


def _search_gallery(runtime: Runtime, search: Search, progress: Progress) -> Searched:
    """The gallery by cosine, exactly, and its candidates looked at together: as a search of a collection has it that
    answers with all of them.
    """
    first, stored, looked = rank_by_embedding(runtime, search, progress)
    count = len(search.queries)
    views = looked.tokens.reshape(count, -1, *runtime.token_shape)
    logits = all_logits(runtime, views[:, 0], stored.tokens, _list_pairs(first), progress).reshape(
        *first.order.shape, -1
    )
    again = [second_looks(*of_one) for of_one in zip(logits[..., runtime.column], first.views, strict=True)]
    rows, places = np.repeat(np.arange(count), [len(of_one) for of_one in again]), np.concatenate(again)
    pairs = np.stack([rows * views.shape[1] + first.views[rows, places], first.order[rows, places]], 1)
    seen = all_logits(runtime, looked.tokens, stored.tokens, pairs, progress)
    logits[rows, places] = np.maximum(logits[rows, places], seen)
    logits[..., runtime.column] = runtime.question_settings.normalize_logits(logits[..., runtime.column])
    judged = _judge_closer(runtime, search, first, logits, progress)
    return Searched(first, np.ascontiguousarray(logits[..., runtime.column]), judged)


def rank_by_embedding(runtime: Runtime, search: Search, progress: Progress) -> tuple[Found, Panels, Panels]:
    """Rank the gallery by cosine; return the ranking, and the gallery and the views of the queries encoded."""
    stored = encode_files(runtime, search.gallery, progress, "the gallery")
    looked = encode_files(runtime, search.queries, progress, "queries", crops=runtime.crops)
    count = len(search.queries)
    # In float64, rounded back: in float32 the cosines of equal pictures differ in their last bits, by where they lie.
    columns = stored.embeddings.T.astype(np.float64)
    asked = runtime.weight_queries(looked.embeddings).reshape(count, -1, runtime.embedding_dim)
    blocks = (asked[s : s + _QUERIES] @ columns for s in range(0, count, _QUERIES))
    return rank_gallery((views for block in blocks for views in block.astype(np.float32)), search), stored, looked


def _judge_closer(
    runtime: Runtime, search: Search, found: Found, logits: np.ndarray, progress: Progress
) -> np.ndarray | None:
    """The probabilities float64 (Q, K) of candidates with logits (Q, K, questions) after a closer look at those that
    deserve one, of each query the likeliest `CLOSER_LOOKS` at most; None where the model takes none.
    """
    questions = runtime.manifest.questions
    if all(question.verification is None for question in questions.values()):
        return None
    flat = logits.reshape(-1, logits.shape[-1])
    worth = np.stack([needs_closer_look(questions, row, runtime.question, CLOSER_LOOKS) for row in logits])
    places = np.argwhere(worth).tolist()
    files = [(search.queries[query], search.gallery[found.order[query, k]]) for query, k in places]
    looks = progress(take_looks(files, runtime.threads), len(files), "looking closer")
    seen = spread_looks(worth.ravel(), looks)
    return question_probabilities(questions, flat, seen)[runtime.question].reshape(worth.shape)


def rank_gallery(rows: Iterator[np.ndarray], search: Search) -> Found:
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


def _list_pairs(found: Found) -> np.ndarray:
    """Every query with each of its candidates, int (Q * K, 2)."""
    queries, depth = found.order.shape
    return np.stack([np.repeat(np.arange(queries), depth), found.order.ravel()], 1)


def read_truth(path: Path) -> list[tuple[str, str]]:
    """Read (query, reference) rows; an empty reference marks a query without a match."""
    rows = [(row["query"], row["reference"] or "") for row in read_table(path, ["query", "reference"])]
    if not any(reference for _, reference in rows):
        raise DataError(f"{path} names no reference: at least one query needs a match")
    return rows


def match_copies(references: Path, queries: Path, truth: Sequence[tuple[str, str]], candidates: int = 100) -> Search:
    """Make the search of the truth's queries. Raises `DataError` where it names a picture that is not there."""
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
    files = [queries / name for name in asked]
    require_pictures(files, "queries", f"the truth's paths are relative to {queries}")
    rows = [np.array(sorted(matches[query]), np.int64) for query in asked]
    none = [np.empty(0, np.int64)] * len(asked)
    return Search(files, [references / name for name in gallery], rows, none, candidates)


def judge_copies(search: Search) -> Figures:
    """Make the judge of a search for copies, by drawing queries anew."""
    resampling = resample_queries(search)

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        owner = np.repeat(np.arange(len(search.queries)), search.depth)
        pool = Pool(ranking.scores.ravel(), ranking.relevant.ravel(), owner)
        positives = ranking.positives.astype(np.int64)
        best = np.array([places[0] if len(places) else np.inf for places in found.places])
        return {
            "micro_ap": resampling.estimate(lambda n: pool.average_precision(int(n @ positives), n)),
            "recall_at_p90": resampling.estimate(lambda n: pool.recall_at_precision(int(n @ positives), counts=n)),
            "recall@1": resampling.mean(ranking.relevant[:, 0], positives > 0),
            "recall@100": resampling.mean(best < 100, positives > 0),
        }

    return figures


def evaluate_copies(
    entrants: Entrants, references: Path, queries: Path, truth: Sequence[tuple[str, str]], *, candidates: int = 100
) -> Evidence:
    """Measure micro-AP, recall at 90 % precision and recall@1 over the first `candidates`, and recall@100 over all.

    Raises `DataError` as `match_copies` does.
    """
    search = match_copies(references, queries, truth, candidates)
    measured = measure_search(entrants, search, judge_copies(search))
    comparison, model, ours = measured.comparison, entrants.model, measured.comparison.ours
    asked, gallery = (
        format_count(len(search.queries), "query", "queries"),
        format_count(len(search.gallery), "reference"),
    )
    result = {
        **ours.reranked.values,
        "first_stage": ours.first.values,
        "gain": ours.gain,
        **measured.closer_look(),
        "interval": ours.reranked.intervals | {"first_stage": ours.first.intervals},
        "queries": len(search.queries),
        "distractors": sum(not len(right) for right in search.matches),
        "references": len(search.gallery),
        "candidates": search.depth,
        "resampled": resample_queries(search).unit,
    }
    return measured.scored.evidence("copies", f"Copies: {asked} among {gallery}", model, result | comparison.beside())


DEPTHS = (1, 10, 100)


@dataclass(frozen=True)
class Labelled:
    """Pictures, each with the name of its class."""

    files: tuple[Path, ...]
    classes: tuple[str, ...]


def read_labelled(path: Path, root: Path) -> Labelled:
    """Read the columns path (below `root`) and class; a row that comes twice counts once."""
    rows = read_table(path, ["path", "class"])
    if not rows:
        raise DataError(f"{path} has no rows; expected the columns path and class")
    if lacking := [row["path"] for row in rows if not row["path"] or not row["class"]]:
        raise DataError(f"{path} has {len(lacking)} rows without a path or a class, such as that of {lacking[0]!r}")
    known: dict[Path, str] = {}
    for row in rows:
        name, label = Path(row["path"]), row["class"]
        if known.setdefault(name, label) != label:
            raise DataError(f"{path} gives {row['path']!r} two classes, {known[name]!r} and {label!r}; keep one")
    files = tuple(root / name for name in known)
    require_pictures(files, f"pictures of {path.name}", f"its paths are relative to --root, which is {root}")
    return Labelled(files, tuple(known.values()))


def evaluate_retrieval(entrants: Entrants, queries: Labelled, gallery: Labelled, *, candidates: int = 100) -> Evidence:
    """Measure recall@1, @10, @100 (is one of the class among the first?) and mAP over the whole ranking.

    A gallery picture that is the query's own file is left out. Queries whose class the gallery lacks do not count,
    except in calibration; `DataError` where that is all of them.
    """
    search = _match_classes(queries, gallery, candidates)
    counted = np.array([len(right) > 0 for right in search.matches])
    if not counted.any():
        raise DataError(
            f"no query has a picture of its class in the gallery: queries have classes such as {queries.classes[0]!r}, "
            f"the gallery such as {gallery.classes[0]!r}; a query's own file does not count"
        )
    resampling = resample_queries(search)

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        best = np.array([places[0] if len(places) else np.inf for places in found.places])
        return {
            **{f"recall@{depth}": resampling.mean(best < depth, counted) for depth in DEPTHS},
            "map": resampling.mean(np.array([average_precision(places) for places in found.places]), counted),
        }

    measured = measure_search(entrants, search, figures)
    comparison, model, ours = measured.comparison, entrants.model, measured.comparison.ours
    result = {
        "first_stage": ours.first.values,
        "reranked": ours.reranked.values,
        "gain": ours.gain,
        **measured.closer_look(),
        "interval": {"first_stage": ours.first.intervals, "reranked": ours.reranked.intervals},
        "queries": int(counted.sum()),
        "queries_without_match": int((~counted).sum()),
        "gallery": len(gallery.files),
        "classes": len(set(gallery.classes)),
        "candidates": search.depth,
        "resampled": resampling.unit,
    }
    title = f"Retrieval: {int(counted.sum())} queries, {len(gallery.files):,} pictures in the gallery"
    return measured.scored.evidence("retrieval", title, model, result | comparison.beside())


def average_precision(places: np.ndarray) -> float:
    """Average precision of one query from the 0-based places of all its matches, ascending; 0 where it has none."""
    return float(np.mean((np.arange(len(places)) + 1) / (places + 1))) if len(places) else 0.0


def _match_classes(queries: Labelled, gallery: Labelled, candidates: int) -> Search:
    of_class: dict[str, list[int]] = {}
    of_file: dict[Path, list[int]] = {}
    for row, (file, label) in enumerate(zip(gallery.files, gallery.classes, strict=True)):
        of_class.setdefault(label, []).append(row)
        of_file.setdefault(file.resolve(), []).append(row)
    own = [np.array(of_file.get(file.resolve(), []), np.int64) for file in queries.files]
    right = [np.array(of_class.get(label, []), np.int64) for label in queries.classes]
    matches = [np.setdiff1d(rows, itself) for rows, itself in zip(right, own, strict=True)]
    return Search(queries.files, gallery.files, matches, own, candidates)
