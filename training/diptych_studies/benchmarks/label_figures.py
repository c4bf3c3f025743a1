"""Figures of probabilities on pairs of known truth, and by how much another model's are better."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diptych.console import format_count, format_table
from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.calibration.verdicts import verdict_thresholds

_BINS, _DRAWS = 10, 500


@dataclass(frozen=True)
class Pairs:
    """Pairs int64 (P, 2) of pictures by number, the probabilities `shown` (P,), and `labels` (P,), True of matches."""

    places: np.ndarray
    shown: np.ndarray
    labels: np.ndarray


def figures(pairs: Pairs, stated: Mapping[str, float]) -> dict[str, Any]:
    """The expected calibration error; recall and precision at each verdict but *different*; and the measured rate at
    the threshold for each stated one.
    """
    shown, labels = pairs.shown, pairs.labels
    return {
        "ece": expected_calibration_error(shown, labels, bins=_BINS),
        "verdicts": {
            verdict: {
                "least": least,
                "recall": float((shown[labels] >= least).mean()),
                "passed": int((shown >= least).sum()),
                "precision": float(labels[shown >= least].mean()) if (shown >= least).any() else None,
            }
            for verdict, least in verdict_thresholds(stated).items()
        },
        "false_positives": {rate: float((shown[~labels] >= bar).mean()) for rate, bar in stated.items()},
    }


def gains(before: Pairs, after: Pairs, stated: Mapping[str, float], seed: int = 0) -> dict[str, list[float]]:
    """By how much the calibration error falls and the recall of each verdict rises: [value, low, high], 95 % by drawing
    pictures again.
    """
    measures: dict[str, Callable[[Pairs], float]] = {
        "ece": lambda pairs: -expected_calibration_error(pairs.shown, pairs.labels, bins=_BINS)
    }
    for verdict, least in verdict_thresholds(stated).items():
        measures[verdict] = lambda pairs, least=least: float((pairs.shown[pairs.labels] >= least).mean())
    rng, first = np.random.default_rng(seed), before.places[:, 0]
    drawn: dict[str, list[float]] = {name: [] for name in measures}
    rows = [np.flatnonzero(first == place) for place in np.unique(first)]
    for _ in range(_DRAWS):
        chosen = np.concatenate([rows[place] for place in rng.integers(0, len(rows), len(rows))])
        one, other = (Pairs(p.places[chosen], p.shown[chosen], p.labels[chosen]) for p in (before, after))
        if one.labels.any():
            for name, measure in measures.items():
                drawn[name].append(measure(other) - measure(one))
    return {
        name: [measure(after) - measure(before), *map(float, np.percentile(drawn[name], [2.5, 97.5]))]
        for name, measure in measures.items()
    }


def text(result: Mapping[str, Any]) -> str:
    """The figures as a table for people."""
    rates = list(result["ways"]["released"]["false_positives"])
    verdicts = ("same", "likely")
    head = ["", "ECE", *(f"{what} {verdict}" for verdict in verdicts for what in ("found", "right of"))]
    head += [f"wrong at {rate}" for rate in rates]
    rows = []
    for name, one in result["ways"].items():
        cells = [name, f"{one['ece']:.3f}"]
        for verdict in verdicts:
            at = one["verdicts"][verdict]
            cells += [f"{at['recall']:.1%}", "-" if at["precision"] is None else f"{at['precision']:.1%}"]
        rows.append(cells + [f"{one['false_positives'][rate]:.2%}" for rate in rates])
    pictures, labels = result["pictures"], result["labels"]
    lines = [
        result["processor"],
        f"{result['question']}: {labels['same']} pairs labelled same and {labels['different']} different, of "
        f"{pictures['labelled']:,} pictures; {result['pairs']:,} pairs of {pictures['held_out']:,} others, of which "
        f"{result['matches']:,} match",
        format_table(head, rows),
    ]
    for name, gained in result["gains"].items():
        told = ", ".join(
            f"{what} {value:+.3f} ({low:+.3f} to {high:+.3f})" for what, (value, low, high) in gained.items()
        )
        lines.append(f"{name} over released, 95 %: {told}")
    spent = ", ".join(
        f"{name} {one['processor']:.0f} s ({one['elapsed']:.0f})" for name, one in result["seconds"].items()
    )
    lines.append(f"processor time (elapsed), {format_count(result['threads'], 'thread')}: {spent}")
    return "\n".join(lines)
