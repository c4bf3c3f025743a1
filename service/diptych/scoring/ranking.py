"""Scores in order: what a function of the caller makes of logits, the best first, and the documents of a ranking."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import numpy as np

from diptych_runtime.calibration.verdicts import Verdict
from diptych_runtime.decoder import PictureSource
from diptych_runtime.errors import ArgumentError
from diptych_runtime.judgement import CloserLook

Activation = Callable[[np.ndarray], Any]


class RankedDocument(TypedDict):
    """A document of `Scorer.rank`: `corpus_id` is its place among the documents, `score` the probability in [0, 1] or
    the result of `activation_fn`, `raw_score` the logit; `verdict` and `closer_look` are those of `Judgement`.
    """

    corpus_id: int
    score: float
    raw_score: float
    verdict: Verdict
    closer_look: CloserLook | None
    document: NotRequired[PictureSource]


def apply_activation(function: Activation, logits: np.ndarray) -> np.ndarray:
    """The values (P,) that a function of the caller makes of logits float32 (P,).

    Raises ArgumentError for one that does not give a number for each logit.
    """
    values = np.asarray(function(logits))
    if values.shape != logits.shape:
        raise ArgumentError(f"activation_fn must return an array of the shape {logits.shape}, got {values.shape}")
    return values


def best_first(logits: np.ndarray) -> np.ndarray:
    """The permutation int64 (P,) that puts the highest of P scores first; equal scores keep their order."""
    return np.argsort(-logits, kind="stable")
