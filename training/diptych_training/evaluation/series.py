"""The evidence of a protocol: the figures that `--json` prints, and what a report needs to show their origin."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diptych_training.metrics import Ranking

SHOWN = 12


@dataclass(frozen=True)
class Series:
    """One method's ranking of the same queries; `name` as tables show it, such as "first stage" or "phash"."""

    name: str
    ranking: Ranking


@dataclass(frozen=True)
class Judged:
    """One scored pair as pictures (paths, or the bytes of picture files); `match` is the truth, `relevance` in [0, 1]
    the calibrated score and `raw` the logit.
    """

    picture_a: Path | bytes
    picture_b: Path | bytes
    caption_a: str
    caption_b: str
    match: bool
    relevance: float
    raw: float


@dataclass(frozen=True)
class Evidence:
    """One protocol's outcome for one model.

    `result` is what `--json` prints; `series` the first stage, the re-ranked order, the controls and the models it is
    laid beside; `probabilities` float (P,) and `labels` bool (P,) are all scored pairs; `missed` the matches of lowest
    score and `mistaken` the others of highest score, at most `SHOWN` of each.
    """

    protocol: str
    title: str
    model: str
    revision: str
    result: dict[str, Any]
    series: tuple[Series, ...]
    probabilities: np.ndarray
    labels: np.ndarray
    missed: tuple[Judged, ...]
    mistaken: tuple[Judged, ...]
