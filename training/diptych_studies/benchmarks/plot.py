"""The costs of operators as a picture: time, memory and FLOPs, against tokens (left) and filter sizes (right)."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diptych_runtime.atomic import replacing_file
from diptych_studies.plot_files import check_plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Rows = list[dict[str, Any]]

# Title, which way of running it (None: a number of the operator itself), the number, units in one of it.
PANELS = (
    ("forward, ms", "forward", "median", 1e-3),
    ("forward and backward, ms", "training", "median", 1e-3),
    ("peak memory, forward, MB", "forward", "peak_bytes", 1e6),
    ("peak memory, forward and backward, MB", "training", "peak_bytes", 1e6),
    ("MFLOP, forward", None, "flops", 1e6),
)
# Chosen to be told apart with any colour vision (after Okabe and Ito, and Tol); markers and labels do without colour.
COLOURS = ("#000000", "#d55e00", "#0072b2", "#009e73", "#aa4499", "#999933", "#56b4e9", "#882255", "#e69f00", "#777777")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
LINES = {"msac separable": "--", "msac cascaded": ":"}
INCHES_WIDE, INCHES_HIGH, POINTS = 6.0, 2.7, 8


def bench_plot(result: dict[str, Any], path: Path) -> None:
    """Draw the result of `bench_operators` into a file, in the format its name ends in.

    Raises `DataError` as `check_plot` does.
    """
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    both = ((result["against_tokens"], "tokens"), (result["against_windows"], "window"))
    columns = [(rows, column) for rows, column in both if rows]
    width, height = INCHES_WIDE * len(columns), INCHES_HIGH * len(PANELS) + 1
    figure = Figure(figsize=(width, height), facecolor="white")
    # pyplot, which would ask for a screen, is not needed to write a file.
    FigureCanvasAgg(figure)
    grid = figure.subplots(len(PANELS), len(columns), squeeze=False)
    # Beside every panel there is room for the labels of its lines.
    figure.subplots_adjust(0.6 / width, 0.5 / height, 1 - 1.6 / width, 1 - 0.9 / height, wspace=0.55, hspace=0.3)
    kinds = list(dict.fromkeys(row["kind"] for rows, _ in columns for row in rows))
    for place, (rows, column) in enumerate(columns):
        for number, panel in enumerate(PANELS):
            _draw_panel(grid[number, place], rows, column, panel, kinds)
        size = f"side of the filter, at {rows[0]['tokens']} tokens"
        grid[-1, place].set_xlabel("tokens of both panels" if column == "tokens" else size, fontsize=POINTS + 1)
    figure.text(0.6 / width, 1 - 0.25 / height, _format_caption(result), fontsize=POINTS + 1, va="top")
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=120)


def _format_caption(result: dict[str, Any]) -> str:
    where, pairs, threads = result["environment"], result["pairs"], result["environment"]["threads"]
    return (
        f"{pairs} pair{'s' * (pairs > 1)} of panels, d = d_o = {result['width']}, {where['dtype']}, "
        f"{threads} thread{'s' * (threads > 1)} of {where['cpu']}, torch {where['torch']}\n"
        f"times: medians of {result['repeats']} rounds, bars from quartile to quartile"
    )


def _draw_panel(
    axes: "Axes", rows: Rows, column: str, panel: tuple[str, str | None, str, float], kinds: Sequence[str]
) -> None:
    """Draw one panel, with a line and a name for every operator.

    An operator with filters of its own is a level line.
    """
    title, way, key, unit = panel
    shown = [row for row in rows if "refused" not in row]
    steps = sorted({row[column] for row in shown if row[column] is not None})
    axes.set_yscale("log")
    if column == "tokens":
        axes.set_xscale("log")
    ends: list[tuple[str, float, float, str]] = []
    for name in dict.fromkeys(row["operator"] for row in shown):
        own = [row for row in shown if row["operator"] == name]
        which = kinds.index(own[0]["kind"])
        colour, marker = COLOURS[which % len(COLOURS)], MARKERS[which % len(MARKERS)]
        numbers = [row if way is None else row[way] for row in own]
        y = [number[key] / unit for number in numbers]
        if own[0][column] is None:
            axes.axhline(y[0], color=colour, linewidth=0.8)
            ends.append((f"{name}, default", steps[-1], y[0], colour))
            continue
        x = [row[column] for row in own]
        bars = [[number.get(end, number[key]) / unit for number in numbers] for end in ("low", "high")]
        reach = [np.subtract(y, bars[0]), np.subtract(bars[1], y)] if key == "median" else None
        style = {"linestyle": LINES.get(name, "-"), "marker": marker, "color": colour, "linewidth": 1.2}
        axes.errorbar(x, y, reach, markersize=4, capsize=2, **style)
        ends.append((name, x[-1], y[-1], colour))
    axes.set_title(title, fontsize=POINTS + 1, loc="left")
    axes.set_xticks(steps, [str(step) for step in steps])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_yticks([tick for tick in _choose_ticks(low, high) if low <= tick <= high])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.tick_params(labelsize=POINTS)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    _label_lines(axes, ends)


def _choose_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 10, 100; at 2 and 5 too below three decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [step * 10.0**decade for decade in decades for step in ((1, 2, 5) if high < 1000 * low else (1,))]


def _label_lines(axes: "Axes", ends: Sequence[tuple[str, float, float, str]]) -> None:
    """Name the lines right of the axes, tied to their ends."""
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # the places below hold for these limits
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted(ends, key=lambda end: end[2])
    places = to_axes.transform([(x, y) for _, x, y, _ in ends])
    heights = spread_heights(places[:, 1], gap=(POINTS + 2) / 72 / (INCHES_HIGH / 1.3))
    for (name, _, _, colour), (x, y), height in zip(ends, places, heights, strict=True):
        axes.plot(
            [x, 1.03, 1.06], [y, height, height], color=colour, linewidth=0.5, transform=axes.transAxes, clip_on=False
        )
        axes.text(1.07, height, name.replace("_", " "), fontsize=POINTS, va="center", transform=axes.transAxes)


def spread_heights(wanted: Sequence[float] | np.ndarray, gap: float) -> np.ndarray:
    """Move ascending heights apart by at least a gap, keeping their order.

    They stay near the wanted ones, and at most 1 where there is room.
    """
    steps = np.arange(len(wanted)) * gap
    level = np.asarray(wanted) - steps
    # Pushed up only as far as needed, and down only: their mean keeps both the order and the gaps.
    pushed = np.maximum.accumulate(level) + np.minimum.accumulate(level[::-1])[::-1]
    heights = pushed / 2 + steps
    return heights - max(0.0, heights.max(initial=0) - 1)
