"""A study of SAGAN's attention: the same small generator and discriminator with it and without, on drawn shapes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_studies.data.worlds import draw_things
from diptych_studies.grid import run_grid
from diptych_studies.intervals import student_interval
from diptych_studies.learning.generation import FEATURES, OTHERS, SaganBudget, make_pictures, train_sagan
from diptych_studies.networks.sagan import Generator, SaganConfig
from diptych_training.errors import DataError

ATTENTION, NONE = "self-attention", "none"
SHOWN = 12  # pictures of a row of the sheet


def study_sagan(
    directory: Path,
    *,
    steps: int = SaganBudget.steps,
    seeds: int = 3,
    shape: SaganConfig | None = None,
    budget: SaganBudget | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train the networks with attention and without with every seed; return their curves, in `sagan.json` too.

    Each run is a file in the directory with the weights of its generator beside it, and not computed again (see
    `run_grid`, also for `processes` and `finished`).
    """
    if seeds < 1:
        raise DataError(f"a study needs a seed at least, got {seeds}")
    budget, shape = replace(budget or SaganBudget(), steps=steps), shape or SaganConfig()
    if not shape.attend:
        raise DataError("the shape of the study says where attention stands: attend must not be 0")
    shapes = {ATTENTION: shape, NONE: replace(shape, attend=0)}
    runs = {
        _name_run(name, seed): {"name": name, "config": asdict(shapes[name]), "budget": asdict(budget), "seed": seed}
        for seed, name in product(range(seeds), shapes)
    }
    for run in runs:
        if not (directory / f"{run}.safetensors").exists():
            (directory / f"{run}.json").unlink(missing_ok=True)
    results = run_grid(directory, runs, partial(train_from, str(directory)), processes=processes, finished=finished)
    rows = [{"attention": run["name"], "seed": run["seed"], **results[name]} for name, run in runs.items()]
    result = {"features": FEATURES, "budget": asdict(budget), "rows": rows}
    with replacing_file(directory / "sagan.json") as unfinished:
        unfinished.write_text(json.dumps(result) + "\n")
    return result


def train_from(
    directory: str, name: str, config: Mapping[str, Any], budget: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """One run of a study, from settings that are JSON; the generator's weights are kept in the directory."""
    generator, result = train_sagan(SaganConfig(**config), SaganBudget(**budget), seed)
    save_file(generator.state_dict(), Path(directory, f"{_name_run(name, seed)}.safetensors"))
    return result


def sagan_text(result: Mapping[str, Any]) -> str:
    """The result as a table, a line for the networks with attention and one for those without."""
    rows, lines = result["rows"], []
    for name in dict.fromkeys(row["attention"] for row in rows):
        found = [row for row in rows if row["attention"] == name]
        last = [row["distance"][-1] for row in found]
        over = student_interval(last)
        generator, discriminator = (
            f"{np.mean([one['gamma'][-1][place] for one in found]):+.3f}" if found[0]["gamma"][-1] else "-"
            for place in (0, 1)
        )
        first = np.mean([row["distance"][0] for row in found])
        cells = [name, f"{found[0]['parameters']:,}", f"{found[0]['discriminator_parameters']:,}", f"{first:.3f}"]
        cells += [f"{np.mean(last):.4f}", " to ".join(f"{end:.4f}" for end in over) if over else "-"]
        lines.append((*cells, generator, discriminator))
    header = (
        *("attention", "generator", "discriminator", "distance, untrained", "trained", "over seeds"),
        *("gamma of the generator", "of the discriminator"),
    )
    seeds = len({row["seed"] for row in rows})
    return (
        f"{format_table(header, lines)}\nFréchet distance of {result['budget']['measured']:,} pictures made and drawn, "
        f"in the embedding of {result['features']}; two sets of drawn ones: "
        f"{np.mean([row['floor'] for row in rows]):.4f}. {result['budget']['steps']} steps, {seeds} "
        f"seed{'s' if seeds > 1 else ''}, 95 % by Student's t."
    )


def draw_sagan(result: Mapping[str, Any], directory: Path, path: Path) -> None:
    """Draw the distances and the gammas over the steps of every run, and below them pictures drawn, and made by the
    first seed's generators, as .png, .svg or .pdf.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = result["rows"]
    first = [row for row in rows if row["seed"] == rows[0]["seed"]]
    figure = Figure((10, 4 + 1.1 * (1 + len(first))), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2 + len(first), 2, height_ratios=[4, *[1.1] * (1 + len(first))])
    distances, gammas = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 1])
    for row in rows:
        steps = np.linspace(0, row["at"][-1], len(row["gamma"]) + 1)[1:]
        colour = "#0072b2" if row["attention"] == ATTENTION else "#d55e00"
        again = "_" if row["seed"] != rows[0]["seed"] else ""
        distances.plot(row["at"], row["distance"], "o-", color=colour, markersize=3, label=again + row["attention"])
        for line, network, shares in zip(
            "-:", ("generator", "discriminator"), np.transpose(row["gamma"]), strict=False
        ):
            gammas.plot(steps, shares, line, color=colour, label=again + network)
    distances.axhline(
        float(np.mean([row["floor"] for row in rows])), color="#777777", linestyle="--", label="drawn, and drawn"
    )
    distances.set(xlabel="step", ylabel="Fréchet distance", yscale="log")
    gammas.set(xlabel="step", ylabel="gamma")
    for axes in (distances, gammas):
        axes.legend(fontsize=8)
    sheets = {"drawn": draw_things(SHOWN, first[0]["config"]["pixels"], OTHERS)}
    sheets |= {row["attention"]: make_pictures(_load_generator(row, directory), SHOWN) for row in first}
    for place, (name, pictures) in enumerate(sheets.items(), 1):
        axes = figure.add_subplot(grid[place, :])
        axes.imshow(np.concatenate(list(pictures), 1), interpolation="nearest")
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_axis_off()
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=110, format=path.suffix.lstrip(".") or "png")


def _load_generator(row: Mapping[str, Any], directory: Path) -> Generator:
    generator = Generator(SaganConfig(**row["config"]))
    generator.load_state_dict(load_file(directory / f"{_name_run(row['attention'], row['seed'])}.safetensors"))
    return generator


def _name_run(name: str, seed: int) -> str:
    return f"sagan-{name}-seed-{seed}"
