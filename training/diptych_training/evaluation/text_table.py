"""The content of `--json` as a table and lines for people."""

from collections.abc import Mapping
from typing import Any

from diptych.console import table
from diptych_training.evaluation.figures import FIGURES, counts, gains, rows


def text(protocol: str, result: Mapping[str, Any]) -> str:
    """Every method's figures with their 95 % intervals, the paired gains, and the quality of the probabilities."""
    methods = [
        [name, *(f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in figures.values())]
        for name, figures in rows(protocol, result)
    ]
    lines = [table(["", *FIGURES[protocol]], methods)]
    lines += [
        f"{name}, {key}: {value:+.3f} (95 % interval {low:+.3f} to {high:+.3f}, {result['resampled']} drawn anew)"
        for name, figures in gains(protocol, result)
        for key, (value, low, high) in figures.items()
    ]
    lines += _calibration(result["calibration"])
    if "threshold_source" in result:
        lines.append(f"threshold {result['threshold']:.5f}: {result['threshold_source']}")
    return "\n".join([*lines, ", ".join(counts(result))])


def _calibration(measured: Mapping[str, Any]) -> list[str]:
    if not measured:
        return []
    lines = [
        f"expected calibration error {measured['ece']:.3f} over {measured['pairs']:,} scored pairs, "
        "matches and others weighing the same"
    ]
    for rate, at in measured["thresholds"].items():
        lines.append(
            f"threshold {at['threshold']:.5f} for a false-positive rate of {float(rate):.2%}: "
            f"here {at['false_positive_rate']:.2%}, and {at['recall']:.1%} of the matches found"
        )
    return lines
