"""Training the aligned-pair network, and the log-odds it gives to pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_model.networks.aligned import STRIDE, AlignedPairNetwork
from diptych_training.aligned.recipe import Budget
from diptych_training.aligned.shelves import KeptPair
from diptych_training.device import default_device, mixed_precision
from diptych_training.learning.schedule import warm_cosine
from diptych_training.state import restore_state, save_state

Progress = Callable[[range], Iterable[int]]
SHRUNK = (1.0, 1.0, 0.8, 0.6)  # scales of pairs, drawn from
TURNED, ALONG, ACROSS, RECOLOURED = (
    0.3,
    0.5,
    0.3,
    0.2,
)  # chances of a transposed, mirrored, upturned and blue-for-red pair
SMOOTHED = 0.01  # of either answer
TOGETHER = 6  # pairs that are computed at a time, of about one size
SAVE_EVERY = 100


class Draws:
    """Pairs in the order in which they are learnt: copies and others half each, kinds by the root of their number."""

    def __init__(self, pairs: Sequence[KeptPair]) -> None:
        """Group the pairs by kind and label. Raises ValueError where there are no copies, or no others."""
        self.pairs = pairs
        keys = sorted({(pair.kind, pair.copy) for pair in pairs})
        if {copy for _, copy in keys} != {True, False}:
            raise ValueError(f"copies and others are needed to learn from, got {len(pairs)} pairs of one sort")
        self.groups = [[i for i, pair in enumerate(pairs) if (pair.kind, pair.copy) == key] for key in keys]
        weights, copies = np.sqrt([len(group) for group in self.groups]), np.array([copy for _, copy in keys])
        self.chances = weights / np.where(copies, weights[copies].sum(), weights[~copies].sum()) / 2

    def draw(self, count: int, rng: np.random.Generator) -> list[KeptPair]:
        """Pairs by chance, the smallest first."""
        groups = rng.choice(len(self.groups), count, p=self.chances)
        pairs = [self.pairs[int(rng.choice(self.groups[group]))] for group in groups]
        return sorted(pairs, key=lambda pair: pair.pixels.size)


def train_aligned(
    network: AlignedPairNetwork,
    pairs: Sequence[KeptPair],
    budget: Budget,
    seed: int,
    *,
    state: Path | None = None,
    progress: Progress = lambda items: items,
) -> tuple[AlignedPairNetwork, list[float]]:
    """Train on pairs: the network of averaged weights, and the loss of each step.

    With a `state` file a run that was stopped goes on from there, to the same numbers.
    """
    device = default_device()
    network = network.to(device).train()
    optimiser = torch.optim.AdamW(network.parameters(), budget.rate, weight_decay=budget.decay)
    average = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    rng, losses, draws = np.random.default_rng(seed), list[float](), Draws(pairs)
    if state is not None and state.exists():
        kept = restore_state(state, network, optimiser, rng, device)
        losses, average = kept["losses"], kept["average"]
    for step in progress(range(len(losses), budget.steps)):
        for group in optimiser.param_groups:
            group["lr"] = warm_cosine(budget.rate, step, budget.steps, budget.warmup)
        optimiser.zero_grad()
        losses.append(_learn(network, draws.draw(budget.batch, rng), budget, step / budget.steps, rng))
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        for name, tensor in network.state_dict().items():
            average[name].lerp_(tensor, 1 - budget.average if step else 1.0)
        if state is not None and len(losses) % SAVE_EVERY == 0:
            save_state(state, network, optimiser, rng, losses=losses, average=average)
    network.load_state_dict(average)
    return network.cpu().eval(), losses


def _learn(
    network: AlignedPairNetwork, pairs: Sequence[KeptPair], budget: Budget, done: float, rng: np.random.Generator
) -> float:
    """The loss of a step of which the gradients are left in the network."""
    total, device = 0.0, next(network.parameters()).device
    share = max(budget.share, 1.2 - 2 * done)
    for begin in range(0, len(pairs), TOGETHER):
        part = pairs[begin : begin + TOGETHER]
        pictures = batch([_changed(pair, budget.small if rng.random() < share else 0, rng) for pair in part])
        labels = torch.tensor([float(pair.copy) for pair in part], device=device)
        with mixed_precision(device):
            odds = network(pictures.to(device)).float()
        target = labels * (1 - 2 * SMOOTHED) + SMOOTHED
        loss = F.binary_cross_entropy_with_logits(odds, target, reduction="sum") / len(pairs)
        loss.backward()
        total += loss.item()
    return total


def odds_of(network: AlignedPairNetwork, pairs: Sequence[KeptPair]) -> np.ndarray:
    """The log-odds float64 (P,) that the network gives to pairs as they are."""
    with torch.inference_mode():
        return np.array([network(batch([pair.pixels])).item() for pair in pairs], np.float64)


def batch(pairs: Sequence[np.ndarray]) -> Tensor:
    """Pairs uint8 (h, w, 7) as float32 (B, 7, H, W) from 0 to 1, filled up with places that are not shown."""
    height, width = (-(-max(pair.shape[axis] for pair in pairs) // STRIDE) * STRIDE for axis in (0, 1))
    filled = np.zeros((len(pairs), height, width, 7), np.uint8)
    for place, pair in enumerate(pairs):
        filled[place, : pair.shape[0], : pair.shape[1]] = pair
    scale = torch.tensor([255.0] * 6 + [1.0]).view(1, 7, 1, 1)
    return torch.from_numpy(filled).permute(0, 3, 1, 2) / scale


def _changed(pair: KeptPair, most: int, rng: np.random.Generator) -> np.ndarray:
    """A pair uint8 (h, w, 7) made smaller, turned or mirrored, in other colours: the same question. `most` pixels a
    side, or with 0 as many as there are.
    """
    pixels, scale = np.asarray(pair.pixels), float(rng.choice(SHRUNK))
    if most:
        scale *= min(1.0, most / max(pixels.shape[:2]))
    if scale < 1:
        size = max(32, int(pixels.shape[1] * scale)), max(32, int(pixels.shape[0] * scale))
        parts = [np.ascontiguousarray(part) for part in (pixels[..., :3], pixels[..., 3:6], pixels[..., 6])]
        pixels = np.dstack([cv2.resize(part, size, interpolation=cv2.INTER_AREA) for part in parts])
    if rng.random() < ALONG:
        pixels = pixels[:, ::-1]
    if rng.random() < ACROSS:
        pixels = pixels[::-1]
    if rng.random() < TURNED:
        pixels = pixels.swapaxes(0, 1)
    return pixels[..., [2, 1, 0, 5, 4, 3, 6]] if rng.random() < RECOLOURED else pixels
