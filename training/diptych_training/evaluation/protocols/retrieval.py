"""The retrieval protocol: pictures of a class searched among a gallery's, such as shop photos in a catalogue."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diptych_training.data.csv import read_table
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate
from diptych_training.evaluation.files import require
from diptych_training.evaluation.protocols.gallery import Found, Search, by_query, measure
from diptych_training.evaluation.scored import Side
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants
from diptych_training.metrics import Ranking

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
    require(files, f"pictures of {path.name}", f"its paths are relative to --root, which is {root}")
    return Labelled(files, tuple(known.values()))


def evaluate_retrieval(
    entrants: Entrants, queries: Labelled, gallery: Labelled, root: Path, *, candidates: int = 100
) -> Evidence:
    """Measure recall@1, @10, @100 (is one of the class among the first?) and mAP over the whole ranking.

    A gallery picture that is the query's own file is left out. Queries whose class the gallery lacks do not count,
    except in calibration; `DataError` where that is all of them.
    """
    search = _search(queries, gallery, root, candidates)
    counted = np.array([len(right) > 0 for right in search.matches])
    if not counted.any():
        raise DataError(
            f"no query has a picture of its class in the gallery: queries have classes such as {queries.classes[0]!r}, "
            f"the gallery such as {gallery.classes[0]!r}; a query's own file does not count"
        )
    resampling = by_query(search)

    def figures(found: Found, ranking: Ranking) -> dict[str, Estimate]:
        best = np.array([places[0] if len(places) else np.inf for places in found.places])
        return {
            **{f"recall@{depth}": resampling.mean(best < depth, counted) for depth in DEPTHS},
            "map": resampling.mean(np.array([average_precision(places) for places in found.places]), counted),
        }

    measured = measure(entrants, search, figures)
    comparison, model, ours = measured.comparison, entrants.model, measured.comparison.ours
    result = {
        "first_stage": ours.first.values,
        "reranked": ours.reranked.values,
        "gain": ours.reranked.gains_over(ours.first),
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
    return measured.scored.evidence("retrieval", title, model, result | comparison.beside(), comparison.series())


def average_precision(places: np.ndarray) -> float:
    """Average precision of one query from the 0-based places of all its matches, ascending; 0 where it has none."""
    return float(np.mean((np.arange(len(places)) + 1) / (places + 1))) if len(places) else 0.0


def _search(queries: Labelled, gallery: Labelled, root: Path, candidates: int) -> Search:
    of_class: dict[str, list[int]] = {}
    of_file: dict[Path, list[int]] = {}
    for row, (file, label) in enumerate(zip(gallery.files, gallery.classes, strict=True)):
        of_class.setdefault(label, []).append(row)
        of_file.setdefault(file.resolve(), []).append(row)
    own = [np.array(of_file.get(file.resolve(), []), np.int64) for file in queries.files]
    right = [np.array(of_class.get(label, []), np.int64) for label in queries.classes]
    matches = [np.setdiff1d(rows, itself) for rows, itself in zip(right, own, strict=True)]
    return Search(Side(queries.files, root), Side(gallery.files, root), matches, own, candidates)
