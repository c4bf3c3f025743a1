"""Measures of probabilities on labelled pairs that they were not fitted to, one model beside another."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_runtime.calibration.recalibration import log_loss
from diptych_runtime.calibration.reliability import expected_calibration_error
from diptych_runtime.calibration.verdicts import verdict_thresholds

_BINS = 10
_WIDE = 1.96  # standard deviations, either way, of an interval of 95 %


def measure_models(
    same: np.ndarray, groups: np.ndarray, thresholds: Mapping[str, float], models: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Measure the probabilities (P,) of several models on the same labels (P,).

    `groups` (P,) are of pairs that share pictures.

    The gain in log-loss is over the first model, with its interval of 95 %.
    """
    least, first = verdict_thresholds(thresholds), next(iter(models.values()))
    figures = {}
    for name, shown in models.items():
        gained = log_loss(first, same) - log_loss(shown, same)
        figures[name] = {
            "ece": expected_calibration_error(shown, same, bins=_BINS),
            "log_loss": float(log_loss(shown, same).mean()),
            "gain": _estimate_mean(gained, groups),
            "verdicts": {
                verdict: {
                    "least": bar,
                    "recall": float((shown[same] >= bar).mean()) if same.any() else None,
                    "false_positives": float((shown[~same] >= bar).mean()) if not same.all() else None,
                }
                for verdict, bar in least.items()
            },
        }
    return {"pairs": {"same": int(same.sum()), "different": int((~same).sum())}, "models": figures}


def measured_text(results: Mapping[str, Any]) -> str:
    """The figures of every question as a table."""
    head = ["", "ECE", "log-loss", "gain (95 %)", "found as same", "likely", "wrongly same", "likely"]
    lines = []
    for question, one in results.items():
        counts = one["pairs"]
        lines.append(f"{question}: {counts['same']} same, {counts['different']} different, each pair held out")
        rows = []
        for name, figures in one["models"].items():
            mean, low, high = figures["gain"]
            verdicts = figures["verdicts"]
            rows.append(
                [
                    *(name, f"{figures['ece']:.3f}", f"{figures['log_loss']:.3f}"),
                    f"{mean:+.3f} ({low:+.3f} to {high:+.3f})",
                    *(
                        _format_share(verdicts[verdict][key])
                        for key in ("recall", "false_positives")
                        for verdict in ("same", "likely")
                    ),
                ]
            )
        lines.append(format_table(head, rows))
        lines.append(
            "the labels support no better network: only its calibration is another"
            if one["strength"] is None
            else "the labels support a better network: it is fitted to them, and calibrated"
        )
        if one["models"]["fine-tuned"]["gain"][1] <= 0:
            lines.append("not told apart from the release by these labels: label more pairs before you use it")
    return "\n".join(lines)


def _format_share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _estimate_mean(values: np.ndarray, groups: np.ndarray) -> tuple[float, float, float]:
    """The mean of values (P,) and its interval of 95 %, where those of one group go together."""
    mean = float(values.mean())
    wide = _WIDE * math.sqrt(float(np.square(np.bincount(groups, values - mean)).sum())) / len(values)
    return mean, mean - wide, mean + wide
