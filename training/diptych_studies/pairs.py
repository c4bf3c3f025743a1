"""A study of the parts of the pair network: one small network in many variants, alike in all but that part.

Every variant is trained on Omniglot's background alphabets with the same data, steps and seeds, and is measured on the
same one-shot episodes of alphabets it has not seen. All have the same number of parameters: the width of the
feed-forward part makes up for what an operator has more or less than another.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diptych.console import format_table
from diptych_model import PairConfig, PairNetwork
from diptych_runtime.atomic import replacing_file
from diptych_runtime.manifest import digest
from diptych_studies.flops import count_flops
from diptych_studies.grid import run_grid
from diptych_studies.intervals import bootstrap, student_interval
from diptych_studies.one_shot import GROUPS, PROTOCOL, SIZE, WAYS, teach_panel, train_and_measure
from diptych_studies.variants import BASE, STUDIES, Variant, choose_variants
from diptych_training.data.archives import find_archive
from diptych_training.data.characters import ARCHIVE, draw_episodes, load_characters
from diptych_training.device import describe_environment
from diptych_training.errors import DataError

STEPS, RATES = 450, (2e-3,)
PANEL = {"steps": 1000, "rate": 3e-3}
PANEL_SHAPE = {key: BASE.to_dict()[key] for key in ("pixels", "encoder", "width", "embedding")}

Result = dict[str, Any]


def study_pairs(
    name: str,
    directory: Path,
    data: Path,
    *,
    steps: int | None = None,
    rates: Sequence[float] = (),
    seeds: int = 3,
    episodes: int = 100,
    only: Sequence[str] = (),
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train and measure every variant of a study with every seed; return one row a variant.

    With one seed all variants begin with the same panel part, taught by contrast alone; what its embedding reaches is
    the row to beat. With the first seed every variant is trained at every rate; the one whose last training steps cost
    least is that of the other seeds. The defaults are `STEPS` and `RATES`. What `directory` has is not computed again,
    and `finished` is called with the name of each run. Accuracy is the share of 20-way one-shot trials won. `only` some
    variants: those they differ from come too.

    Each accuracy and each difference has two 95 % intervals: `over_seeds`, Student's t over the seeds (None for one):
    another training, the same alphabets; `over_alphabets`, bootstrap over the alphabets with the seeds averaged: other
    alphabets, the same training. Differences are paired.
    """
    steps, rates = STEPS if steps is None else steps, tuple(rates) or RATES
    if min(steps, seeds, episodes) < 1:
        raise DataError(f"steps, seeds and episodes must be positive, got {steps}, {seeds} and {episodes}")
    variants = choose_variants(STUDIES[name](), name, only)
    drawings = digest(find_archive(data, ARCHIVE).read_bytes())[:16]
    given = {"drawings": drawings, "protocol": PROTOCOL}
    grid = partial(run_grid, directory, given=given, processes=processes, finished=finished)
    places = (str(data), str(directory))

    panels = {
        f"panel-{seed}": {"config": PANEL_SHAPE, **PANEL, "episodes": episodes, "seed": seed} for seed in range(seeds)
    }
    for panel in panels:
        if not (directory / f"{panel}.safetensors").exists():
            (directory / f"{panel}.json").unlink(missing_ok=True)
    taught = list(grid(panels, partial(teach_panel, *places)).values())
    common = {"steps": steps, "episodes": episodes}

    def describe_run(label: str, rate: float, seed: int) -> tuple[str, dict[str, Any]]:
        settings = {"config": variants[label].config.to_dict(), **common, "rate": rate, "seed": seed}
        return f"{name}-{_make_slug(label)}-rate-{rate:g}-seed-{seed}", settings

    def train_runs(runs: Sequence[tuple[str, float, int]]) -> list[Result]:
        return list(grid(dict(describe_run(*one) for one in runs), partial(train_and_measure, *places)).values())

    tried = [(label, rate, 0) for label in variants for rate in rates]
    best = _best_rates(tried, train_runs(tried))
    found = iter(train_runs([(label, best[label], seed) for label in variants for seed in range(seeds)]))
    results = {label: [next(found) for _ in range(seeds)] for label in variants}

    measured = load_characters(data, "validation", BASE.pixels)
    alphabets = np.array([measured.alphabet[e.queries[0]] for e in draw_episodes(measured, episodes, ways=WAYS)])
    result = {
        "study": name,
        "rows": _build_rows(variants, best, taught, results, alphabets),
        "settings": {**common, "rates": list(rates), "seeds": seeds, "pairs": steps * GROUPS * SIZE**2, **given},
        "alphabets": len(np.unique(alphabets)),
        "environment": describe_environment(),
    }
    if not only:  # the file holds all variants, and some of them do not take its place
        with replacing_file(directory / f"{name}.json") as unfinished:
            unfinished.write_text(json.dumps(result, indent=1) + "\n")
    return result


def study_text(result: dict[str, Any]) -> str:
    """The rows as a table for people."""
    rows = [
        (
            row["variant"],
            f"{row['parameters'] / 1e3:.1f}",
            "-" if row["expansion"] is None else f"{row['expansion']:.1f}",
            f"{row['mflops']:.1f}",
            "-" if row["mflops_stored"] is None else f"{row['mflops_stored']:.1f}",
            f"{row['accuracy']['mean']:.1%}",
            *_format_intervals(row["accuracy"], ".1%"),
            f"{row['difference']['mean']:+.1%}",
            *_format_intervals(row["difference"], "+.1%"),
            "" if row["against"] == row["variant"] else row["against"],
        )
        for row in result["rows"]
    ]
    settings = result["settings"]
    intervals = ("over seeds", "over alphabets")
    header = ("", "k params", "expansion", "MFLOP", "stored", "won", *intervals, "more", *intervals, "than")
    return (
        f"{format_table(header, rows)}\n"
        "expansion: of the feed-forward part, which makes the parameters equal; MFLOP: of a pair from pixels, stored: "
        "of one whose pictures' tokens are at hand.\n"
        f"{settings['episodes'] * WAYS:,} within-alphabet {WAYS}-way one-shot trials of {result['alphabets']} "
        f"alphabets not trained on; {settings['pairs']:,} training pairs; {settings['seeds']} seeds; "
        f"rates {settings['rates']}.\n"
        "95 % intervals: over seeds by Student's t, over alphabets by bootstrap; differences are paired."
    )


def _build_rows(
    variants: Mapping[str, Variant],
    rates: Mapping[str, float],
    taught: Sequence[Result],
    results: Mapping[str, Sequence[Result]],
    alphabets: np.ndarray,
) -> list[dict[str, Any]]:
    """The embedding, then every variant at its rate, each beside the one it differs from."""
    won = {label: np.array([one["won"] for one in found]) / WAYS for label, found in results.items()}
    first = next(iter(variants))
    row = {"variant": "embedding alone", "against": first, "rate": PANEL["rate"], "expansion": None}
    row |= {"parameters": taught[0]["parameters"], "mflops": taught[0]["flops"] / 1e6, "mflops_stored": None}
    rows = [row | _summarize_shares(np.array([one["won"] for one in taught]) / WAYS, won[first], alphabets)]
    for label, found in results.items():
        config, against = variants[label].config, variants[label].against
        row = {"variant": label, "against": against, "rate": rates[label], "expansion": config.expansion}
        row |= {"parameters": found[0]["parameters"], "mflops": found[0]["flops"] / 1e6}
        row |= {"mflops_stored": _flops_stored(config) / 1e6}
        rows.append(row | _summarize_shares(won[label], won[against], alphabets))
    return rows


def _best_rates(runs: Sequence[tuple[str, float, int]], results: Sequence[Result]) -> dict[str, float]:
    """Of each variant the rate at which its last training steps cost least."""
    costs: dict[str, dict[float, float]] = {}
    for (label, rate, _), result in zip(runs, results, strict=True):
        costs.setdefault(label, {})[rate] = result["losses"][-1]
    return {label: min(by_rate, key=lambda rate: by_rate[rate]) for label, by_rate in costs.items()}


def _summarize_shares(won: np.ndarray, other: np.ndarray, alphabets: np.ndarray) -> dict[str, Any]:
    """Accuracy and difference of shares (seeds, episodes), each with its intervals."""
    return {"accuracy": _compute_intervals(won, alphabets), "difference": _compute_intervals(won - other, alphabets)}


def _compute_intervals(shares: np.ndarray, alphabets: np.ndarray) -> dict[str, Any]:
    by_seed, by_episode = shares.mean(1), shares.mean(0)
    parts = [by_episode[alphabets == alphabet] for alphabet in np.unique(alphabets)]
    over = bootstrap(lambda chosen: float(np.concatenate([parts[i] for i in chosen]).mean()), len(parts))
    return {
        "mean": float(shares.mean()),
        "by_seed": by_seed.tolist(),
        "over_seeds": student_interval(by_seed),
        "over_alphabets": list(over),
    }


def _format_intervals(measured: dict[str, Any], form: str) -> list[str]:
    ends = (measured["over_seeds"], measured["over_alphabets"])
    return ["-" if pair is None else f"{pair[0]:{form}} to {pair[1]:{form}}" for pair in ends]


def _flops_stored(config: PairConfig) -> int:
    """FLOPs of a pair whose pictures have been seen before: with an open seam in pixels all is done again."""
    network = PairNetwork(config).eval()
    if config.seam == "pixels":
        return count_flops(network, *[torch.empty(1, 3, config.pixels, config.pixels)] * 2)
    return count_flops(network.pair, *[torch.empty(1, config.grid, config.grid, config.width)] * 2)


def _make_slug(variant: str) -> str:
    return "-".join(re.findall(r"\w+", variant))
