"""A study of questions about pictures: dot and additive relevance, and a network that sees no picture."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_studies.data.worlds import KINDS, draw_examples
from diptych_studies.grid import run_grid, write_runs
from diptych_studies.intervals import student_interval
from diptych_studies.learning.questions import HELD_OUT_SEED, QuestionBudget, train_questions, world_config
from diptych_studies.networks.questions import RELEVANCES, QuestionConfig
from diptych_training.errors import DataError
from diptych_training.metrics import wilson_interval

NETWORKS = (*RELEVANCES, "blind")
COLUMNS: tuple[str, ...] = (
    *("network", "seed", "parameters", "steps", "rate", "right", *KINDS, "processor_seconds", "curve"),
)


def study_questions(
    directory: Path,
    *,
    steps: int = QuestionBudget.steps,
    rate: float = QuestionBudget.rate,
    seeds: int = 3,
    shape: QuestionConfig | None = None,
    budget: QuestionBudget | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Train the networks on the drawn worlds with every seed; return a row a run, in `questions.csv` too.

    Each run is a file in the directory, not computed again (see `run_grid`, also for `processes` and `finished`).
    """
    if seeds < 1:
        raise DataError(f"a study needs a seed at least, got {seeds}")
    budget = replace(budget or QuestionBudget(), steps=steps, rate=rate)
    sizes = asdict(shape or world_config("dot"))
    runs = {
        f"questions-{kind}-seed-{seed}": {"config": sizes | {"relevance": kind}, "budget": asdict(budget), "seed": seed}
        for seed, kind in product(range(seeds), NETWORKS)
    }
    results = run_grid(directory, runs, train_from, processes=processes, finished=finished)
    rows = [
        {"network": run["config"]["relevance"], "seed": run["seed"], "steps": steps, "rate": rate} | results[name]
        for name, run in runs.items()
    ]
    rows.sort(key=lambda row: (NETWORKS.index(row["network"]), row["seed"]))
    shares = ({"right": row["right"], **row["by_kind"]} for row in rows)
    short = ({name: round(share, 4) for name, share in each.items()} for each in shares)
    write_runs(directory / "questions.csv", COLUMNS, (row | each for row, each in zip(rows, short, strict=True)))
    return rows


def train_from(config: Mapping[str, Any], budget: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """One run of a study, from settings that are JSON."""
    return train_questions(QuestionConfig(**config), QuestionBudget(**budget), seed)[1]


def questions_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """The runs as a table, a line for each network: shares of held-out questions that are answered rightly."""
    lines = []
    for name in dict.fromkeys(row["network"] for row in rows):
        found = [row for row in rows if row["network"] == name]
        right, over = float(np.mean([row["right"] for row in found])), student_interval([r["right"] for r in found])
        cells = [name, f"{found[0]['parameters']:,}", f"{np.mean([row['curve'][-1] for row in found]):.3f}"]
        cells += [f"{right:.1%}", " to ".join(f"{end:.1%}" for end in over) if over else "-"]
        questions = wilson_interval(right * found[0]["asked"], found[0]["asked"])
        cells.append(" to ".join(f"{end:.1%}" for end in questions))
        cells += [f"{np.mean([row['by_kind'][kind] for row in found]):.1%}" for kind in found[0]["by_kind"]]
        lines.append(cells)
    header = ("", "parameters", "last loss", "right", "over seeds", "over questions", *rows[0]["by_kind"])
    seeds = len({row["seed"] for row in rows})
    return (
        f"{format_table(header, lines)}\nShares of {rows[0]['asked']:,} held-out questions answered rightly; "
        f"{rows[0]['steps']} steps, {seeds} seed{'s' if seeds > 1 else ''}; 95 % intervals."
    )


def draw_relevance(rows: Sequence[Mapping[str, Any]], path: Path, pixels: int = world_config("dot").pixels) -> None:
    """Draw one held-out question of each kind as the first seed's networks see it, as .png, .svg or .pdf.

    A row for each question and network: the picture, then what every word looks at in the last block.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    seeing = [row for row in rows if row["seed"] == rows[0]["seed"] and row["shown"]]
    count = len(seeing[0]["shown"])
    pictures, _, _, questions = draw_examples(count, pixels, HELD_OUT_SEED)
    columns = 1 + max(len(question.words) for question in questions)
    figure = Figure((1.15 * columns, 1.35 * count * len(seeing)), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.subplots(count * len(seeing), columns, squeeze=False)
    for axis in grid.flat:
        axis.set_axis_off()
    for place, (number, row) in enumerate(product(range(count), seeing)):
        seen = row["shown"][number]
        axis = grid[place][0]
        axis.imshow(pictures[number])
        axis.set_title(f"{row['network']}: {seen['answer']}", fontsize=8)
        for axis, word, relevance in zip(grid[place][1:], seen["question"], seen["relevance"], strict=False):
            axis.imshow(pictures[number].mean(-1), cmap="gray", vmin=0, vmax=255, alpha=0.35)
            extent = (-0.5, pixels - 0.5, pixels - 0.5, -0.5)
            axis.imshow(np.array(relevance), cmap="magma", alpha=0.75, extent=extent, interpolation="nearest")
            axis.set_title(word, fontsize=8)
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=90, format=path.suffix.lstrip(".") or "png")
