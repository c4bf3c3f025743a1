"""One small pair network on Omniglot: its panel part taught by contrast, its trunk by pairs, measured in one shot."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from diptych_model import PairConfig, PairNetwork
from diptych_studies import mixers  # noqa: F401 - a process of its own has to know their kinds
from diptych_studies.flops import count_flops, count_parameters
from diptych_training.data.characters import Characters, Groups, draw_episodes, load_characters, make_pictures
from diptych_training.device import default_device
from diptych_training.learning.losses import embedding_loss
from diptych_training.optimisation import restore_state, save_state

WAYS = 20
PANEL_GROUPS, PANEL_SIZE = 8, 16  # a step of contrast: so many groups of so many characters, all against all
GROUPS, SIZE = 4, 8  # a step of pairs: within each group every character against every other
TEMPERATURE = 0.1
SAVE_EVERY = 100  # steps: a minute or two
# What results depend on besides their settings, kept with them.
PROTOCOL = [WAYS, PANEL_GROUPS, PANEL_SIZE, GROUPS, SIZE, TEMPERATURE, "float32"]


def teach_panel(
    data: str, directory: str, *, config: Mapping[str, Any], steps: int, rate: float, episodes: int, seed: int
) -> dict[str, Any]:
    """Train a panel part alone by the contrast of its embedding, keep it in the directory, measure the embedding."""
    torch.manual_seed(seed)
    network = PairNetwork(PairConfig.from_dict(config)).to(default_device())
    groups = Groups(_load_characters(data, "background", network.config.pixels))

    def learn_step(step: int) -> float:
        a, b = (
            part.flatten(0, 1).to(network.device)
            for part in _draw_groups(groups, (seed, step), PANEL_GROUPS, PANEL_SIZE)
        )
        loss = _compute_contrast_loss(network.encode(torch.cat([a, b]))[1])
        loss.backward()
        return float(loss.detach())

    for _ in train_module(network.panel, steps, rate, learn_step):
        pass
    network.cpu()
    save_file(network.panel.state_dict(), _name_panel_file(directory, seed))
    one = torch.zeros(1, 3, network.config.pixels, network.config.pixels)
    return {
        "parameters": count_parameters(network.panel),
        "flops": 2 * count_flops(network.panel.eval(), one),
        "won": measure_embedding(network, _load_characters(data, "validation", network.config.pixels), episodes),
    }


def train_and_measure(
    data: str, directory: str, *, config: Mapping[str, Any], steps: int, rate: float, episodes: int, seed: int
) -> dict[str, Any]:
    """Train a network that begins with the taught panel part of its seed; return its cost and the trials won in each
    episode. Where a training with these settings was stopped in the directory, it goes on.
    """
    torch.manual_seed(seed)
    network = PairNetwork(PairConfig.from_dict(config))
    # Segments of pixels, which the taught part has none of, begin as they are.
    network.panel.load_state_dict(network.panel.state_dict() | load_file(_name_panel_file(directory, seed)))
    asked = json.dumps([config, steps, rate, seed], sort_keys=True)
    state = Path(directory) / f"state-{sha256(asked.encode()).hexdigest()[:16]}.pt"
    losses = list(_train_on_groups(network.to(default_device()), data, steps, rate, seed, state))
    state.unlink(missing_ok=True)
    won = measure_network(network, _load_characters(data, "validation", network.config.pixels), episodes)
    network.cpu()
    one = torch.zeros(1, 3, network.config.pixels, network.config.pixels)
    return {
        "parameters": count_parameters(network),
        "flops": count_flops(network.eval(), one, one),
        "losses": [round(float(np.mean(part)), 4) for part in np.array_split(losses, min(10, len(losses)))],
        "won": won,
    }


def _draw_groups(groups: Groups, seed: tuple[int, int], count: int, size: int) -> tuple[Tensor, Tensor]:
    """Two batches of pictures (count, size, 3, S, S): the same characters in the same order, by other hands."""
    one, other, *_ = groups.draw_from(np.random.default_rng(seed), count, size)
    return one.unflatten(0, (count, size)), other.unflatten(0, (count, size))


def _train_on_groups(
    network: PairNetwork, data: str, steps: int, rate: float, seed: int, state: Path
) -> Iterator[float]:
    # Other pictures than the panel part has seen in the same order.
    groups = Groups(_load_characters(data, "background", network.config.pixels))

    def learn_step(step: int) -> float:
        return _learn_groups(
            network, *(part.to(network.device) for part in _draw_groups(groups, (seed + 1_000_000, step), GROUPS, SIZE))
        )

    return train_module(network, steps, rate, learn_step, state)


def measure_embedding(network: PairNetwork, characters: Characters, episodes: int) -> list[int]:
    """The number of each episode's trials that the embedding wins, by cosine."""
    network.eval()
    with torch.no_grad():
        vectors = torch.cat([network.encode(part)[1] for part in make_pictures(characters.pixels).split(256)])
    return [
        _count_wins(vectors[torch.from_numpy(episode.queries)] @ vectors[torch.from_numpy(episode.candidates)].T)
        for episode in draw_episodes(characters, episodes, ways=WAYS)
    ]


def measure_network(network: PairNetwork, characters: Characters, episodes: int) -> list[int]:
    """Count the trials of each episode that the network wins.

    In a trial that is won the right candidate's score is above all others'.
    """
    network.eval()
    drawn, won = draw_episodes(characters, episodes, ways=WAYS), []
    whole = make_pictures(characters.pixels).to(network.device)
    with torch.no_grad():
        literal = network.config.seam == "pixels"
        sides = whole if literal else torch.cat([network.encode(part)[0] for part in whole.split(256)])
        score, at_once = network if literal else network.relate, WAYS if sides.is_cpu else WAYS**2
        for episode in drawn:
            queries = torch.from_numpy(episode.queries).repeat_interleave(WAYS).split(at_once)
            candidates = torch.from_numpy(episode.candidates).repeat(WAYS).split(at_once)
            scores = [score(sides[q], sides[c]) for q, c in zip(queries, candidates, strict=True)]
            won.append(_count_wins(torch.cat(scores).view(WAYS, WAYS).cpu()))
    return won


def _learn_groups(network: PairNetwork, a: Tensor, b: Tensor) -> float:
    """Compute one step's gradients, and return its loss.

    Every character of a group is held against every other; on the CPU one group at a time, for the cache.

    The embedding learns beside the pair score, as in the released recipe: what it teaches the stem gives attention
    something to find. The pictures of all groups go through the stem at once, with the seam open in pixels as t of
    every pair; its statistics then are those of what is scored.
    """
    network.train()
    groups, size = a.shape[:2]
    literal = network.config.seam == "pixels"
    if literal:
        left, right = a.repeat_interleave(size, 1).flatten(0, 1), b.repeat(1, size, 1, 1, 1).flatten(0, 1)
        orders = (left, right), (right, left)
        tokens = torch.cat([side for order in orders for side in network.panel.joint_tokens(*order)])
        with _freeze_statistics(network.panel):
            embeddings = network.encode(torch.cat([a, b]).flatten(0, 1))[1]
    else:
        tokens, embeddings = network.encode(torch.cat([a, b]).flatten(0, 1))
    leaf = tokens.detach().requires_grad_()
    total = torch.zeros((), device=leaf.device)
    for sides in leaf.unflatten(0, (4 if literal else 2, groups, -1)).split(1 if leaf.is_cpu else groups, 1):
        if literal:
            one, other, *again = (side.flatten(0, 1) for side in sides)
            logits = (network.pair(one, other) + network.pair(*again)) / 2
        else:
            one, other = sides[0].repeat_interleave(size, 1), sides[1].repeat(1, size, 1, 1, 1)
            logits = network.pair(one.flatten(0, 1), other.flatten(0, 1))
        loss = torch.stack([group_loss(group) for group in logits.view(-1, size, size)]).sum() / groups
        loss.backward()
        total += loss.detach()
    torch.autograd.backward([tokens, _compute_contrast_loss(embeddings)], [leaf.grad, None])
    return float(total)


@contextmanager
def _freeze_statistics(module: nn.Module) -> Iterator[None]:
    """Leave the statistics of batch normalisation as they are."""
    module.eval()
    yield
    module.train()


def group_loss(logits: Tensor) -> Tensor:
    """Each picture finds its own in the other hand's row and column, (W, W) with matches on the diagonal; and log-loss,
    matches and others weighing the same.
    """
    own = torch.arange(len(logits), device=logits.device)
    listwise = F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)
    matches = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    return listwise / 2 + 0.5 * (F.softplus(-logits[matches]).mean() + F.softplus(logits[~matches]).mean())


def _compute_contrast_loss(embeddings: Tensor) -> Tensor:
    one, other = embeddings.unflatten(0, (2, -1))
    match = torch.eye(one.shape[0], dtype=torch.bool, device=one.device)
    return embedding_loss(one @ other.T, match, ~match, TEMPERATURE)


def _count_wins(table: Tensor) -> int:
    """Count the rows of (W, W) with their maximum on the diagonal.

    A tie is not won.
    """
    others = table.masked_fill(torch.eye(WAYS, dtype=torch.bool), -torch.inf)
    return int((table.diagonal() > others.amax(1)).sum())


def train_module(
    module: nn.Module, steps: int, rate: float, learn: Callable[[int], float], state: Path | None = None
) -> Iterator[float]:
    """Train a module by AdamW, and yield the loss of every step.

    `learn` leaves the gradients of a step and returns its loss. Gradients are clipped, and after a warm-up the rate
    falls as a cosine to zero. What needs no gradient when it begins stays as it is. With a `state` file a training that
    was stopped goes on from there, to the same numbers; the losses that it had come first. Raises `DataError` for such
    a file that is damaged.
    """
    learning = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimiser = torch.optim.AdamW(learning, rate, weight_decay=0.02)
    losses = list[float]()
    if state is not None and state.exists():
        losses = restore_state(state, {"module": module, "optimiser": optimiser})["losses"]
    yield from losses
    warm = max(1, steps // 20)
    for step in range(len(losses), steps):
        for group in optimiser.param_groups:
            group["lr"] = float(rate * min(1, (step + 1) / warm) * (0.5 + 0.5 * np.cos(np.pi * step / steps)))
        losses.append(learn(step))
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        if state is not None and len(losses) % SAVE_EVERY == 0:
            save_state(state, {"module": module, "optimiser": optimiser}, losses=losses)
        yield losses[-1]


def _name_panel_file(directory: str, seed: int) -> Path:
    return Path(directory) / f"panel-{seed}.safetensors"


@cache
def _load_characters(data: str, split: str, size: int) -> Characters:
    return load_characters(Path(data), split, size)
