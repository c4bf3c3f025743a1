"""The run of an aligned-pair network: make its pairs, train, resume, measure on sources held out, and write it."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tomli_w
import torch
from onnx import numpy_helper

from diptych.console import Console
from diptych_model.networks.aligned import WEIGHTS, AlignedPairNetwork, load_aligned, save_aligned
from diptych_runtime.closer_look.aligned import graph
from diptych_runtime.manifest import digest
from diptych_training.aligned.recipe import RELEASED, AlignedRecipe
from diptych_training.aligned.shelves import KeptPair, make_shelves, read_shelf, sources_of
from diptych_training.aligned.training import odds_of, train_aligned
from diptych_training.data.archives import data_folder
from diptych_training.device import environment
from diptych_training.metrics import Pool
from diptych_training.run_folder import RECIPE, begun, counted, require_begun
from diptych_training.threads import torch_threads

BEST, STATE, METRICS, PAIRS = "best", "state.pt", "metrics.json", "pairs"
HELD_OUT = 20  # one in so many pairs, at the end of each source
EXAMINED = 300  # of a kind at most


def train_aligned_pairs(
    recipe: AlignedRecipe, directory: Path, *, resume: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Train an aligned-pair network; return how well it tells copies from look-alikes that are held out.

    `directory` receives the resolved recipe, the pairs, the state that `resume` goes on from, `metrics.json`, and the
    weights in `best`. Raises `DataError`.
    """
    require_begun(directory / RECIPE, resume)
    folder = data_folder() if recipe.aligned.archives else None
    with begun(directory, tomli_w.dumps(recipe.to_dict()), resume=resume), torch_threads(recipe.threads):
        return _trained(recipe, directory, folder, Console(quiet=quiet))


def _trained(recipe: AlignedRecipe, directory: Path, folder: Path | None, console: Console) -> dict[str, Any]:
    began, sources = time.perf_counter(), sources_of(recipe.aligned)
    with console.progress(total=len(sources), unit="source", desc="making pairs") as bar:
        make_shelves(
            sources,
            directory / PAIRS,
            photos=recipe.aligned.photos,
            seed=recipe.seed,
            folder=folder,
            processes=recipe.threads,
            tick=lambda: bar.update(1),
        )
    parts = [read_shelf(directory / PAIRS / source.name) for source in sources]
    ends = [len(part) - len(part) // HELD_OUT for part in parts]
    teaching = [pair for part, end in zip(parts, ends, strict=True) for pair in part[:end]]
    held_out = [pair for part, end in zip(parts, ends, strict=True) for pair in part[end:]]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        network = _starting(recipe.start)
        network, losses = train_aligned(
            network, teaching, recipe.learning, recipe.seed, state=directory / STATE, progress=partial(counted, console)
        )
    return _written(network, losses, teaching, held_out, directory, time.perf_counter() - began)


def _starting(start: str) -> AlignedPairNetwork:
    """A network that has the weights of `start`, which a recipe may begin with; without one, new weights."""
    if not start:
        return AlignedPairNetwork()
    if start != RELEASED:
        return load_aligned(Path(start))
    network = AlignedPairNetwork()
    kept = {one.name: numpy_helper.to_array(one) for one in onnx.load_from_string(graph()).graph.initializer}
    network.load_state_dict({name: torch.from_numpy(kept[name].copy()) for name in network.state_dict()})
    return network


def _written(
    network: AlignedPairNetwork,
    losses: list[float],
    teaching: list[KeptPair],
    held_out: list[KeptPair],
    directory: Path,
    seconds: float,
) -> dict[str, Any]:
    save_aligned(network, directory / BEST)
    found = {
        "pairs": len(teaching),
        "copies": sum(pair.copy for pair in teaching),
        "held_out": examined(network, held_out),
        "curve": [float(np.mean(part)) for part in np.array_split(losses, min(30, len(losses)))],
        "seconds": round(seconds),
        "environment": environment(),
        "digest": digest((directory / BEST / WEIGHTS).read_bytes()),
    }
    (directory / METRICS).write_text(json.dumps(found, indent=2) + "\n")
    return found


def examined(network: AlignedPairNetwork, pairs: list[KeptPair]) -> dict[str, dict[str, float]]:
    """For each kind of which there are both, the `copies` and `others` and the share `auc` of pairs of them in which
    the copy has the higher log-odds.
    """
    found = {}
    for kind in sorted({pair.kind for pair in pairs}):
        copies, others = ([p for p in pairs if p.kind == kind and p.copy == copy][:EXAMINED] for copy in (True, False))
        if copies and others:
            auc = Pool(odds_of(network, [*copies, *others]), np.arange(len(copies) + len(others)) < len(copies)).auc()
            found[kind] = {"copies": len(copies), "others": len(others), "auc": auc}
    return found
