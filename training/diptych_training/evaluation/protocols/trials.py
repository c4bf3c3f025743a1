"""One-shot trials: a query against candidates of which one shows the same. Argmax of the scores, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.estimates import Resampling
from diptych_training.evaluation.scored import Scored, Side
from diptych_training.evaluation.series import Evidence
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

_TRIALS = 2048


@dataclass(frozen=True)
class Trials:
    """`queries` int (T,) and `candidates` int (T, W) are rows of `files`; `right` int (T,) is the candidate's place."""

    files: Sequence[Path]
    root: Path
    queries: np.ndarray
    candidates: np.ndarray
    right: np.ndarray

    @property
    def pairs(self) -> np.ndarray:
        """All pairs (T * W, 2), trial by trial."""
        return np.stack([np.repeat(self.queries, self.candidates.shape[1]), self.candidates.ravel()], 1)

    @property
    def labels(self) -> np.ndarray:
        """Which candidate is the right one, bool (T, W)."""
        return np.arange(self.candidates.shape[1]) == self.right[:, None]


def ranked(scores: np.ndarray, labels: np.ndarray) -> Ranking:
    """Candidates of every trial (T, W), best first; of equals the right one last, so that a tie is not won."""
    order = np.lexsort((labels, -scores), axis=-1)
    relevant = np.take_along_axis(labels, order, 1)
    return Ranking(np.take_along_axis(scores, order, 1), relevant, np.ones(len(scores), bool))


def measure(entrants: Entrants, trials: Trials, resampling: Resampling) -> tuple[Comparison, Scored]:
    """Both stages of every model and all controls on the same trials, and the pairs our model scored."""
    labels = trials.labels

    def look(runtime: Runtime) -> tuple[np.ndarray, np.ndarray]:
        return _scores(runtime, trials, entrants.progress)

    def ask(control: Control, _: np.ndarray) -> np.ndarray:
        return _control(control, trials, entrants.progress)

    def judge(name: str, scores: np.ndarray) -> Method:
        ranking = ranked(scores, labels)
        return Method(name, {"accuracy": resampling.mean(ranking.relevant[:, 0])}, ranking)

    comparison, logits = compare(entrants, look, ask, judge)
    side = Side(trials.files, trials.root)
    return comparison, Scored(side, side, trials.pairs, logits.ravel(), labels.ravel(), len(labels))


def evidence(
    protocol: str,
    title: str,
    entrants: Entrants,
    measured: tuple[Comparison, Scored],
    *,
    counted: dict[str, Any],
    interval: Callable[[Method], list[float]],
    resampling: Resampling,
) -> Evidence:
    """Put together the results of a protocol of trials; `counted` comes first in its JSON."""
    comparison, scored = measured
    first, reranked = comparison.ours.first, comparison.ours.reranked
    beside = _one_figure(comparison, interval)
    result = counted | {
        "trials": len(reranked.ranking.scores),
        "accuracy": reranked.values["accuracy"],
        "interval": interval(reranked),
        "first_stage": {"accuracy": first.values["accuracy"], "interval": interval(first)},
        "gain": reranked.gains_over(first)["accuracy"],
        "resampled": resampling.unit,
    }
    return scored.evidence(protocol, title, entrants.model, result | beside, comparison.series())


def _one_figure(comparison: Comparison, interval: Callable[[Method], list[float]]) -> dict[str, Any]:
    """The JSON of `Comparison.beside` for a protocol with one figure: intervals and gains need no name of their own."""
    beside = comparison.beside()
    for control in comparison.controls:
        found = beside["controls"][control.name]
        found |= {"interval": interval(control), "gain": found["gain"]["accuracy"]}
    for name, stages in comparison.against.items():
        found = beside["against"][name]
        del found["interval"]
        found["first_stage"] |= {"interval": interval(stages.first)}
        found["reranked"] |= {"interval": interval(stages.reranked)}
        found["gain"] = found["gain"]["accuracy"]
    return beside


def _scores(runtime: Runtime, trials: Trials, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and logits (T, W)."""
    tokens, embeddings = encode(runtime, trials.files, progress, "pictures")
    cosines = np.empty(trials.candidates.shape, np.float32)
    for start in range(0, len(cosines), _TRIALS):
        rows = slice(start, start + _TRIALS)
        asked, offered = runtime.queries(embeddings[trials.queries[rows]]), embeddings[trials.candidates[rows]]
        cosines[rows] = np.einsum("td,twd->tw", asked, offered)
    return cosines, pair_logits(runtime, tokens, tokens, trials.pairs, progress).reshape(cosines.shape)


def _control(control: Control, trials: Trials, progress: Progress) -> np.ndarray:
    features = describe(control, trials.files, progress, "pictures")
    rows = progress(range(len(trials.queries)), len(trials.queries), f"{control.name}, trials")
    asked, offered = trials.queries, trials.candidates
    return np.stack([control.scores(features[asked[t]], [features[c] for c in offered[t]]) for t in rows])
