"""MSAC-ResNet and MSAC-DenseNet beside their convolutional twins, and a sweep of widths, as classifiers of photos."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch

from diptych.console import format_table
from diptych_model.mixers import Msac
from diptych_model.operators import Scale
from diptych_studies.classifiers import Budget, Labelled, labelled_archive, name_classes, train_classifier
from diptych_studies.flops import count_parameters
from diptych_studies.grid import run_grid, write_runs
from diptych_studies.intervals import student_interval
from diptych_studies.mixers import StandAlone
from diptych_studies.networks.classifier import ClassifierConfig, classifier_flops
from diptych_training.errors import DataError
from diptych_training.metrics import wilson_interval

ARCHIVES = ("flowers", "grocery")
RATES = (2e-3, 4e-3)
WIDEST = 1024  # where the search for a width ends
WIDTHS = (8, 16, 24, 32)
COLUMNS = (
    *("archive", "network", "width", "seed", "rate", "parameters", "mflop", "steps", "right", "held_out"),
    *("right_of_training", "processor_seconds", "curve"),
)

Finished = Callable[[str], None] | None


def build_msac(*windows: int, heads: int, d: int) -> Msac:
    """SACs of one head, `heads` of each window size, larger windows separable."""
    return Msac(tuple(Scale(m, m, heads=1, d_a=d, d_o=d, separable=m > 1) for m in windows for _ in range(heads)))


# Large windows where the grid is fine (16 x 16), single positions where it is coarse (4 x 4).
MSACS = {
    "MSAC-ResNet": ClassifierConfig(
        "resnet",
        (2, 2, 2),
        16,
        spatial=(build_msac(3, 5, heads=1, d=8), build_msac(1, 3, heads=2, d=8), build_msac(1, heads=4, d=16)),
    ),
    "MSAC-DenseNet": ClassifierConfig(
        "densenet",
        (3, 3, 3),
        12,
        spatial=(build_msac(3, 5, heads=1, d=6), build_msac(1, 3, heads=1, d=6), build_msac(1, heads=2, d=6)),
    ),
}


def with_flops(config: ClassifierConfig, classes: int, operations: int) -> ClassifierConfig:
    """The same shape with the width that brings its operations nearest to so many."""
    low, high = 1, WIDEST
    while low < high:
        middle = (low + high) // 2
        if classifier_flops(replace(config, width=middle), classes) < operations:
            low = middle + 1
        else:
            high = middle
    near = [replace(config, width=width) for width in (low - 1, low) if width]
    return min(near, key=lambda one: abs(classifier_flops(one, classes) - operations))


def twins(classes: int) -> dict[str, ClassifierConfig]:
    """Both networks, and before each the convolutional one of nearest equal operations."""
    found = {}
    for name, config in MSACS.items():
        plain = replace(config, spatial=())
        found[name.removeprefix("MSAC-")] = with_flops(plain, classes, classifier_flops(config, classes))
        found[name] = config
    return found


def list_widths(sizes: Sequence[int] = WIDTHS) -> dict[str, ClassifierConfig]:
    """ResNets of some widths, with convolutions and with stand-alone attention in 5 x 5 windows."""
    forms = {"convolution": (), "stand-alone attention": (StandAlone(k=5),)}
    return {
        f"{form}, {width}": ClassifierConfig(width=width, spatial=spatial)
        for width in sizes
        for form, spatial in forms.items()
    }


def study_networks(
    directory: Path,
    folder: Path,
    *,
    archive: str = "flowers",
    sweep: bool = False,
    steps: int = Budget.steps,
    seeds: int = 3,
    rates: Sequence[float] = RATES,
    processes: int | None = None,
    finished: Finished = None,
) -> list[dict[str, Any]]:
    """Train the networks (or the widths, if `sweep`) on an archive's photos; return a row a run, written as CSV too.

    Every network is trained with the first seed at each rate, stands with the one whose last training steps cost least,
    and is trained at that with the other seeds. Each run is a file in the directory, not computed again.
    """
    if archive not in ARCHIVES or seeds < 1:
        raise DataError(f"a study needs an archive of {', '.join(ARCHIVES)} and a seed, got {archive} and {seeds}")
    if not rates:
        raise DataError("a study needs a learning rate, got none")
    classes = len(_load_photos(folder, archive).names)
    configs = list_widths() if sweep else twins(classes)
    work = partial(train_from, folder)

    def train_runs(wanted: Sequence[tuple[str, int, float]]) -> list[dict[str, Any]]:
        runs = {
            f"{archive}-{name}-rate-{rate:g}-seed-{seed}".replace(" ", "-").replace(",", ""): {
                **{"archive": archive, "network": name, "config": configs[name].to_dict(), "seed": seed},
                "budget": asdict(Budget(steps=steps, rate=rate)),
            }
            for name, seed, rate in wanted
        }
        return list(run_grid(directory, runs, work, processes=processes, finished=finished).values())

    rows = train_runs([(name, 0, rate) for rate in rates for name in configs])
    best = {name: min((row for row in rows if row["network"] == name), key=last_loss)["rate"] for name in configs}
    rows += train_runs([(name, seed, best[name]) for seed in range(1, seeds) for name in configs])
    write_runs(directory / f"{'widths' if sweep else 'networks'}-{archive}.csv", COLUMNS, rows)
    return rows


def train_from(
    folder: Path, archive: str, network: str, config: Mapping[str, Any], seed: int, budget: Mapping[str, Any]
) -> dict[str, Any]:
    """One run, from settings that are JSON."""
    photos, shape = _load_photos(folder, archive), ClassifierConfig.from_dict(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = shape.build(len(photos.names))
        began = process_time()
        losses = train_classifier(built, *photos.training, Budget(**budget), seed)
        seconds = process_time() - began
    right = name_classes(built, photos.validation[0]) == photos.validation[1]
    seen = name_classes(built, photos.training[0]) == photos.training[1]
    return {
        "archive": archive,
        "network": network,
        "width": shape.width,
        "seed": seed,
        "rate": budget["rate"],
        "parameters": count_parameters(built),
        "mflop": round(classifier_flops(shape, len(photos.names)) / 1e6, 2),
        "steps": budget["steps"],
        "right": int(right.sum()),
        "held_out": len(right),
        "right_of_training": round(float(seen.mean()), 4),
        "processor_seconds": round(seconds),
        "curve": [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(10, len(losses)))],
    }


def last_loss(row: Mapping[str, Any]) -> float:
    """The mean loss of the last tenth of a run's steps."""
    return row["curve"][-1]


def networks_text(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each network, at the rate that it stands with."""
    lines = []
    for name in dict.fromkeys(row["network"] for row in rows):
        found = select_standing_runs([row for row in rows if row["network"] == name])
        shares = [row["right"] / row["held_out"] for row in found]
        over_seeds, held_out = student_interval(shares), found[0]["held_out"]
        over_photos = wilson_interval(float(np.mean([row["right"] for row in found])), held_out)
        cells = [name, found[0]["width"], f"{found[0]['parameters']:,}", f"{found[0]['mflop']:.1f}"]
        cells += [f"{found[0]['rate']:g}", f"{np.mean(shares):.1%}", ", ".join(str(row["right"]) for row in found)]
        cells += [" to ".join(f"{end:.1%}" for end in each) if each else "-" for each in (over_photos, over_seeds)]
        cells += [f"{np.mean([row['right_of_training'] for row in found]):.1%}"]
        cells += [f"{np.mean([row['processor_seconds'] for row in found]):.0f}"]
        lines.append(cells)
    header = ("network", "width", "parameters", "MFLOP", "rate", "named rightly", "by seed", "over photos")
    text = format_table((*header, "over seeds", "of training", "processor s"), lines)
    return f"{text}\n{rows[0]['archive']}: {rows[0]['held_out']} photos held out, {rows[0]['steps']} steps"


def select_standing_runs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of one network's runs those at the rate that it stands with."""
    rate = min((row for row in rows if row["seed"] == 0), key=last_loss)["rate"]
    return [row for row in rows if row["rate"] == rate]


@cache
def _load_photos(folder: Path, archive: str) -> Labelled:
    """A process reads its photos once."""
    return labelled_archive(folder, archive, ClassifierConfig.pixels)
