"""A study of networks that translate: the Transformer, and the recurrent network with additive or dot attention."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_studies.grid import run_grid, write_runs
from diptych_studies.learning.translation import TASKS, task_shape, train_translation
from diptych_studies.networks.translation import KINDS, TranslationConfig
from diptych_training.errors import DataError

COLUMNS: tuple[str, ...] = ("task", "network", "seed", "parameters", "steps", "rate", "greedy", "beam", "curve")


def study_translation(
    directory: Path,
    *,
    steps: int = 600,
    rate: float = 5e-3,
    seeds: int = 3,
    tasks: Sequence[str] = tuple(TASKS),
    kinds: Sequence[str] = KINDS,
    shape: TranslationConfig | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Train every network on every task with every seed; return a row a run, in `translation.csv` too.

    Each run is a file in the directory, not computed again (see `run_grid`, also for `processes` and `finished`). All
    have the width of `shape`, and its vocabulary and longest sequence where the task has none of its own.
    """
    if seeds < 1 or not tasks or not kinds:
        raise DataError(
            f"a study needs a task, a network and a seed, got {tuple(tasks)}, {tuple(kinds)}, {seeds} seeds"
        )
    base = shape or TranslationConfig()
    runs = {
        f"translation-{task}-{kind}-seed-{seed}": {
            **{"task": task, "config": asdict(task_shape(task, replace(base, kind=kind)))},
            **{"steps": steps, "rate": rate, "seed": seed},
        }
        for seed, task, kind in product(range(seeds), tasks, kinds)
    }
    results = run_grid(directory, runs, train_from, processes=processes, finished=finished)
    rows = [
        {"task": run["task"], "network": run["config"]["kind"], "seed": run["seed"], "steps": steps, "rate": rate}
        | results[name]
        for name, run in runs.items()
    ]
    rows.sort(key=lambda row: (list(tasks).index(row["task"]), list(kinds).index(row["network"]), row["seed"]))
    short = (row | {decoding: round(row[decoding], 4) for decoding in ("greedy", "beam")} for row in rows)
    write_runs(directory / "translation.csv", COLUMNS, short)
    return rows


def train_from(task: str, config: Mapping[str, Any], steps: int, rate: float, seed: int) -> dict[str, Any]:
    """One run of a study, from settings that are JSON."""
    return train_translation(TranslationConfig(**config), task, steps=steps, rate=rate, seed=seed)[1]


def translation_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The runs as a table, a line for each task and network: shares of held-out targets without a fault."""
    lines = []
    for task, kind in dict.fromkeys((row["task"], row["network"]) for row in rows):
        found = [row for row in rows if (row["task"], row["network"]) == (task, kind)]
        cells = [task, kind, found[0]["parameters"], f"{np.mean([row['curve'][-1] for row in found]):.3f}"]
        for decoding in ("greedy", "beam"):
            shares = np.array([row[decoding] for row in found])
            cells += [f"{shares.mean():.1%}", f"{shares.min():.1%}"]
        lines.append(cells)
    header = ("task", "network", "parameters", "last loss", "greedy", "worst seed", "beam", "worst seed")
    seeds = len({row["seed"] for row in rows})
    return (
        f"{format_table(header, lines)}\nShares of held-out targets written without a fault; {rows[0]['steps']} steps, "
        f"{seeds} seed{'s' if seeds > 1 else ''}."
    )


def draw_alignments(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw the alignments of the first seed as .png, .svg or .pdf: a map for each task and network, the target from top
    to bottom, the source from left to right.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = [row for row in rows if row["seed"] == rows[0]["seed"]]
    tasks = list(dict.fromkeys(row["task"] for row in first))
    kinds = list(dict.fromkeys(row["network"] for row in first))
    figure = Figure((2.4 * len(kinds), 2.6 * len(tasks)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(tasks), len(kinds), squeeze=False)
    for row in first:
        axis, seen = axes[tasks.index(row["task"])][kinds.index(row["network"])], row["alignment"]
        axis.imshow(np.array(seen["weights"]), cmap="Greys", vmin=0, vmax=1)
        axis.set_title(f"{row['task']}, {row['network']}", fontsize=9)
        axis.set_xticks(
            range(len(seen["source"])), seen["source"], fontsize=7, rotation=_choose_rotation(seen["source"])
        )
        axis.set_yticks(range(len(seen["target"])), seen["target"], fontsize=7)
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=150, format=path.suffix.lstrip(".") or "png")


def _choose_rotation(labels: Sequence[object]) -> int:
    """Degrees by which labels are turned, so that words do not cover each other."""
    return 90 if any(isinstance(label, str) for label in labels) else 0
