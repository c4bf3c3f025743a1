"""The costs of operators as tables for people."""

import math
from collections.abc import Iterator
from typing import Any

from diptych.console import table

MEASURES = ("forward ms", "ratio", "training ms", "ratio", "forward MB", "training MB", "MFLOP", "parameters")


def bench_text(result: dict[str, Any]) -> str:
    """The result of `bench_operators` for people: how it was measured, a table against tokens, one against windows."""
    where, pairs, yardstick = result["environment"], result["pairs"], result["yardstick"]
    parts = [
        f"{pairs} pair{'s' * (pairs > 1)} of panels, d = d_o = {result['width']}, {where['dtype']}, "
        f"{where['threads']} thread{'s' * (where['threads'] > 1)} of {where['cores']} ({where['cpu']}, "
        f"{where['instructions']}), torch {where['torch']}, load before the run {where['load']}.\n"
        f"Times: medians and quartiles of {result['repeats']} interleaved rounds; ratio: to {yardstick} in the same "
        "round, median.\n"
        "training: forward and backward. MB: the most held at one moment above input and parameters. MFLOP: forward."
    ]
    for rows, column in ((result["against_tokens"], "tokens"), (result["against_windows"], "window")):
        if rows:
            parts.append(table(["operator", column, *MEASURES], [list(_cells(row, column)) for row in rows]))
            parts += [f"{row['operator']} at T = {row['tokens']}: {row['refused']}" for row in rows if "refused" in row]
    return "\n\n".join(parts)


def _cells(row: dict[str, Any], column: str) -> Iterator[str]:
    yield row["operator"]
    yield "own" if row[column] is None else str(row[column])
    if "refused" in row:
        yield from ("refused", *[""] * (len(MEASURES) - 1))
        return
    for way in ("forward", "training"):
        low, median, high = (_figures(row[way][name] * 1e3) for name in ("low", "median", "high"))
        yield f"{median:>6} ({low}-{high})"
        yield _figures(row[way]["ratio"])
    for way in ("forward", "training"):
        yield _figures(row[way]["peak_bytes"] / 1e6)
    yield _figures(row["flops"] / 1e6)
    yield str(row["parameters"])


def _figures(value: float) -> str:
    """Three significant figures, whole numbers in full."""
    return f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}" if value else "0"
