"""One small pair network on Omniglot: its panel part taught by contrast, its trunk by pairs, measured in one shot."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from diptych_model import PairConfig, PairNetwork
from diptych_model.flops import flops, parameters
from diptych_training.data.characters import Characters, Groups, draw_episodes, load_characters, pictures
from diptych_training.learning.losses import embedding_loss

WAYS = 20
PANEL_GROUPS, PANEL_SIZE = 8, 16  # a step of contrast: so many groups of so many characters, all against all
GROUPS, SIZE = 4, 8  # a step of pairs: within each group every character against every other
TEMPERATURE = 0.1
# What results depend on besides their settings, kept with them.
PROTOCOL = [WAYS, PANEL_GROUPS, PANEL_SIZE, GROUPS, SIZE, TEMPERATURE]


def teach_panel(
    data: str, directory: str, *, config: Mapping[str, Any], steps: int, rate: float, episodes: int, seed: int
) -> dict[str, Any]:
    """Train a panel part alone by the contrast of its embedding, keep it in the directory, measure the embedding."""
    torch.manual_seed(seed)
    network = PairNetwork(PairConfig.from_dict(config))
    groups = Groups(_characters(data, "background", network.config.pixels), seed)
    for step in scheduled(network.panel, steps, rate):
        a, b = groups.draw(step, PANEL_GROUPS, PANEL_SIZE)
        _contrast(network.encode(torch.cat([a.flatten(0, 1), b.flatten(0, 1)]))[1]).backward()
    save_file(network.panel.state_dict(), _panel(directory, seed))
    one = torch.zeros(1, 3, network.config.pixels, network.config.pixels)
    return {
        "parameters": parameters(network.panel),
        "flops": 2 * flops(network.panel.eval(), one),
        "won": measure_embedding(network, _characters(data, "validation", network.config.pixels), episodes),
    }


def train_and_measure(
    data: str, directory: str, *, config: Mapping[str, Any], steps: int, rate: float, episodes: int, seed: int
) -> dict[str, Any]:
    """Train a network that begins with the taught panel part of its seed; return its cost and the trials won in each
    episode.
    """
    torch.manual_seed(seed)
    network = PairNetwork(PairConfig.from_dict(config))
    network.panel.load_state_dict(load_file(_panel(directory, seed)))
    # Other pictures than the panel part has seen in the same order.
    groups = Groups(_characters(data, "background", network.config.pixels), seed + 1_000_000)
    losses = [_learn(network, *groups.draw(step, GROUPS, SIZE)) for step in scheduled(network, steps, rate)]
    one = torch.zeros(1, 3, network.config.pixels, network.config.pixels)
    return {
        "parameters": parameters(network),
        "flops": flops(network.eval(), one, one),
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(10, len(losses)))],
        "won": measure(network, _characters(data, "validation", network.config.pixels), episodes),
    }


def measure_embedding(network: PairNetwork, characters: Characters, episodes: int) -> list[int]:
    """The number of each episode's trials that the embedding wins, by cosine."""
    network.eval()
    with torch.no_grad():
        vectors = torch.cat([network.encode(part)[1] for part in pictures(characters.pixels).split(256)])
    return [
        _won(vectors[torch.from_numpy(episode.queries)] @ vectors[torch.from_numpy(episode.candidates)].T)
        for episode in draw_episodes(characters, episodes, ways=WAYS)
    ]


def measure(network: PairNetwork, characters: Characters, episodes: int) -> list[int]:
    """The number of each episode's trials that the network wins: the right candidate's score is above all others'."""
    network.eval()
    drawn, won = draw_episodes(characters, episodes, ways=WAYS), []
    whole = pictures(characters.pixels)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        literal = network.config.seam == "pixels"
        sides = whole if literal else torch.cat([network.encode(part)[0] for part in whole.split(256)])
        for episode in drawn:
            queries, candidates = torch.from_numpy(episode.queries), torch.from_numpy(episode.candidates)
            score = network if literal else network.relate
            scores = [score(sides[q].expand(WAYS, -1, -1, -1), sides[candidates]) for q in queries]
            won.append(_won(torch.stack(scores).float()))
    return won


def _learn(network: PairNetwork, a: Tensor, b: Tensor) -> float:
    """One step's gradients: every character of a group against every other, one group at a time for the cache.

    The embedding learns beside the pair score, as in the released recipe: what it teaches the stem gives attention
    something to find. The pictures of all groups go through the stem at once, with the seam open in pixels as t of
    every pair; its statistics then are those of what is scored.
    """
    network.train()
    groups, size = a.shape[:2]
    literal = network.config.seam == "pixels"
    with torch.autocast("cpu", torch.bfloat16):
        if literal:
            left, right = a.repeat_interleave(size, 1).flatten(0, 1), b.repeat(1, size, 1, 1, 1).flatten(0, 1)
            orders = (left, right), (right, left)
            tokens = torch.cat([side for order in orders for side in network.panel.literal(*order)])
            with _settled(network.panel):
                embeddings = network.encode(torch.cat([a, b]).flatten(0, 1))[1]
        else:
            tokens, embeddings = network.encode(torch.cat([a, b]).flatten(0, 1))
    leaf = tokens.detach().requires_grad_()
    total = 0.0
    for sides in zip(*leaf.unflatten(0, (4 if literal else 2, groups, -1)), strict=True):
        with torch.autocast("cpu", torch.bfloat16):
            if literal:
                logits = (network.pair(*sides[:2]) + network.pair(*sides[2:])) / 2
            else:
                logits = network.pair(sides[0].repeat_interleave(size, 0), sides[1].repeat(size, 1, 1, 1))
        loss = group_loss(logits.float().view(size, size)) / groups
        loss.backward()
        total += float(loss.detach())
    torch.autograd.backward([tokens, _contrast(embeddings.float())], [leaf.grad, None])
    return total


@contextmanager
def _settled(module: nn.Module) -> Iterator[None]:
    """Batch normalisation as in evaluation: what passes leaves its statistics alone."""
    module.eval()
    yield
    module.train()


def group_loss(logits: Tensor) -> Tensor:
    """Each picture finds its own in the other hand's row and column, (W, W) with matches on the diagonal; and log-loss,
    matches and others weighing the same.
    """
    own = torch.arange(len(logits))
    listwise = F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)
    matches = torch.eye(len(logits), dtype=torch.bool)
    return listwise / 2 + 0.5 * (F.softplus(-logits[matches]).mean() + F.softplus(logits[~matches]).mean())


def _contrast(embeddings: Tensor) -> Tensor:
    one, other = embeddings.unflatten(0, (2, -1))
    match = torch.eye(one.shape[0], dtype=torch.bool)
    return embedding_loss(one @ other.T, match, ~match, TEMPERATURE)


def _won(table: Tensor) -> int:
    """The number of rows of (W, W) with their largest entry on the diagonal; a tie is not won."""
    others = table.masked_fill(torch.eye(WAYS, dtype=torch.bool), -torch.inf)
    return int((table.diagonal() > others.amax(1)).sum())


def scheduled(module: nn.Module, steps: int, rate: float) -> Iterator[int]:
    """Yield every step, between them clip the gradients and let AdamW take one; warm-up, then a cosine to zero.

    What needs no gradient when it begins stays as it is.
    """
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learning, rate, weight_decay=0.02)
    warm = max(1, steps // 20)
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (step + 1) / warm) * (0.5 + 0.5 * np.cos(np.pi * step / steps))
        yield step
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def _panel(directory: str, seed: int) -> Path:
    return Path(directory) / f"panel-{seed}.safetensors"


@cache
def _characters(data: str, split: str, size: int) -> Characters:
    return load_characters(Path(data), split, size)
