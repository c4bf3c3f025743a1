"""A study of XCiT: as a classifier beside the same network with self-attention in the place of XCA, and what both
attentions cost as tokens grow in number.
"""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

from diptych.console import format_table
from diptych_model.mixers import Place
from diptych_runtime.atomic import replacing_file
from diptych_studies.classifiers import Budget, name_classes, train_classifier
from diptych_studies.data.tables import read_table_of
from diptych_studies.flops import count_flops, count_parameters
from diptych_studies.grid import run_grid
from diptych_studies.intervals import student_interval
from diptych_studies.mixers import Transformer
from diptych_studies.mixers.cross_covariance import CrossCovarianceAttention
from diptych_studies.networks.xcit import XCiT
from diptych_training.data.archives import list_photos, load_photos
from diptych_training.metrics import wilson_interval

PIXELS = 64
SHAPE = {"d": 64, "depth": 4, "heads": 4, "patch": 8, "class_depth": 2, "attention_dropout": 0.1, "dropout": 0.1}
XCA, SELF = "XCA", "self-attention"
TOKENS = (64, 256, 1024, 4096, 16384)
ROUNDS, LEAST = 5, 0.01  # a sample repeats a fast call until it has taken so many seconds


def study_xcit(
    directory: Path,
    folder: Path,
    *,
    steps: int = Budget.steps,
    seeds: int = 3,
    tokens: Sequence[int] | None = None,
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train both networks on the flowers of an archive folder, with each seed, and measure both attentions.

    Each run is a file in the directory, not computed again (see `run_grid`, also for `processes` and `finished`);
    `xcit.json` there is the result: for each network the share of held-out photos named rightly, with Wilson's
    interval over photos and Student's over seeds, and for each number of tokens what a layer's attention costs.
    """
    runs = {
        f"{name}-{seed}": {"attention": name, "seed": seed, "budget": asdict(Budget(steps=steps))}
        for name in (XCA, SELF)
        for seed in range(seeds)
    }
    trained = run_grid(directory, runs, partial(train_from, folder), processes=processes, finished=finished)
    cost = {"tokens": list(tokens or TOKENS), "width": SHAPE["d"], "heads": SHAPE["heads"]}
    measured = run_grid(directory, {"cost": cost}, measure_attentions, processes=processes, finished=finished)["cost"]
    result = {
        "pixels": PIXELS,
        "shape": SHAPE,
        "budget": asdict(Budget(steps=steps)),
        "torch": torch.__version__,
        "rows": [
            _build_row(name, [run for run in trained.values() if run["attention"] == name]) for name in (XCA, SELF)
        ],
        "cost": measured,
    }
    with replacing_file(directory / "xcit.json") as unfinished:
        unfinished.write_text(json.dumps(result, indent=1) + "\n")
    return result


def network_of(attention: str, classes: int) -> XCiT:
    """The network of the study, with XCA or with self-attention in its place."""
    if attention == XCA:
        return XCiT(classes, **SHAPE)
    return XCiT(classes, **SHAPE, attention=lambda d: _self_attention(d, SHAPE["heads"]))


def train_from(folder: Path, attention: str, seed: int, budget: Mapping[str, Any]) -> dict[str, Any]:
    """One run, from settings that are JSON."""
    pixels, labels, held_out = load_flowers(folder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = network_of(attention, int(labels.max()) + 1)
        began = time.process_time()
        losses = train_classifier(network, pixels[~held_out], labels[~held_out], Budget(**budget), seed)
        seconds = time.process_time() - began
    right = name_classes(network, pixels[held_out]) == labels[held_out]
    seen = name_classes(network, pixels[~held_out]) == labels[~held_out]
    tenth = max(1, len(losses) // 10)
    return {
        "attention": attention,
        "parameters": count_parameters(network),
        "flops": count_flops(network, torch.empty(1, PIXELS, PIXELS, 3)),
        "learning": [float(np.mean(losses[at : at + tenth])) for at in range(0, len(losses), tenth)],
        "right": int(right.sum()),
        "held_out": len(right),
        "right_of_training": float(seen.mean()),
        "processor_seconds": seconds,
    }


def load_flowers(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The flowers of an archive folder: uint8 (n, 64, 64, 3), their kinds int64 (n,), and whether each is held out."""
    photos = list_photos(folder, ["flowers"])
    kinds = {f"flowers/{row['path']}": row["label"] for row in read_table_of(folder, "flowers", "flowers/images.csv")}
    labels = np.unique([kinds[photo.name] for photo in photos], return_inverse=True)[1].astype(np.int64)
    held_out = np.array([photo.split == "validation" for photo in photos])
    return load_photos(folder, photos, PIXELS).pixels, labels, held_out


def measure_attentions(tokens: Sequence[int], width: int, heads: int) -> dict[str, Any]:
    """The processor time of XCA and of self-attention over square grids of so many tokens, forward, in one thread.

    `milliseconds`: the median over rounds, in which both take turns. `ratio`: self-attention's over XCA's, of the same
    round. `exponent`: of the tokens, by which the time grows from the last number of tokens but one to the last.
    """
    made = {XCA: CrossCovarianceAttention(width, heads), SELF: _self_attention(width, heads)}
    rows = []
    for count in tokens:
        side = round(count**0.5)
        x = torch.randn(1, side, side, width, generator=torch.Generator().manual_seed(0))
        calls = {name: _count_calls(partial(module, x)) for name, module in made.items()}
        seconds: dict[str, list[float]] = {name: [] for name in made}
        for number in range(ROUNDS):
            for name in random.Random(number).sample(list(made), len(made)):
                seconds[name].append(_time_calls(partial(made[name], x), calls[name]))
        rows.append(
            {
                "tokens": side * side,
                "milliseconds": {name: median(each) * 1000 for name, each in seconds.items()},
                "mflop": {name: count_flops(module, x) / 1e6 for name, module in made.items()},
                "ratio": median(s / c for s, c in zip(seconds[SELF], seconds[XCA], strict=True)),
            }
        )
    return {"rows": rows, "exponent": {name: _fit_exponent(rows[-2:], name) for name in made}}


def xcit_text(result: Mapping[str, Any]) -> str:
    """The result as two tables."""
    trained = [
        (
            row["attention"],
            f"{row['parameters']:,}",
            f"{row['flops'] / 1e6:.1f}",
            f"{row['right']:.1%}",
            " to ".join(f"{end:.1%}" for end in row["over_photos"]),
            " to ".join(f"{end:.1%}" for end in row["over_seeds"]) if row["over_seeds"] else "-",
            f"{row['right_of_training']:.1%}",
            f"{row['processor_seconds']:.0f}",
        )
        for row in result["rows"]
    ]
    heads = ("", "parameters", "MFLOP", "named rightly", "over photos", "over seeds", "of training", "processor s")
    costs = [
        (
            f"{row['tokens']:,}",
            *(f"{row[kind][name]:.2f}" for name in (XCA, SELF) for kind in ("milliseconds", "mflop")),
            f"{row['ratio']:.2f}",
        )
        for row in result["cost"]["rows"]
    ]
    columns = ("tokens", f"{XCA}, ms", "MFLOP", f"{SELF}, ms", "MFLOP", "ratio")
    grown = ", ".join(f"{name} by the power {power:.2f}" for name, power in result["cost"]["exponent"].items())
    return "\n".join(
        [format_table(heads, trained), "", format_table(columns, costs), f"of the tokens at the end: {grown}"]
    )


def _build_row(name: str, runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The runs of a network, over its seeds."""
    shares = [run["right"] / run["held_out"] for run in runs]
    return {
        "attention": name,
        "parameters": runs[0]["parameters"],
        "flops": runs[0]["flops"],
        "right": float(np.mean(shares)),
        "over_photos": wilson_interval(float(np.mean([run["right"] for run in runs])), runs[0]["held_out"]),
        "over_seeds": student_interval(shares),
        "right_of_training": float(np.mean([run["right_of_training"] for run in runs])),
        "by_seed": shares,
        "learning": runs[0]["learning"],
        "processor_seconds": float(np.mean([run["processor_seconds"] for run in runs])),
    }


def _self_attention(d: int, heads: int) -> torch.nn.Module:
    return Transformer(heads).build(Place(d, d, 1, 1))


def _count_calls(work: Callable[[], object]) -> int:
    """The calls of a sample; the first, which warms up, does not count."""
    _time_calls(work, 1)
    return max(1, int(LEAST / max(_time_calls(work, 1), 1e-6)) + 1)


def _time_calls(work: Callable[[], object], calls: int) -> float:
    began = time.process_time()
    with torch.inference_mode():
        for _ in range(calls):
            work()
    return (time.process_time() - began) / calls


def _fit_exponent(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    times, counts = [row["milliseconds"][name] for row in rows], [row["tokens"] for row in rows]
    return float(np.log(times[-1] / times[0]) / np.log(counts[-1] / counts[0])) if len(rows) > 1 else float("nan")
