"""Training a small classifier of pictures, and measuring it: for networks that the pair network is not."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from diptych_training.errors import DataError
from diptych_training.learning.schedule import warm_cosine
from diptych_training.state import restore_state, save_state

Progress = Callable[[range], Iterable[int]]
SHIFT = 6  # pixels that a picture is moved by at most


@dataclass(frozen=True)
class Budget:
    """The training budget of a classifier: AdamW with warm-up and a cosine schedule, `batch` pictures a step."""

    steps: int = 600
    batch: int = 32
    rate: float = 2e-3
    warmup: int = 50
    decay: float = 0.05
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.warmup) < 1 or self.rate <= 0 or not 0 <= self.smoothing < 1:
            raise DataError(f"steps, batch, warmup and rate must be positive, smoothing from 0 to below 1, got {self}")

    def rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return warm_cosine(self.rate, step, self.steps, self.warmup)


def train_classifier(
    network: nn.Module,
    pixels: np.ndarray,
    labels: np.ndarray,
    budget: Budget,
    seed: int,
    *,
    state: Path | None = None,
    save_every: int = 50,
    progress: Progress = lambda items: items,
) -> list[float]:
    """Train on pictures uint8 (n, S, S, 3) with labels (n,), mirrored and moved at random: the loss of each step.

    The order and the moves follow from the seed, dropout from torch's own generator. With a `state` file a run that was
    stopped goes on from there, to the same numbers.
    """
    heavy = [p for p in network.parameters() if p.dim() > 1]
    light = [p for p in network.parameters() if p.dim() <= 1]
    groups = [{"params": heavy, "weight_decay": budget.decay}, {"params": light, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=budget.rate)
    rng = np.random.default_rng(seed)
    losses, waiting = list[float](), np.empty(0, np.int64)
    if state is not None and state.exists():
        kept = restore_state(state, network, optimiser, rng)
        losses, waiting = kept["losses"], kept["waiting"].numpy()
        torch.set_rng_state(kept["torch"])
    network.train()
    for step in progress(range(len(losses), budget.steps)):
        while len(waiting) < budget.batch:
            waiting = np.concatenate([waiting, rng.permutation(len(pixels))])
        chosen, waiting = waiting[: budget.batch], waiting[budget.batch :]
        for group in optimiser.param_groups:
            group["lr"] = budget.rate_at(step)
        logits = network(_moved(pixels[chosen], rng))
        loss = F.cross_entropy(logits, torch.from_numpy(labels[chosen]), label_smoothing=budget.smoothing)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.item())
        if state is not None and len(losses) % save_every == 0:
            others = {"losses": losses, "waiting": torch.from_numpy(waiting), "torch": torch.get_rng_state()}
            save_state(state, network, optimiser, rng, **others)
    return losses


def answers(network: nn.Module, pixels: np.ndarray, batch: int = 100) -> np.ndarray:
    """The class that the network gives each picture uint8 (n, S, S, 3): int64 (n,)."""
    network.eval()
    with torch.inference_mode():
        parts = [network(as_input(pixels[at : at + batch])).argmax(1) for at in range(0, len(pixels), batch)]
    return torch.cat(parts).numpy()


def as_input(pixels: np.ndarray) -> Tensor:
    """Pictures uint8 (n, S, S, 3) as float32 between -1 and 1, channels last."""
    return torch.from_numpy(pixels).float() / 127.5 - 1


def _moved(pixels: np.ndarray, rng: np.random.Generator) -> Tensor:
    """Each picture mirrored or not, and moved by a few pixels; beyond its edge the edge is repeated."""
    size: Any = pixels.shape[1]
    padded = np.pad(pixels, ((0, 0), (SHIFT, SHIFT), (SHIFT, SHIFT), (0, 0)), mode="edge")
    moved = np.empty_like(pixels)
    for place, picture in enumerate(padded):
        down, across = rng.integers(0, 2 * SHIFT + 1, 2)
        cut = picture[down : down + size, across : across + size]
        moved[place] = cut[:, ::-1] if rng.random() < 0.5 else cut
    return as_input(moved)
