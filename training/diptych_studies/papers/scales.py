"""A study of the scales of MSAC in a language model at equal parameters (section 5 of the paper)."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_studies.data.text import Text, read_documentation, read_text
from diptych_studies.data.words import Vocabulary
from diptych_studies.grid import run_grid
from diptych_studies.intervals import bootstrap, student_interval
from diptych_studies.learning.language import Budget, train_language
from diptych_studies.networks.language_model import LanguageConfig, build_window_scales, parameters_of, with_parameters
from diptych_training.errors import DataError

Widths = tuple[int, ...]
SCALE_SETS: tuple[Widths, ...] = ((1,), (1, 2), (1, 2, 3))
HEADS, EXPANSION = 6, 4.0
RATES = (3e-3, 6e-3)
WORDS_SEEN = 64  # at once


def study_language(
    directory: Path,
    source: Path | None = None,
    *,
    steps: int = Budget.steps,
    rates: Sequence[float] = RATES,
    seeds: int = 3,
    objective: str = "causal",
    scale_sets: Sequence[Widths] = SCALE_SETS,
    config: LanguageConfig | None = None,
    words: int = 0,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train every scale set with every seed and learning rate on a text file or folder (None: Python's documentation)
    and compare them: see `compare_scales`.

    With `words` the tokens are the so many most frequent words of the training part, otherwise bytes. Each run is a
    file in the directory, not computed again (see `run_grid`, also for `processes` and `finished`);
    `comparison-OBJECTIVE.json` there (`comparison-words-OBJECTIVE.json`) is the result. The first scale set's model has
    the shape of `config` (default: 96 channels, 3 blocks, expansion 4) and 6 heads. The others give the same heads
    wider windows, and the feed-forward expansion that makes their parameters equal.
    """
    text, budgets = _read_text(source), [Budget(steps=steps, rate=rate) for rate in rates]
    shape = replace(
        config or LanguageConfig(context=WORDS_SEEN if words else LanguageConfig.context, expansion=EXPANSION),
        objective=objective,
    )
    if words:
        shape = replace(shape, vocabulary=len(Vocabulary.build_from(text.train, words)))
    given = {"source": None if source is None else str(source), "digest": text.digest}
    level = {"words": words} if words else {}
    runs = {
        ("words-" if words else "") + name: settings | given | level
        for name, settings in _list_combinations(scale_sets, shape, seeds, budgets)
    }
    results = list(run_grid(directory, runs, train_from, processes=processes, finished=finished).values())
    result: dict[str, Any] = {
        "objective": objective,
        "text": text.name,
        "digest": text.digest,
        "held_out_by": text.held_out_by,
    }
    result |= {"train_bytes": len(text.train), "held_out_bytes": len(text.held_out)} | level
    if words:
        result["unknown"] = _measure_unknown_share(text, words)
    result |= {"budget": asdict(budgets[0]) | {"rate": list(rates)}, "torch": torch.__version__}
    result |= {"rows": compare_scales(results)}
    with replacing_file(directory / f"comparison-{'words-' if words else ''}{objective}.json") as unfinished:
        unfinished.write_text(json.dumps(result, indent=1) + "\n")
    return result


def train_from(
    widths: Sequence[int],
    seed: int,
    config: Mapping[str, Any],
    budget: Mapping[str, Any],
    source: str | None,
    digest: str,
    words: int = 0,
) -> dict[str, Any]:
    """One run of a comparison, from settings that are JSON; DataError where the text is not that of the digest."""
    shape, text = LanguageConfig.from_dict(config), _read_same_text(source, digest)
    vocabulary = Vocabulary.build_from(text.train, words) if words else None
    _, result = train_language(shape, text, Budget(**budget), seed, vocabulary=vocabulary)
    return {"widths": list(widths), "seed": seed, "rate": budget["rate"], "expansion": shape.expansion} | result


def compare_scales(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a scale set: mean bits per byte with two 95 % intervals, and how much fewer bits than the first set.

    A set stands with the learning rate at which the last tenth of its training steps, averaged over the seeds, cost
    the fewest bits: wider windows want a lower one, and the held-out text is not asked.

    `over_seeds`: Student's t over the seeds' figures (None for one seed): another seed, the same text. `over_blocks`:
    bootstrap over blocks of the held-out text, averaged over the seeds: other text, the same models. Gains are paired,
    by seed and by block.
    """
    by_set: dict[Widths, dict[float, list[Mapping[str, Any]]]] = {}
    for run in runs:
        by_set.setdefault(tuple(run["widths"]), {}).setdefault(run["rate"], []).append(run)
    rows, first = [], None
    for widths, by_rate in by_set.items():
        learnt = {rate: float(np.mean([run["learning"][-1] for run in group])) for rate, group in by_rate.items()}
        rate = min(learnt, key=learnt.__getitem__)
        group = by_rate[rate]
        measure = _name_measure(group[0])
        bits = np.array([run[measure] for run in group])
        blocks = np.array([run["blocks"] for run in group]).mean(0)
        row = {
            "windows": list(widths),
            "parameters": group[0]["parameters"],
            "expansion": group[0]["expansion"],
            "rate": rate,
            "last_training_bits_by_rate": {f"{rate:g}": bits for rate, bits in learnt.items()},
            **_compute_intervals(measure, bits, blocks),
            "by_seed": bits.tolist(),
        }
        row["gain"] = None if first is None else _compute_intervals(measure, first[0] - bits, first[1] - blocks)
        first = first or (bits, blocks)
        rows.append(row)
    return rows


def language_text(result: Mapping[str, Any]) -> str:
    """The comparison as a table."""
    unit = "word" if result.get("words") else "byte"
    head = ["windows", "parameters", "rate", f"bits/{unit}", "over seeds", "over text"]
    head += ["fewer bits", "over seeds", "over text"]
    lines = []
    for row in result["rows"]:
        cells = [
            "1x" + ", 1x".join(map(str, row["windows"])),
            row["parameters"],
            f"{row['rate']:g}",
            *_format_cells(row),
        ]
        cells += _format_cells(row["gain"], "+") if row["gain"] else ["-", "-", "-"]
        lines.append(cells)
    seeds, budget = len(result["rows"][0]["by_seed"]), result["budget"]
    counted = f"bits a {unit}"
    if result["objective"] != "causal":
        counted = f"bits a hidden {unit} ({budget['share']:.0%} hidden)"
    if unit == "word":
        counted += f", {result['words']} words, {result['unknown']:.1%} of the held-out ones unknown"
    return "\n".join(
        [
            format_table(head, lines),
            f"{result['text']}: {result['train_bytes']} bytes to learn from, {result['held_out_bytes']} held out by "
            f"{result['held_out_by']}; {counted}, {budget['steps']} steps of {budget['batch']} windows, "
            f"{seeds} seed{'s' if seeds > 1 else ''}.",
            "95 % intervals: over seeds by Student's t, over blocks of the held-out text by bootstrap; differences are "
            "to the first row, paired.",
        ]
    )


def _list_combinations(
    scale_sets: Sequence[Widths], shape: LanguageConfig, seeds: int, budgets: Sequence[Budget]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Seeds outermost: what is finished first compares all scale sets."""
    if seeds < 1 or len(set(scale_sets)) != len(scale_sets) or not scale_sets or not budgets:
        raise DataError(
            "a comparison needs different scale sets, a learning rate and a seed, "
            f"got {scale_sets}, {len(budgets)} rates, {seeds} seeds"
        )
    if shape.width % HEADS:
        raise DataError(f"the width must be a multiple of the {HEADS} heads that the scales share, got {shape.width}")
    shapes = [replace(shape, scales=build_window_scales(w, heads=HEADS, d_a=shape.width // HEADS)) for w in scale_sets]
    equal = [with_parameters(one, parameters_of(shapes[0])) for one in shapes]
    for seed, budget in product(range(seeds), budgets):
        for widths, one in zip(scale_sets, equal, strict=True):
            name = f"windows-{'-'.join(map(str, widths))}-{shape.objective}-rate-{budget.rate:g}-seed-{seed}"
            yield name, {"widths": list(widths), "seed": seed, "config": one.to_dict(), "budget": asdict(budget)}


def _name_measure(row: Mapping[str, Any]) -> str:
    return next(key for key in row if key.startswith("bits_per_"))


def _measure_unknown_share(text: Text, words: int) -> float:
    """The share of the held-out words that the vocabulary has not."""
    return float((Vocabulary.build_from(text.train, words).encode(text.held_out) == 0).mean())


@cache
def _read_same_text(source: str | None, digest: str) -> Text:
    """A process reads its text once."""
    text = _read_text(None if source is None else Path(source))
    if text.digest != digest:
        raise DataError(f"{text.name} has changed since the comparison began: begin a new one in another directory")
    return text


def _read_text(source: Path | None) -> Text:
    return read_documentation() if source is None else read_text(source)


def _compute_intervals(name: str, by_seed: np.ndarray, by_block: np.ndarray) -> dict[str, Any]:
    over_blocks = list(bootstrap(lambda chosen: float(by_block[chosen].mean()), len(by_block)))
    return {name: float(by_seed.mean()), "over_seeds": student_interval(by_seed), "over_blocks": over_blocks}


def _format_cells(measured: Mapping[str, Any], sign: str = "") -> list[str]:
    def format_interval(ends: Sequence[float] | None) -> str:
        return f"{ends[0]:{sign}.3f} to {ends[1]:{sign}.3f}" if ends else "-"

    mean = f"{measured[_name_measure(measured)]:{sign}.3f}"
    return [mean, format_interval(measured["over_seeds"]), format_interval(measured["over_blocks"])]
