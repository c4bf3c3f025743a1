"""The copies protocol: edited queries against a gallery of unedited photos."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from diptych.console import counted
from diptych_training.data.csv import read_table
from diptych_training.data.edits import picture_names
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate
from diptych_training.evaluation.files import require
from diptych_training.evaluation.protocols.gallery import Found, Search, by_query, measure
from diptych_training.evaluation.scored import Side
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants
from diptych_training.metrics import Pool, Ranking


def read_truth(path: Path) -> list[tuple[str, str]]:
    """Read (query, reference) rows; an empty reference marks a query without a match."""
    rows = [(row["query"], row["reference"] or "") for row in read_table(path, ["query", "reference"])]
    if not any(reference for _, reference in rows):
        raise DataError(f"{path} names no reference: at least one query needs a match")
    return rows


def evaluate_copies(
    entrants: Entrants, references: Path, queries: Path, truth: Sequence[tuple[str, str]], *, candidates: int = 100
) -> Evidence:
    """Measure micro-AP, recall at 90 % precision and recall@1 over the first `candidates`, and recall@100 over all.

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
    files = [queries / name for name in asked]
    require(files, "queries", f"the truth's paths are relative to {queries}")
    rows = [np.array(sorted(matches[query]), np.int64) for query in asked]
    none = [np.empty(0, np.int64)] * len(asked)
    looked, stored = Side(files, queries), Side([references / name for name in gallery], references)
    search = Search(looked, stored, rows, none, candidates)
    resampling = by_query(search)

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        pool = Pool(ranking.scores.ravel(), ranking.relevant.ravel(), np.repeat(np.arange(len(asked)), search.depth))
        positives = ranking.positives.astype(np.int64)
        best = np.array([places[0] if len(places) else np.inf for places in found.places])
        return {
            "micro_ap": resampling.estimate(lambda n: pool.average_precision(int(n @ positives), n)),
            "recall_at_p90": resampling.estimate(lambda n: pool.recall_at_precision(int(n @ positives), counts=n)),
            "recall@1": resampling.mean(ranking.relevant[:, 0], positives > 0),
            "recall@100": resampling.mean(best < 100, positives > 0),
        }

    measured = measure(entrants, search, figures)
    comparison, model, ours = measured.comparison, entrants.model, measured.comparison.ours
    result = {
        **ours.reranked.values,
        "first_stage": ours.first.values,
        "gain": ours.reranked.gains_over(ours.first),
        **measured.closer_look(),
        "interval": ours.reranked.intervals | {"first_stage": ours.first.intervals},
        "queries": len(asked),
        "distractors": sum(not len(right) for right in rows),
        "references": len(gallery),
        "candidates": search.depth,
        "resampled": resampling.unit,
    }
    title = f"Copies: {counted(len(asked), 'query', 'queries')} among {counted(len(gallery), 'reference')}"
    return measured.scored.evidence("copies", title, model, result | comparison.beside(), comparison.series())
