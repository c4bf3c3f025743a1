"""The scores of all methods, with intervals, as a table for people, whichever the protocol."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from diptych.console import format_table

FIGURES = {
    "oneshot": ("accuracy",),
    "episodes": ("accuracy",),
    "retrieval": ("recall@1", "recall@10", "recall@100", "map"),
    "copies": ("recall@1", "micro_ap", "recall_at_p90"),
    "pairs": ("auc", "average_precision"),
}
_COUNTS = ("trials", "episodes", "ways", "queries", "references", "gallery", "distractors", "pairs", "matches")


def format_figures(protocol: str, result: Mapping[str, Any]) -> str:
    """Format every method's figures with their 95 % intervals as text.

    The paired gains follow, and the quality of the probabilities.
    """
    keys = FIGURES[protocol]
    methods = [
        [name, *(_format_interval(values[key], _of_figure(intervals, key)) for key in keys)]
        for name, values, intervals in _list_methods(result)
    ]
    lines = [format_table(["", *keys], methods)]
    gains = {"gain by looking at both": result["gain"]}
    gains |= {f"gain over {name}": other["gain"] for name, other in result["against"].items()}
    for name, gain in gains.items():
        for key in keys:
            value, low, high = _of_figure(gain, key)
            reach = f"95 % interval {low:+.3f} to {high:+.3f}, {result['resampled']} drawn anew"
            lines.append(f"{name}, {key}: {value:+.3f} ({reach})")
    lines += _format_calibration(result["calibration"])
    if "threshold_source" in result:
        lines.append(f"threshold {result['threshold']:.5f}: {result['threshold_source']}")
    counts = [f"{key} {result[key]:,}" for key in _COUNTS if key in result]
    if result.get("queries_without_match"):
        counts.append(f"{result['queries_without_match']:,} queries without a match in the gallery, which do not count")
    return "\n".join([*lines, ", ".join(counts)])


def _list_methods(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """List each method's name, figures and intervals: other models, then the model that is measured."""
    for name, other in (result["against"] | {None: result}).items():
        prefix = f"{name}, " if name else ""
        yield f"{prefix}first stage", other["first_stage"], _find_intervals(other, "first_stage")
        seen = f", first {result['candidates']}" if name is None and "candidates" in result else ""
        yield f"{prefix}re-ranked{seen}", other.get("reranked", other), _find_intervals(other, "reranked")


def _find_intervals(result: Mapping[str, Any], stage: str) -> Any:
    """The intervals of a stage: in it, where there is one figure only, or in `interval`, there below its name."""
    inside = result.get(stage, result).get("interval")
    if isinstance(inside, list):
        return inside
    return result["interval"].get(stage, result["interval"])


def _of_figure(values: Any, key: str) -> Sequence[float]:
    """The values of one figure, which have no name of their own where it is the only one."""
    return values[key] if isinstance(values, Mapping) else values


def _format_interval(value: float, interval: Sequence[float]) -> str:
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def _format_calibration(measured: Mapping[str, Any]) -> Iterator[str]:
    if measured:
        yield (
            f"expected calibration error {measured['ece']:.3f} over {measured['pairs']:,} scored pairs, "
            "matches and others weighing the same"
        )
        for rate, at in measured["thresholds"].items():
            yield (
                f"threshold {at['threshold']:.5f} for a false-positive rate of {float(rate):.2%}: "
                f"here {at['false_positive_rate']:.2%}, and {at['recall']:.1%} of the matches found"
            )
