"""The study of mixers, and of MSAC's own parts, on photos: rates chosen with one seed, then the other seeds."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from diptych_model.network import PairPart
from diptych_runtime.atomic import replacing_file
from diptych_studies.grid import run_grid
from diptych_studies.intervals import student_interval
from diptych_studies.photo_pairs.run import FIGURES, measure_embedding, train_and_measure
from diptych_studies.photo_pairs.tokens import Drawn, Tokens, keep_tokens, panel_digest
from diptych_studies.variants import ON_PHOTOS, PHOTO, Variant, choose_variants
from diptych_training.data.csv import read_table
from diptych_training.errors import DataError

PRIOR, EMBEDDING = "no trunk", "embedding alone"
RATES = (5e-4, 1.5e-3, 4.5e-3)
STEPS = 200
TOKENS = "photo-tokens"

NAMES = ("study", "variant", "rate", "seed", "steps")
MEASURED = ("parameters", "mflop", "seconds", *FIGURES)
COLUMNS: tuple[str, ...] = (*NAMES, "panel", "settings", *MEASURED, "curve")

Settings = dict[str, Any]
Row = dict[str, Any]


class RunTable:
    """The rows of a CSV, which need not exist yet.

    `settings` is a digest of all that a run was given, and `panel` of the released panel part whose tokens it learnt.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = [self._parse_row(row) for row in read_table(path, COLUMNS)] if path.exists() else []

    def find_row(self, settings: str) -> Row | None:
        """The row of the run with these settings, None where it has not been made."""
        return next((row for row in self.rows if row["settings"] == settings), None)

    def require_panel(self, panel: str) -> None:
        """Raise `DataError` where runs are of another panel part: they cannot be laid beside new ones."""
        others = sorted({row["panel"] for row in self.rows} - {panel})
        if others:
            raise DataError(
                f"{self.path} has runs over tokens of another panel part ({', '.join(others)}) than the released one "
                f"({panel}): name another CSV with --runs, or see what is finished with --finished"
            )

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Write the table with one row more, whole or not at all."""
        self.rows.append({name: row[name] for name in COLUMNS})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(self.path) as unfinished, unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row | {"curve": " ".join(map(str, row["curve"]))} for row in self.rows)

    def _parse_row(self, row: Mapping[str, str]) -> Row:
        try:
            numbers: Row = {name: float(row[name]) for name in ("rate", *MEASURED)}
            whole = {name: int(row[name]) for name in ("seed", "steps", "parameters")}
            curve = [float(loss) for loss in row["curve"].split()]
        except ValueError as error:
            raise DataError(f"{self.path} is damaged ({error}): mend or remove that row") from None
        return {**row, **numbers, **whole, "curve": curve}


def study_on_photos(
    name: str,
    directory: Path,
    data: Path | None,
    *,
    runs: Path | None = None,
    steps: int | None = None,
    rates: Sequence[float] = (),
    seeds: int = 3,
    only: Sequence[str] = (),
    drawn: Drawn | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train the pair part of every variant over the tokens of the released panel part; return a row a variant.

    With the first seed every variant is trained at every rate; the one whose last training steps cost least is that of
    the other seeds. The tokens are computed once, into `directory`. What the CSV `runs` has is not trained again, and
    every finished run is added to it; without `data` nothing is trained, and the rows are of what is finished. The
    default of `steps` and `rates` are `STEPS` and `RATES`. Raises `DataError` where the directory has other tokens, or
    `runs` has runs over those of another release.
    """
    steps, rates = STEPS if steps is None else steps, tuple(rates) or RATES
    if min(steps, seeds) < 1:
        raise DataError(f"steps and seeds must be positive, got {steps} and {seeds}")
    drawn, say = drawn or Drawn(), finished or (lambda _: None)
    variants = choose_variants(ON_PHOTOS[name](), name, only, PairPart)
    table = RunTable(runs or directory / f"{name}-photos.csv")
    folder, panel = directory / TOKENS, panel_digest()
    asked = {label: partial(_build_settings, label, variants, drawn, steps) for label in (*variants, PRIOR)}

    def run_missing(wanted: Sequence[tuple[str, float, int]]) -> None:
        settings = {(label, rate, seed): asked[label](rate, seed) for label, rate, seed in wanted}
        missing = {
            f"photos-{_digest_settings(each)}": key
            for key, each in settings.items()
            if table.find_row(_digest_settings(each)) is None
        }

        def keep_result(run_name: str, result: Mapping[str, Any]) -> None:
            label, rate, seed = missing[run_name]
            row = {"study": name, "variant": label, "rate": rate, "seed": seed, "steps": steps, "panel": panel}
            table.add_row({**row, "settings": run_name.removeprefix("photos-"), **result})
            say(f"{label}, rate {rate:g}, seed {seed}")

        runs = {run_name: settings[key] for run_name, key in missing.items()}
        run_grid(directory, runs, partial(_train_run, str(folder)), processes=processes, known=keep_result)

    alone = _digest_settings({"tokens": drawn.digest, "embedding": True})
    if data is not None:
        table.require_panel(panel)
        keep_tokens(folder, data, drawn, say)
        if table.find_row(alone) is None:
            nothing = {"study": name, "variant": EMBEDDING, "rate": 0.0, "seed": 0, "steps": 0, "panel": panel}
            none = {"settings": alone, "parameters": 0, "mflop": 0.0, "seconds": 0.0, "curve": []}
            table.add_row({**nothing, **none, **measure_embedding(Tokens(folder))})
        run_missing([(label, rate, 0) for label in asked for rate in rates])
        run_missing(
            [(label, _chosen_rate(table, asked[label], rates), seed) for seed in range(1, seeds) for label in asked]
        )
    rows = []
    for label in asked:
        if (rate := _find_best_rate(table, asked[label], rates)) is not None:
            found = [table.find_row(_digest_settings(asked[label](rate, seed))) for seed in range(seeds)]
            rows.append({"variant": label, **_summarize_runs(rate, [row for row in found if row])})
    for row in rows:
        against = variants[row["variant"]].against if row["variant"] in variants else next(iter(variants))
        other = next((one for one in rows if one["variant"] == against), None)
        row |= {"against": against, "difference": _compute_differences(row, other)}
    return {
        "study": name,
        "rows": rows,
        "embedding": {key: row[key] for key in FIGURES} if (row := table.find_row(alone)) else None,
        "settings": {"steps": steps, "rates": list(rates), "seeds": seeds, "tokens": drawn.digest},
    }


def study_on_photos_text(result: Mapping[str, Any]) -> str:
    """The rows as a table for people."""
    from diptych.console import format_table

    lines = []
    if result["embedding"] is not None:
        lines.append((EMBEDDING, *[""] * 4, *(f"{result['embedding'][name]:.3f}" for name in FIGURES), "", ""))
    for row in result["rows"]:
        over = row["difference"]
        cells = (row["variant"], f"{row['parameters']:,}", f"{row['mflop']:.1f}", f"{row['rate']:g}", row["seeds"])
        gained = "" if over is None else f"{over['mean']:+.3f}"
        between = "" if over is None or over["over_seeds"] is None else _format_interval(over["over_seeds"], "+.3f")
        lines.append((*cells, *(f"{row[name]['mean']:.3f}" for name in FIGURES), gained, between))
    shown = ("copies: micro-AP", "recall@1", "catalogue: recall@1", "mAP")
    header = ("", "parameters", "MFLOP", "rate", "seeds", *shown, "micro-AP more", "over seeds")
    settings = result["settings"]
    return (
        f"{format_table(header, lines)}\n{settings['steps']} steps; rates {settings['rates']}, chosen by the training "
        f"loss of the first seed; more than the variant that differs in one thing, paired by seed, 95 % by Student's t."
    )


def plot_on_photos(result: Mapping[str, Any], path: Path) -> None:
    """Draw micro-AP of copies and mAP of the catalogue: every variant with its seeds and their interval, and the
    embedding as a line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from diptych_runtime.atomic import replacing_file

    rows = list(result["rows"])[::-1]
    figure = Figure((10, 1 + 0.3 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    titles = {"copies_micro_ap": "copies, micro-AP", "catalogue_map": "catalogue, mAP"}
    for axes, (name, title) in zip(figure.subplots(1, 2, sharey=True), titles.items(), strict=True):
        for place, row in enumerate(rows):
            each = row[name]["by_seed"]
            axes.plot(each, [place] * len(each), "o", color="#0072b2", alpha=0.5, markersize=4)
            axes.plot(row[name]["mean"], place, "|", color="black", markersize=12)
            if row[name]["over_seeds"]:
                axes.hlines(place, *row[name]["over_seeds"], color="black", linewidth=1)
        if result["embedding"] is not None:
            axes.axvline(result["embedding"][name], color="#777777", linestyle="--", linewidth=1)
        axes.set_title(f"{title} (dashes: the embedding alone)", fontsize=9)
        axes.set_yticks(range(len(rows)), [row["variant"] for row in rows], fontsize=8)
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished, dpi=120, format=path.suffix.lstrip(".") or "png")


def _build_settings(
    label: str, variants: Mapping[str, Variant], drawn: Drawn, steps: int, rate: float, seed: int
) -> Settings:
    """All that the run of a variant, or of no trunk, depends on."""
    config = variants[label].config if label in variants else PHOTO
    shared = {"steps": steps, "rate": rate, "seed": seed, "tokens": drawn.digest}
    return {"config": config.to_dict(), **shared, "trunk": label in variants}


def _train_run(folder: str, *, tokens: str, **settings: Any) -> dict[str, Any]:
    """A run from settings that are JSON; the digest of its tokens is of the settings and of nothing else."""
    return train_and_measure(folder, **settings)


def _digest_settings(settings: Settings) -> str:
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _find_best_rate(table: RunTable, asked: Callable[[float, int], Settings], rates: Sequence[float]) -> float | None:
    """The rate at which the last training steps of the first seed cost least; None while a rate is not finished."""
    found = {rate: table.find_row(_digest_settings(asked(rate, 0))) for rate in rates}
    costs = {rate: row["curve"][-1] for rate, row in found.items() if row is not None}
    return min(costs, key=lambda rate: costs[rate]) if len(costs) == len(rates) else None


def _chosen_rate(table: RunTable, asked: Callable[[float, int], Settings], rates: Sequence[float]) -> float:
    rate = _find_best_rate(table, asked, rates)
    assert rate is not None, "the first seed has been trained at every rate"
    return rate


def _summarize_runs(rate: float, found: Sequence[Row]) -> dict[str, Any]:
    figures = {name: [row[name] for row in found] for name in FIGURES}
    return {
        "rate": rate,
        "seeds": len(found),
        "parameters": found[0]["parameters"],
        "mflop": found[0]["mflop"],
        "seconds": float(np.mean([row["seconds"] for row in found])),
        "curve": found[0]["curve"],
        **{name: _over_seeds(values) for name, values in figures.items()},
    }


def _compute_differences(row: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """By how much the micro-AP is more than another's, seed by seed; None beside itself or beside nothing."""
    if other is None or other is row:
        return None
    ours, theirs = row[FIGURES[0]]["by_seed"], other[FIGURES[0]]["by_seed"]
    return _over_seeds([a - b for a, b in zip(ours, theirs, strict=False)])


def _over_seeds(values: Sequence[float]) -> dict[str, Any]:
    return {"mean": float(np.mean(values)), "by_seed": list(values), "over_seeds": student_interval(values)}


def _format_interval(interval: Sequence[float], form: str) -> str:
    return " to ".join(f"{end:{form}}" for end in interval)
