"""Copies found over the milliseconds of a search, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diptych.console import format_count
from diptych_runtime.atomic import replacing_file
from diptych_studies.plot_files import check_plot

if TYPE_CHECKING:
    from matplotlib.text import Annotation

# Points from a dot to its name, and the end of the name that is there.
PLACES = ((7, 5, "left"), (7, -12, "left"), (-7, 5, "right"), (-7, -12, "right"), (7, 18, "left"), (7, -25, "left"))
OURS, OTHERS, GREY = "#d55e00", "#0072b2", "#666666"  # told apart with any colour vision


def plot(result: Mapping[str, Any], path: Path) -> None:
    """Draw the result of `measure` into a file, in the format its name ends in. Raises BenchError as `check_plot`
    does.
    """
    check_plot(path)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 4.6), facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.set_xscale("log")
    names = []
    for row in result["ways"]:
        middle, low, high = row["milliseconds"]
        if "micro_ap" not in row:  # what it costs is known, and not what it would find
            axes.axvline(middle, color=GREY, linestyle=":", linewidth=1)
            axes.text(middle, 0.01, f" {row['name']}", rotation=90, fontsize=8, color=GREY, ha="right", va="bottom")
            continue
        value, least, most = row["micro_ap"]
        colour = OURS if row["name"].endswith("re-ranked") else OTHERS
        across, along = [[value - least], [most - value]], [[middle - low], [high - middle]]
        axes.errorbar(middle, value, across, along, fmt="o", color=colour, markersize=6, capsize=2, linewidth=1)
        names.append(
            axes.annotate(row["name"], (middle, value), (7, 5), textcoords="offset points", fontsize=9, color=colour)
        )
    axes.set_ylim(0, 1)
    low, high = axes.get_xlim()
    axes.set_xlim(low / 1.3, high * 2)  # names stand to the right of their points
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    threads, pictures = format_count(result["threads"], "thread"), format_count(result["references"], "picture")
    axes.set_xlabel(f"milliseconds a search among {pictures} ({threads}; median, 10 to 90 %)")
    axes.set_ylabel(f"copies found: micro-AP of {format_count(result['queries'], 'query', 'queries')} (95 %)")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.draw_without_rendering()
    _place(names)
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=130)


def _place(names: Sequence[Annotation]) -> None:
    """Put each name beside its point where it covers the fewest of the other names and points."""
    from matplotlib.transforms import Bbox

    dots = [name.axes.transData.transform(name.xy) for name in names if name.axes is not None]
    taken = [Bbox([dot - 6, dot + 6]) for dot in dots]
    for name in names:
        tried = []
        for place, (x, y, align) in enumerate(PLACES):
            name.set(position=(x, y), horizontalalignment=align)
            box = name.get_window_extent()
            tried.append((sum(box.overlaps(other) for other in taken), place, box))
        _, place, box = min(tried, key=lambda one: one[:2])
        x, y, align = PLACES[place]
        name.set(position=(x, y), horizontalalignment=align)
        taken.append(box)
