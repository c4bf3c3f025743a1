"""The scores of all methods, with intervals, as one list of rows whichever the protocol: for the table on a terminal
and in a report.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from diptych.console import format_table
from diptych_training.evaluation.stages import stage_names

FIGURES = {
    "oneshot": ("accuracy",),
    "episodes": ("accuracy",),
    "retrieval": ("recall@1", "recall@10", "recall@100", "map"),
    "copies": ("recall@1", "micro_ap", "recall_at_p90"),
    "pairs": ("auc", "average_precision"),
}


class Figure(NamedTuple):
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float


class Row(NamedTuple):
    """One method's figures, or one gain's, by the names they have in JSON."""

    name: str
    figures: dict[str, Figure]


def list_rows(protocol: str, result: Mapping[str, Any]) -> list[Row]:
    """List one row of figures for each method that was measured.

    Controls, other models, then the model's first stage and, last, its re-ranked order.
    """
    keys = FIGURES[protocol]
    found = [_make_row(name, keys, control, control["interval"]) for name, control in result["controls"].items()]
    for name, other in result["against"].items():
        first, reranked = stage_names(name)
        found.append(_make_row(first, keys, other["first_stage"], _find_intervals(other, "first_stage")))
        found.append(_make_row(reranked, keys, other["reranked"], _find_intervals(other, "reranked")))
    first, reranked = stage_names(None)
    reranked += f", first {result['candidates']}" if "candidates" in result else ""
    found.append(_make_row(first, keys, result["first_stage"], _find_intervals(result, "first_stage")))
    found.append(_make_row(reranked, keys, result.get("reranked", result), _find_intervals(result, "reranked")))
    return found


def list_gains(protocol: str, result: Mapping[str, Any]) -> list[Row]:
    """List the gains of the re-ranked order over everything else.

    Over the embedding alone, over each control and over each other model.
    """
    others = {f"gain over {name}": other["gain"] for name, other in (result["controls"] | result["against"]).items()}
    keys = FIGURES[protocol]
    return [
        _make_gain(name, keys, gain) for name, gain in ({"gain by looking at both": result["gain"]} | others).items()
    ]


_COUNTS = ("trials", "episodes", "ways", "queries", "references", "gallery", "distractors", "pairs", "matches")
_ONE = {
    "trials": "trial",
    "episodes": "episode",
    "ways": "way",
    "queries": "query",
    "references": "reference",
    "distractors": "distractor",
    "pairs": "pair",
    "matches": "match",
}


def list_counts(result: Mapping[str, Any]) -> list[str]:
    """List the counts of a measurement, as texts such as "500 queries"."""
    found = [f"{result[key]:,} {_ONE.get(key, key) if result[key] == 1 else key}" for key in _COUNTS if key in result]
    if result.get("queries_without_match"):
        found.append(f"{result['queries_without_match']:,} queries without a match in the gallery, which do not count")
    return found


def _find_intervals(result: Mapping[str, Any], stage: str) -> Any:
    """The intervals of a stage: in it, where there is one figure only, or in `interval`, there below its name."""
    inside = result.get(stage, result).get("interval")
    if isinstance(inside, list):
        return inside
    around = result["interval"]
    return around.get(stage, around)


def _make_row(name: str, keys: tuple[str, ...], values: Mapping[str, float], interval: Any) -> Row:
    reach = interval if isinstance(interval, Mapping) else {keys[0]: interval}
    return Row(name, {key: Figure(values[key], *reach[key]) for key in keys})


def _make_gain(name: str, keys: tuple[str, ...], gain: Any) -> Row:
    reach = gain if isinstance(gain, Mapping) else {keys[0]: gain}
    return Row(name, {key: Figure(*reach[key]) for key in keys})


def format_figures(protocol: str, result: Mapping[str, Any]) -> str:
    """Format every method's figures with their 95 % intervals as text.

    The paired gains follow, and the quality of the probabilities.
    """
    methods = [
        [name, *(f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in figures.values())]
        for name, figures in list_rows(protocol, result)
    ]
    lines = [format_table(["", *FIGURES[protocol]], methods)]
    lines += [
        f"{name}, {key}: {value:+.3f} (95 % interval {low:+.3f} to {high:+.3f}, {result['resampled']} drawn anew)"
        for name, figures in list_gains(protocol, result)
        for key, (value, low, high) in figures.items()
    ]
    lines += _format_calibration(result["calibration"])
    if "threshold_source" in result:
        lines.append(f"threshold {result['threshold']:.5f}: {result['threshold_source']}")
    return "\n".join([*lines, ", ".join(list_counts(result))])


def _format_calibration(measured: Mapping[str, Any]) -> list[str]:
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
