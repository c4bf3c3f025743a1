"""The pairs protocol: labelled pairs of pictures, each scored for itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.runtime import Runtime
from diptych_training.data.csv import LABELS, read_table
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Resampling
from diptych_training.evaluation.files import require
from diptych_training.evaluation.scored import Scored, Side
from diptych_training.evaluation.series import Evidence
from diptych_training.evaluation.stages import Entrants, Method, Progress, compare, describe, encode, pair_logits
from diptych_training.learning.fitting.calibration import even_weights
from diptych_training.metrics import Pool, Ranking

if TYPE_CHECKING:
    from diptych_training.evaluation.baselines import Control

COLUMNS = ("image_a", "image_b", "label")
# The false-positive rate of the threshold that is named first.
RATE = "0.01"


@dataclass(frozen=True)
class LabelledPairs:
    """`pairs` int (P, 2) are rows of `files`; `labels` bool (P,) say which show the same."""

    files: tuple[Path, ...]
    pairs: np.ndarray
    labels: np.ndarray


def read_pairs(path: Path, root: Path) -> LabelledPairs:
    """Read the columns image_a, image_b (below `root`) and label (1 or 0, true or false, yes or no)."""
    rows, files = read_table(path, COLUMNS), {}
    pairs, labels = [], []
    for number, row in enumerate(rows, 1):
        label = LABELS.get(row["label"].strip().lower())
        if label is None or not row["image_a"] or not row["image_b"]:
            raise DataError(
                f"row {number} of {path} must name two pictures and a label of {', '.join(LABELS)}; "
                f"it has {row['image_a']!r}, {row['image_b']!r} and {row['label']!r}"
            )
        pairs.append([files.setdefault(root / row[side], len(files)) for side in COLUMNS[:2]])
        labels.append(label)
    if len(set(labels)) < 2:
        raise DataError(f"{path} needs pairs of both labels, got {sum(labels)} that match of {len(labels)}")
    require(list(files), f"pictures of {path.name}", f"its paths are relative to --root, which is {root}")
    return LabelledPairs(tuple(files), np.array(pairs, np.int64), np.array(labels))


def evaluate_pairs(entrants: Entrants, given: LabelledPairs, root: Path) -> Evidence:
    """Measure the separation of matches from others by scores, and the quality of the probabilities and the threshold.

    The threshold is the model's own for 1 % false positives; a model without one gets that which parts these pairs
    best.
    """
    labels = given.labels
    resampling = Resampling("pairs", np.arange(len(labels)))
    model = entrants.model

    def look(runtime: Runtime) -> tuple[np.ndarray, np.ndarray]:
        return _scores(runtime, given, entrants.progress)

    def ask(control: Control, _: np.ndarray) -> np.ndarray:
        return _control(control, given, entrants.progress)

    def judge(name: str, scores: np.ndarray) -> Method:
        pool, order = Pool(scores, labels, np.arange(len(labels))), np.argsort(-scores, kind="stable")
        ranking = Ranking(scores[None, order], labels[None, order], np.array([labels.sum()]))
        precision = resampling.estimate(lambda n: pool.average_precision(int(n @ labels), n))
        return Method(name, {"auc": resampling.estimate(pool.auc), "average_precision": precision}, ranking)

    comparison, logits = compare(entrants, look, ask, judge)
    ours = comparison.ours
    side = Side(given.files, root)
    scored = Scored(side, side, given.pairs, logits, labels, int(labels.sum()))
    probabilities = model.relevance(logits)

    def error(counts: np.ndarray) -> float:
        drawn = np.repeat(np.arange(len(labels)), counts)
        both = labels[drawn].any() and not labels[drawn].all()
        if not both:
            return float("nan")
        return expected_calibration_error(probabilities[drawn], labels[drawn], even_weights(labels[drawn]))

    ece = resampling.estimate(error)
    result = {
        **ours.reranked.values,
        "ece": ece.value,
        **_threshold(model, scored, probabilities),
        "first_stage": ours.first.values,
        "gain": ours.reranked.gains_over(ours.first),
        "interval": ours.reranked.intervals | {"ece": ece.interval, "first_stage": ours.first.intervals},
        "pairs": len(labels),
        "matches": int(labels.sum()),
        "resampled": resampling.unit,
    }
    title = f"Pairs: {len(labels):,}, of which {int(labels.sum()):,} match"
    return scored.evidence("pairs", title, model, result | comparison.beside(), comparison.series())


def _scores(runtime: Runtime, given: LabelledPairs, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and logits (P,)."""
    tokens, embeddings = encode(runtime, given.files, progress, "pictures")
    asked = runtime.queries(embeddings)
    cosines = np.einsum("pd,pd->p", asked[given.pairs[:, 0]], embeddings[given.pairs[:, 1]])
    return cosines, pair_logits(runtime, tokens, tokens, given.pairs, progress)


def _control(control: Control, given: LabelledPairs, progress: Progress) -> np.ndarray:
    features = describe(control, given.files, progress, "pictures")
    rows = progress(given.pairs, len(given.pairs), f"{control.name}, pairs")
    return np.array([control.scores(features[a], [features[b]])[0] for a, b in rows])


def _threshold(model: Runtime, scored: Scored, probabilities: np.ndarray) -> dict[str, Any]:
    """The threshold, its origin, and the rates that it gives here."""
    if RATE in model.thresholds:
        threshold, source = model.thresholds[RATE], f"the model's for {float(RATE):.0%} false positives"
    else:
        pool = Pool(probabilities, scored.labels)
        found, others = pool.curve()
        threshold = float(pool.places[np.argmax(found / found[-1] - others / others[-1])])
        source = "chosen on these pairs, as the model has none: the highest recall minus false-positive rate"
    over = probabilities >= threshold
    precision = float(scored.labels[over].mean()) if over.any() else None
    return {
        "threshold": threshold,
        "threshold_source": source,
        "at_threshold": scored.passed(over)
        | {"precision": precision, "accuracy": float((over == scored.labels).mean())},
    }
