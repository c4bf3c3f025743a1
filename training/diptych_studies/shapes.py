"""A study of the shape of the pair part: photo networks alike in all but that, accuracy beside cost.

Every shape begins on the released model's panel part, whose stem stands still, with a trunk that knows nothing, and
learns to tell copies with the same data, steps and seed. Accuracy is micro-AP over all validation photos; cost is that
of a pair in the exported graph, on one thread, all shapes in turns.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from diptych.console import format_table
from diptych_model import PairNetwork, load_checkpoint, save_checkpoint
from diptych_runtime.atomic import replacing_file
from diptych_studies.flops import count_parameters
from diptych_studies.grid import run_grid
from diptych_studies.intervals import bootstrap
from diptych_training.data.archives import Archives
from diptych_training.device import describe_environment
from diptych_training.errors import DataError
from diptych_training.evaluation.open_model import open_model
from diptych_training.learning.run import LAST, train
from diptych_training.metrics import Pool
from diptych_training.recipe import recipe_from, start_of
from diptych_training.tasks import Source, task_from
from diptych_training.tasks.validation import validate

START, STEPS, PAIRS, ROUNDS, CANDIDATES = "photo-small", 500, 64, 15, 20
_MARKERS = "osD^vP*X<>"
TASK = {"kind": "copy", "queries": 48}
STAGE = {"negatives": 5, "easy": 1, "frozen": True}
LEARNING = {"rate": 1.5e-3, "warmup": 50, "link": 0.5, "threshold": 1.0, "average": 0.99}

_SINGLE = {"n": 1, "m": 1, "heads": 1, "d_a": 32, "d_o": 32}
_THREE = {"blocks": 3}


def _make_msac_settings(*last: Mapping[str, Any], single: int = 3) -> dict[str, Any]:
    return _THREE | {"mixer": {"kind": "msac", "crossing": 4.0, "scales": [*[_SINGLE] * single, *last]}}


_WINDOW = {**_SINGLE, "n": 3, "m": 3, "separable": True}
_WIDE = {**_SINGLE, "n": 5, "m": 5, "separable": True}
_CASCADE = {**_SINGLE, "n": 3, "m": 3, "separable": True, "cascade": 2}
_WHOLE = {**_SINGLE, "n": 3, "m": 3}
SHAPES: dict[str, dict[str, Any]] = {
    "1 block": {"blocks": 1},
    "2 blocks": {"blocks": 2},
    "3 blocks": _THREE,
    "4 blocks": {"blocks": 4},
    "single positions only": _make_msac_settings(single=4),
    "3 x 3 not separable": _make_msac_settings(_WHOLE),
    "5 x 5 separable": _make_msac_settings(_WIDE),
    "5 x 5 as a cascade": _make_msac_settings(_CASCADE),
    "2 SACs": _make_msac_settings(_WINDOW, single=1),
    "6 x 6 tokens": _THREE | {"pixels": 96},
}


def study_shapes(
    directory: Path,
    data: Path,
    *,
    steps: int = STEPS,
    seeds: int = 1,
    only: tuple[str, ...] = (),
    processes: int | None = None,
    finished: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Train and measure every shape, or `only` some; return one row a shape. What `directory` has is not done again.

    Raises `DataError` for a shape that is not in `SHAPES`.
    """
    if unknown := [name for name in only if name not in SHAPES]:
        raise DataError(f"there is no shape {unknown[0]!r}; there are {', '.join(SHAPES)}")
    names = only or tuple(SHAPES)
    start = directory / "shapes-start"
    if not start.exists():
        _panel_alone(start)
    runs = {
        _name_run(name, seed): {"network": SHAPES[name], "steps": steps, "seed": seed}
        for name in names
        for seed in range(seeds)
    }
    work = partial(_train_and_measure, str(data), str(directory))
    given = {"start": START, "task": TASK, "stage": STAGE, "learning": LEARNING}
    named = {run: {**settings, "name": run} for run, settings in runs.items()}
    results = run_grid(directory, named, work, given=given, processes=processes, finished=finished)
    costs = _measure_costs({name: directory / _name_run(name, 0) / LAST for name in names})
    rows = []
    for name in names:
        found = [results[_name_run(name, seed)] for seed in range(seeds)]
        rows.append(
            {
                "shape": name,
                "parameters": found[0]["parameters"],
                "micro_ap": float(np.mean([one["micro_ap"] for one in found])),
                "interval": np.mean([one["interval"] for one in found], 0).tolist(),
                "recall@1": float(np.mean([one["recall@1"] for one in found])),
                "first_stage": float(np.mean([one["first_stage"] for one in found])),
                **costs[name],
            }
        )
    result = {"study": "shapes", "rows": rows, "settings": {"steps": steps, "seeds": seeds, **given}}
    result["environment"] = describe_environment()
    with replacing_file(directory / "shapes.json") as unfinished:
        unfinished.write_text(json.dumps(result, indent=1) + "\n")
    return result


def shapes_text(result: dict[str, Any]) -> str:
    """The rows as a table for people."""
    rows = [
        (
            row["shape"],
            f"{row['parameters'] / 1e6:.2f}",
            f"{row['mflops']:.1f}",
            f"{row['milliseconds']:.2f}",
            f"{row['micro_ap']:.3f}",
            "{:.3f} to {:.3f}".format(*row["interval"]),
            f"{row['recall@1']:.3f}",
        )
        for row in result["rows"]
    ]
    header = ("", "M params", "MFLOP a pair", "ms a pair", "micro-AP", "95 % interval", "recall@1")
    settings = result["settings"]
    return (
        f"{format_table(header, rows)}\n{settings['steps']} steps, {settings['seeds']} seeds; the embedding alone: "
        f"micro-AP {result['rows'][0]['first_stage']:.3f}; one thread, {PAIRS} pairs at a time; intervals over queries"
    )


def plot_shapes(result: dict[str, Any], path: Path) -> None:
    """Draw accuracy, with its interval, against the cost of a pair, every shape by its name."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), facecolor="white", layout="constrained")
    # pyplot, which would ask for a screen, is not needed to write a file.
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, row in enumerate(result["rows"]):
        low, high = row["interval"]
        spread = [[row["micro_ap"] - low], [high - row["micro_ap"]]]
        axes.errorbar(
            row["milliseconds"],
            row["micro_ap"],
            spread,
            capsize=3,
            label=row["shape"],
            color=f"C{place % 10}",
            marker=_MARKERS[place % len(_MARKERS)],
            linestyle="none",
        )
    axes.axhline(result["rows"][0]["first_stage"], color="#777777", linestyle="--", label="embedding alone")
    axes.set(xlabel="ms a pair, one thread", ylabel="micro-AP", xlim=(0, None))
    # Beside the points: names upon them would cover each other.
    figure.legend(loc="outside right upper")
    with replacing_file(path) as unfinished:
        figure.savefig(unfinished)


def _name_run(shape: str, seed: int) -> str:
    return f"shape-{shape.replace(' ', '-')}-{seed}"


def _panel_alone(directory: Path) -> None:
    """The released model's panel part under another relation: whatever starts from it has a trunk of its own."""
    released = load_checkpoint(start_of(START))[0]
    other = PairNetwork(replace(released.config, relation="late"))
    other.panel.load_state_dict(released.panel.state_dict())
    save_checkpoint(other, directory, {})


def _train_and_measure(
    data: str, directory: str, *, network: Mapping[str, Any], steps: int, seed: int, name: str
) -> dict[str, Any]:
    pixels = network.get("pixels", 128)
    recipe = recipe_from(
        {
            "name": name,
            "start": str(Path(directory, "shapes-start")),
            "seed": seed,
            "threads": 1,
            "mine_every": 250,
            "validate_every": steps,
            "network": {"relation": "trunk", **network},
            "learning": LEARNING,
            "tasks": [TASK],
            "stages": [{"pixels": pixels, "steps": steps, **STAGE}],
        }
    )
    out = Path(directory, name)
    train(recipe, out, data=Path(data), resume=(out / "state.pt").exists(), quiet=True)
    trained = load_checkpoint(out / LAST)[0]
    archives = Archives(round(pixels * 1.375), Path(data))
    validation = task_from(TASK).open(Source(archives, pixels, seed, trained.device)).validation(whole=True)
    first, after = validate(trained, validation, pixels, candidates=CANDIDATES)
    owner = np.repeat(np.arange(len(after.scores)), after.scores.shape[1])
    pool = Pool(after.scores.ravel(), after.relevant.ravel(), owner)

    def drawn_anew(rows: np.ndarray) -> float:
        return pool.average_precision(len(rows), np.bincount(rows, minlength=len(after.scores)))

    return {
        "parameters": count_parameters(trained),
        **{key: after.summary()[key] for key in ("micro_ap", "recall@1")},
        "first_stage": first.summary()["micro_ap"],
        "interval": list(bootstrap(drawn_anew, len(after.scores), draws=300)),
    }


def _measure_costs(checkpoints: Mapping[str, Path]) -> dict[str, dict[str, float]]:
    """Measure the milliseconds and operations of a pair as it is served.

    They are medians of rounds in turns, on one thread.
    """
    with ExitStack() as stack:
        runtimes = {name: stack.enter_context(open_model(str(path), threads=1)) for name, path in checkpoints.items()}
        rng = np.random.default_rng(0)
        tokens = {
            name: rng.standard_normal((PAIRS, *runtime.token_shape)).astype(np.float16)
            for name, runtime in runtimes.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in runtimes}
        for number in range(ROUNDS + 1):
            for name, runtime in runtimes.items():
                began = perf_counter()
                runtime.pair_logits(tokens[name], tokens[name][::-1])
                if number:
                    seconds[name].append(perf_counter() - began)
    return {
        name: {
            "milliseconds": float(np.median(seconds[name]) / PAIRS * 1000),
            "mflops": runtime.manifest.flops["pair"] / 1e6,
        }
        for name, runtime in runtimes.items()
    }
