"""A study of a small BERT: its windows, and whether it is told which span a word is of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_studies.data.text import Text, read_documentation, read_text
from diptych_studies.data.words import Vocabulary
from diptych_studies.grid import run_grid, write_runs
from diptych_studies.intervals import student_interval
from diptych_studies.learning.bert import train_bert
from diptych_studies.learning.language import Budget
from diptych_studies.networks.bert import BertConfig
from diptych_studies.networks.language_model import build_window_scales
from diptych_training.errors import DataError
from diptych_training.metrics import wilson_interval

WORDS = 2048
HEADS = 6
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "windows 1": {"widths": (1,), "segments": True},
    "windows 1, 2, 3": {"widths": (1, 2, 3), "segments": True},
    "windows 1, 2, 3, no segments": {"widths": (1, 2, 3), "segments": False},
}
COLUMNS = (
    *("network", "seed", "parameters", "steps", "rate", "bits_per_word", "words_right", "words_base", "follows_right"),
    *("pairs", "words_curve", "follows_curve"),
)


def study_bert(
    directory: Path,
    source: Path | None = None,
    *,
    steps: int = 1000,
    rate: float = 2e-3,
    seeds: int = 3,
    shape: BertConfig | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> list[dict[str, Any]]:
    """Train every variant with every seed on a text (None: Python's documentation); return a row a run, in `bert.csv`
    too. Each run is a file in the directory, not computed again.
    """
    if seeds < 1:
        raise DataError(f"a study needs a seed, got {seeds}")
    text = _read_text(source)
    base = shape or BertConfig(WORDS)
    size = len(Vocabulary.build_from(text.train, base.words))
    runs = {}
    for seed, (name, variant) in product(range(seeds), VARIANTS.items()):
        scales = build_window_scales(variant["widths"], heads=HEADS, d_a=max(1, base.width // HEADS))
        config = replace(base, words=size, scales=scales, segments=variant["segments"])
        runs[f"bert-{name}-seed-{seed}".replace(",", "").replace(" ", "-")] = {
            **{"network": name, "seed": seed, "config": config.to_dict()},
            **{"budget": asdict(Budget(steps=steps, rate=rate, batch=16))},
            **{"source": None if source is None else str(source), "digest": text.digest},
        }
    results = run_grid(directory, runs, train_from, processes=processes, finished=finished)
    rows = sorted(results.values(), key=lambda row: (list(VARIANTS).index(row["network"]), row["seed"]))
    written = []
    for row in rows:
        curves = dict(zip(("words_curve", "follows_curve"), zip(*row["curve"], strict=True), strict=True))
        written.append(
            row | curves | {key: round(row[key], 4) for key in ("bits_per_word", "words_right", "words_base")}
        )
    write_runs(directory / "bert.csv", COLUMNS, written)
    return rows


def train_from(
    network: str,
    seed: int,
    config: Mapping[str, Any],
    budget: Mapping[str, Any],
    source: str | None,
    digest: str,
) -> dict[str, Any]:
    """One run, from settings that are JSON; DataError where the text is not that of the digest."""
    text = _read_text(None if source is None else Path(source))
    if text.digest != digest:
        raise DataError(f"{text.name} has changed since the study began: begin a new one in another directory")
    shape = BertConfig.from_dict(config)
    _, result = train_bert(shape, text, Vocabulary.build_from(text.train, shape.words), Budget(**budget), seed)
    return {"network": network, "seed": seed, "steps": budget["steps"], "rate": budget["rate"], **result}


def bert_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """A line for each variant, over its seeds."""
    lines = []
    for name in dict.fromkeys(row["network"] for row in rows):
        found = [row for row in rows if row["network"] == name]
        bits = [row["bits_per_word"] for row in found]
        follows = [row["follows_right"] / row["pairs"] for row in found]
        over_pairs = wilson_interval(float(np.mean([row["follows_right"] for row in found])), found[0]["pairs"])
        over_seeds = student_interval(bits)
        lines.append(
            (
                name,
                f"{found[0]['parameters']:,}",
                f"{np.mean(bits):.3f}",
                " to ".join(f"{end:.3f}" for end in over_seeds) if over_seeds else "-",
                f"{np.mean([row['words_right'] for row in found]):.1%}",
                f"{np.mean(follows):.1%}",
                " to ".join(f"{end:.1%}" for end in over_pairs),
                ", ".join(f"{share:.1%}" for share in follows),
            )
        )
    header = ("network", "parameters", "bits/hidden word", "over seeds", "guessed", "follows", "over pairs", "by seed")
    return (
        f"{format_table(header, lines)}\nThe commonest word would guess {rows[0]['words_base']:.1%}, a coin half of "
        f"what follows; {rows[0]['steps']} steps of 16 pairs."
    )


@cache
def _read_text(source: Path | None) -> Text:
    return read_documentation() if source is None else read_text(source)
