"""The common part of all protocols: the measured models, the two stages of each, and the comparison of methods side by
side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from diptych_runtime.crops import boxes
from diptych_runtime.decoder import query_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Panels, Runtime
from diptych_training.errors import DataError
from diptych_training.evaluation.estimates import Estimate
from diptych_training.evaluation.series import Series
from diptych_training.metrics import Ranking

if TYPE_CHECKING:
    from diptych_training.evaluation.baselines import Control

Progress = Callable[[Iterable[Any], int, str], Iterable[Any]]

_PICTURES, _PAIRS = 64, 1024  # decoded, and scored, at a time
FIRST, RERANKED = "first stage", "re-ranked"


@dataclass(frozen=True)
class Entrants:
    """The entrants measured on the same queries: the model, other models beside it, classical controls.

    `progress` (items, how many, what) is given every long loop.
    """

    model: Runtime
    against: Mapping[str, Runtime] = field(default_factory=dict)
    controls: Sequence[Control] = ()
    progress: Progress = lambda items, total, name: items


@dataclass(frozen=True)
class Method:
    """One way to rank: its figures by the name they have in JSON, and the ranking they come from."""

    name: str
    estimates: dict[str, Estimate]
    ranking: Ranking

    @property
    def values(self) -> dict[str, float]:
        """The figures alone."""
        return {key: estimate.value for key, estimate in self.estimates.items()}

    @property
    def intervals(self) -> dict[str, list[float]]:
        """Their 95 % intervals, [low, high]."""
        return {key: estimate.interval for key, estimate in self.estimates.items()}

    def gains_over(self, *others: Method) -> dict[str, list[float]]:
        """Each figure minus the best of the others', paired: [value, low, high]."""
        best = {key: max((o.estimates[key] for o in others), key=lambda e: e.value) for key in self.estimates}
        return {key: estimate.gain_over(best[key]) for key, estimate in self.estimates.items()}


@dataclass(frozen=True)
class Stages:
    """A model's two: by the embedding alone, and after the pair scorer has looked at both."""

    first: Method
    reranked: Method


@dataclass(frozen=True)
class Comparison:
    """The model's stages beside the controls and the stages of other models, all on the same queries."""

    ours: Stages
    controls: tuple[Method, ...]
    against: dict[str, Stages]

    def beside(self) -> dict[str, Any]:
        """The JSON of the compared methods; every gain is ours, re-ranked, minus theirs at its best."""
        ours = self.ours.reranked
        return {
            "controls": {
                control.name: control.values | {"interval": control.intervals, "gain": ours.gains_over(control)}
                for control in self.controls
            },
            "against": {
                name: {
                    "first_stage": theirs.first.values,
                    "reranked": theirs.reranked.values,
                    "interval": {"first_stage": theirs.first.intervals, "reranked": theirs.reranked.intervals},
                    "gain": ours.gains_over(theirs.first, theirs.reranked),
                }
                for name, theirs in self.against.items()
            },
        }

    def series(self) -> tuple[Series, ...]:
        """The rankings by name, ours last."""
        others = [method for stages in self.against.values() for method in (stages.first, stages.reranked)]
        methods = (*self.controls, *others, self.ours.first, self.ours.reranked)
        return tuple(Series(method.name, method.ranking) for method in methods)


Scores = TypeVar("Scores")


def compare(
    entrants: Entrants,
    look: Callable[[Runtime], tuple[Scores, Scores]],
    ask: Callable[[Control, Scores], Scores],
    judge: Callable[[str, Scores], Method],
) -> tuple[Comparison, Scores]:
    """Lay all entrants side by side, and return the scores of our model's pair part too.

    `look` gives a model's two stages, `ask` a control's answer, which may depend on our first stage, and `judge` makes
    a named method of either.
    """

    def stages(name: str | None, scores: tuple[Scores, Scores]) -> Stages:
        first, reranked = map(judge, stage_names(name), scores)
        return Stages(first, reranked)

    first, reranked = look(entrants.model)
    ours = stages(None, (first, reranked))
    controls = tuple(judge(control.name, ask(control, first)) for control in entrants.controls)
    against = {name: stages(name, look(runtime)) for name, runtime in entrants.against.items()}
    return Comparison(ours, controls, against), reranked


def stage_names(model: str | None) -> tuple[str, str]:
    """The names of a model's two stages, as tables show them; None is the model that is measured."""
    prefix = "" if model is None else f"{model}, "
    return prefix + FIRST, prefix + RERANKED


def encode(runtime: Runtime, files: Sequence[Path], progress: Progress, name: str, crops: float = 0.0) -> Panels:
    """Encode picture files with the runtime, decoding two at a time; raise `DataError` for a damaged one.

    With `crops` each has several rows, those of its views (see `query_pixels`).
    """
    views = 1 + len(boxes(crops))
    tokens = np.empty((len(files) * views, *runtime.token_shape), np.float16)
    embeddings = np.empty((len(files) * views, runtime.embedding_dim), np.float32)

    def pixels(file: Path) -> np.ndarray:
        try:
            return query_pixels(file, runtime.panel_size, crops)
        except PictureError as error:
            raise DataError(f"{error}; mend it or leave it out") from None

    with ThreadPoolExecutor(2) as pool:
        for start in progress(range(0, len(files), _PICTURES), -(-len(files) // _PICTURES), f"encoding {name}"):
            rows = slice(start * views, (start + _PICTURES) * views)
            batch = list(pool.map(pixels, files[start : start + _PICTURES]))
            tokens[rows], embeddings[rows] = runtime.encode(np.concatenate(batch))
    return Panels(tokens, embeddings)


def pair_logits(
    runtime: Runtime, tokens_a: np.ndarray, tokens_b: np.ndarray, pairs: np.ndarray, progress: Progress
) -> np.ndarray:
    """Logits float32 (P,) of its question, of `pairs` int (P, 2), rows of the tokens of either side."""
    return all_logits(runtime, tokens_a, tokens_b, pairs, progress)[:, runtime.column]


def all_logits(
    runtime: Runtime, tokens_a: np.ndarray, tokens_b: np.ndarray, pairs: np.ndarray, progress: Progress
) -> np.ndarray:
    """`pair_logits` of all questions float32 (P, Q).

    Where both sides are the same tokens each unordered pair is scored once, since the score knows no order.
    """
    inverse = None
    if tokens_a is tokens_b:
        low, high = pairs.min(1), pairs.max(1)
        keys, inverse = np.unique(low.astype(np.int64) * len(tokens_a) + high, return_inverse=True)
        pairs = np.stack(np.divmod(keys, len(tokens_a)), 1)
    logits = np.empty((len(pairs), len(runtime.questions)), np.float32)
    for start in progress(range(0, len(pairs), _PAIRS), -(-len(pairs) // _PAIRS), "looking at both (1,024 pairs)"):
        rows = slice(start, start + _PAIRS)
        logits[rows] = runtime.all_logits(tokens_a[pairs[rows, 0]], tokens_b[pairs[rows, 1]])
    return logits if inverse is None else logits[inverse]


def describe(control: Control, files: Sequence[Path], progress: Progress, name: str) -> list[Any]:
    """A control's features of picture files; raise `DataError` for a damaged one."""
    features = []
    for file in progress(files, len(files), f"{control.name} of {name}"):
        try:
            features.append(control.describe(file))
        except PictureError as error:
            raise DataError(f"{error}; mend it or leave it out") from None
    return features
