"""The run of a network of losses: draw its examples while it learns, resume, measure on what is held out, write it."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
import torch
import torch.nn.functional as F

from diptych.console import Console
from diptych_model.networks.losses import WEIGHTS, LossesNetwork, load_losses, save_losses
from diptych_runtime.closer_look.comparison import LOSSES
from diptych_runtime.manifest import digest
from diptych_training.data.archives import data_folder
from diptych_training.device import default_device, environment, mixed_precision
from diptych_training.learning.schedule import warm_cosine
from diptych_training.losses.pairs import Example, draw_examples
from diptych_training.losses.recipe import LossesRecipe
from diptych_training.metrics import Pool
from diptych_training.run_folder import RECIPE, begun, counted, require_begun
from diptych_training.state import restore_state, save_state
from diptych_training.threads import torch_threads
from diptych_training.workers import worker_pool

BEST, STATE, METRICS = "best", "state.pt", "metrics.json"
CHUNK = 16  # examples that a process draws at a time
AHEAD = 3  # chunks for each process that are drawn before they are needed
SMOOTHED = 0.01  # of either answer
SAVE_EVERY = 100
_EXAMINING = 2**20  # what the seeds of the examples to be measured on begin with


class Shelf:
    """The examples from which steps draw: of the last chunks, of which a new one takes the place of the oldest.

    The same recipe gives the same ones in every step, however many processes draw them, or after a stop.
    """

    def __init__(self, recipe: LossesRecipe, folder: Path, pool: ProcessPoolExecutor, step: int) -> None:
        """Draw what is there before the given step."""
        self.recipe, self._pool = recipe, pool
        budget = recipe.learning
        self._steps_a_chunk = max(1, CHUNK * budget.uses // budget.batch)
        self._draw = partial(
            draw_examples,
            archives=recipe.losses.archives,
            most=recipe.losses.photos,
            without=recipe.losses.without,
            folder=folder,
            split="train",
        )
        last = max(1, budget.shelf // 4) + max(0, step - 1) // self._steps_a_chunk
        self._next = max(0, last - budget.shelf)
        self._drawing: deque[Future[list[Example]]] = deque()
        self.chunks: deque[list[Example]] = deque(maxlen=budget.shelf)
        while self._next - len(self._drawing) < last:
            self._take()

    def batch(self, step: int, rng: np.random.Generator) -> list[Example]:
        """The examples of a step."""
        if step and step % self._steps_a_chunk == 0:
            self._take()
        chunks = rng.integers(len(self.chunks), size=self.recipe.learning.batch)
        return [self.chunks[chunk][int(rng.integers(CHUNK))] for chunk in chunks]

    def _take(self) -> None:
        """Put the next chunk on the shelf, and have others begun."""
        while len(self._drawing) < AHEAD * self.recipe.threads:
            self._drawing.append(self._pool.submit(self._draw, CHUNK, [self.recipe.seed, self._next]))
            self._next += 1
        self.chunks.append(self._drawing.popleft().result())


def train_losses(recipe: LossesRecipe, directory: Path, *, resume: bool = False, quiet: bool = False) -> dict[str, Any]:
    """Train a network of losses; return how well it tells what is lost on archives that are held out.

    `directory` receives the resolved recipe, the state that `resume` goes on from, `metrics.json`, and the weights in
    `best`. Raises `DataError`.
    """
    require_begun(directory / RECIPE, resume)
    folder, console = data_folder(), Console(quiet=quiet)
    with (
        begun(directory, tomli_w.dumps(recipe.to_dict()), resume=resume),
        torch_threads(recipe.threads),
        worker_pool(recipe.threads) as pool,
        torch.random.fork_rng(devices=[]),
    ):
        torch.manual_seed(recipe.seed)
        began = time.perf_counter()
        network, curve = _learn(recipe, folder, pool, directory / STATE, console)
        held_out = list(_draw_held_out(recipe, folder, pool))
        save_losses(network, directory / BEST)
        found = {
            "held_out": examine(network, held_out),
            "curve": [float(np.mean(part)) for part in np.array_split(curve, min(30, len(curve)))],
            "seconds": round(time.perf_counter() - began),
            "environment": environment(),
            "digest": digest((directory / BEST / WEIGHTS).read_bytes()),
        }
        (directory / METRICS).write_text(json.dumps(found, indent=2) + "\n")
        return found


def _learn(
    recipe: LossesRecipe, folder: Path, pool: ProcessPoolExecutor, state: Path, console: Console
) -> tuple[LossesNetwork, list[float]]:
    """The network of averaged weights, and the loss of each step."""
    device, budget = default_device(), recipe.learning
    network = load_losses(Path(recipe.start)) if recipe.start else LossesNetwork()
    network = network.to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = torch.optim.AdamW(network.parameters(), budget.rate, weight_decay=budget.decay)
    average = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    rng, curve = np.random.default_rng(recipe.seed), list[float]()
    if state.exists():
        kept = restore_state(state, network, optimiser, rng, device)
        curve, average = kept["losses"], kept["average"]
    shelf = Shelf(recipe, folder, pool, len(curve))
    for step in counted(console, range(len(curve), budget.steps)):
        for group in optimiser.param_groups:
            group["lr"] = warm_cosine(budget.rate, step, budget.steps, budget.warmup)
        views, answers, weights = _stack(shelf.batch(step, rng), rng)
        torch.manual_seed(recipe.seed + step)  # of the dropout, that a run which was stopped goes on alike
        with mixed_precision(device):
            odds = network(views.to(device)).float()
        wanted = answers.to(device) * (1 - 2 * SMOOTHED) + SMOOTHED
        errors = F.binary_cross_entropy_with_logits(odds, wanted, reduction="none") * weights.to(device)
        loss = errors.mean((0, 1)) @ errors.new_tensor([1 / 3] * (len(LOSSES) - 1) + [1.0])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        curve.append(loss.item())
        for name, tensor in network.state_dict().items():
            if tensor.is_floating_point():
                average[name].lerp_(tensor, 1 - budget.average if step >= budget.warmup else 1.0)
            else:
                average[name].copy_(tensor)
        if len(curve) % SAVE_EVERY == 0:
            save_state(state, network, optimiser, rng, losses=curve, average=average)
    network.load_state_dict(average)
    return network.cpu().eval(), curve


def _stack(
    examples: Sequence[Example], rng: np.random.Generator | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Views uint8 (B, 2, 2, S, S, 8), answers and weights float32 (B, 2, 11); mirrored and transposed by chance."""
    views = np.stack([example.views for example in examples])
    if rng is not None and rng.random() < 0.5:
        views = views[..., ::-1, :]
    if rng is not None and rng.random() < 0.5:
        views = views.swapaxes(3, 4)
    answers, weights = (np.stack([example[place] for example in examples]) for place in (1, 2))
    return torch.from_numpy(np.ascontiguousarray(views)), torch.from_numpy(answers), torch.from_numpy(weights)


def _draw_held_out(recipe: LossesRecipe, folder: Path, pool: ProcessPoolExecutor) -> Iterator[Example]:
    origins = recipe.losses
    draw = partial(
        draw_examples, archives=origins.held_out, most=origins.photos, without=(), folder=folder, split="validation"
    )
    chunks = -(-recipe.learning.examined // CHUNK)
    for chunk in [pool.submit(draw, CHUNK, [_EXAMINING, recipe.seed, number]) for number in range(chunks)]:
        yield from chunk.result()


def examine(network: LossesNetwork, examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """For each of the losses the number of examples that have it, and that do not, and the share `auc` of pairs of them
    in which the one that has it gets the higher log-odds.
    """
    odds, found = odds_of(network, examples).reshape(-1, len(LOSSES)), {}
    answers, weights = (np.concatenate([example[place] for example in examples]) for place in (1, 2))
    for place, loss in enumerate(LOSSES):
        counts, lost = weights[:, place] > 0, answers[:, place] > 0
        if (counts & lost).any() and (counts & ~lost).any():
            auc = Pool(odds[counts, place].astype(np.float64), lost[counts]).auc()
            found[loss] = {"lost": int((counts & lost).sum()), "kept": int((counts & ~lost).sum()), "auc": auc}
    return found


def odds_of(network: LossesNetwork, examples: Sequence[Example]) -> np.ndarray:
    """The log-odds float32 (B, 2, 11) that the network gives to examples."""
    with torch.inference_mode():
        parts = [network(_stack(examples[begin : begin + 16])[0]) for begin in range(0, len(examples), 16)]
    return torch.cat(parts).numpy()
