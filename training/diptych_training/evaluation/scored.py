"""All pairs that a model scored: what its probabilities and thresholds are worth on them, and where it was wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diptych_runtime.calibration.reliability import reliability
from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.files import captions
from diptych_training.evaluation.series import SHOWN, Evidence, Judged, Series
from diptych_training.learning.fitting.calibration import even_weights


@dataclass(frozen=True)
class Side:
    """The pictures of one side, and the folder their captions start from."""

    files: Sequence[Path]
    root: Path


@dataclass(frozen=True)
class Scored:
    """`pairs` int (P, 2), rows of the files of either side; `logits` (P,); `labels` bool (P,), True where they match.

    `matches` is how many matches there were to find, scored or not. `shown` (P,) are the probabilities after a closer
    look, None where there was none.
    """

    side_a: Side
    side_b: Side
    pairs: np.ndarray
    logits: np.ndarray
    labels: np.ndarray
    matches: int
    shown: np.ndarray | None = None

    def relevance(self, runtime: Runtime) -> np.ndarray:
        """The probabilities (P,) as they are shown."""
        return runtime.relevance(self.logits) if self.shown is None else self.shown

    def calibration(self, runtime: Runtime) -> dict[str, Any]:
        """Expected calibration error, reliability bins, and the rates at each threshold here.

        Matches and others weigh the same in all, as they do where probabilities are fitted. Empty where one is missing.
        """
        if self.labels.all() or not self.labels.any():
            return {}
        probabilities = self.relevance(runtime)
        stated = runtime.thresholds if self.shown is None else runtime.stated
        counted = reliability(probabilities, self.labels, even_weights(self.labels))
        filled = np.flatnonzero(counted.pairs)
        return {
            "ece": counted.error,
            "pairs": len(self.labels),
            "matches": int(self.labels.sum()),
            "bins": [
                {
                    "from": float(counted.edges[i]),
                    "to": float(counted.edges[i + 1]),
                    "pairs": int(counted.pairs[i]),
                    "weight": float(counted.weight[i]),
                    "confidence": float(counted.confidence[i]),
                    "frequency": float(counted.frequency[i]),
                }
                for i in filled
            ],
            "thresholds": {
                rate: {"threshold": threshold} | self.passed(probabilities >= threshold)
                for rate, threshold in stated.items()
            },
        }

    def passed(self, over: np.ndarray) -> dict[str, float]:
        """The rates of the pairs that pass, `over` bool (P,): the share of the others, and of all the matches there
        were to find.
        """
        return {
            "false_positive_rate": float(over[~self.labels].mean()),
            "recall": float(over[self.labels].sum() / self.matches),
        }

    def judged(self, runtime: Runtime) -> tuple[tuple[Judged, ...], tuple[Judged, ...]]:
        """The matches of lowest and the others of highest score, no pair twice: `SHOWN` of each at most."""
        keys = self.logits if self.shown is None else self.shown
        return self._first(runtime, self.labels, keys), self._first(runtime, ~self.labels, -keys)

    def evidence(
        self, protocol: str, title: str, runtime: Runtime, result: dict[str, Any], series: tuple[Series, ...]
    ) -> Evidence:
        """The evidence of a protocol for the model that scored these pairs, with its calibration added to `result`."""
        return Evidence(
            protocol,
            title,
            runtime.name,
            runtime.revision,
            result | {"question": runtime.question, "calibration": self.calibration(runtime)},
            series,
            self.relevance(runtime),
            self.labels,
            *self.judged(runtime),
        )

    def _first(self, runtime: Runtime, kept: np.ndarray, keys: np.ndarray) -> tuple[Judged, ...]:
        rows = np.flatnonzero(kept)
        chosen: dict[tuple[int, int], int] = {}
        for row in rows[np.argsort(keys[rows], kind="stable")]:
            a, b = (int(place) for place in self.pairs[row])
            if self.side_a is self.side_b and (b, a) in chosen:
                continue
            chosen.setdefault((a, b), int(row))
            if len(chosen) == SHOWN:
                break
        return tuple(self._judge(runtime, row) for row in chosen.values())

    def _judge(self, runtime: Runtime, row: int) -> Judged:
        file_a, file_b = self.side_a.files[self.pairs[row, 0]], self.side_b.files[self.pairs[row, 1]]
        (caption_a,), (caption_b,) = captions([file_a], self.side_a.root), captions([file_b], self.side_b.root)
        raw = self.logits[row]
        relevance = float(runtime.relevance(raw) if self.shown is None else self.shown[row])
        return Judged(file_a, file_b, caption_a, caption_b, bool(self.labels[row]), relevance, float(raw))
