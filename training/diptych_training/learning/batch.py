"""One step's pictures: the parts of all tasks side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from diptych_training.tasks import OpenTask, Part


@dataclass(frozen=True)
class Step:
    """The pictures of one step: Q queries, then R references.

    `pictures` (Q + R, 3, S, S) in [0, 1] and `places` (Q + R, S, S, 2), where each pixel was in its photo; `match` and
    `rival` (Q, R) bool: same thing, and surely not the same thing; `linked` (Q,) bool: the places of a query and its
    match are places in one photo; `copies` (Q,) bool: its match is a copy. Pairs of two tasks are neither match nor
    rival.
    """

    pictures: Tensor
    places: Tensor
    match: Tensor
    rival: Tensor
    linked: Tensor
    copies: Tensor


def draw_step(
    tasks: Sequence[OpenTask], number: int, *, seed: int, fill: float = 1.0, device: torch.device | None = None
) -> Step:
    """Draw the step of that number; the same seed and number give the same pictures."""
    rng = np.random.default_rng((seed, number))
    generator = torch.Generator(device or torch.device("cpu")).manual_seed(int(rng.integers(2**62)))
    return join_parts([task.draw_part(rng, generator, fill) for task in tasks])


def join_parts(parts: Sequence[Part]) -> Step:
    """Lay the parts beside each other."""
    views = [part.queries for part in parts] + [part.references for part in parts]
    pictures, places = torch.cat([view.pictures for view in views]), torch.cat([view.places for view in views])
    match = torch.block_diag(*(torch.from_numpy(part.match).float() for part in parts)) > 0
    rival = torch.block_diag(*(torch.from_numpy(part.rival).float() for part in parts)) > 0
    linked = torch.cat([torch.full((len(part.match),), part.linked) for part in parts])
    device = pictures.device
    copies = torch.cat([torch.full((len(part.match),), part.copies) for part in parts])
    return Step(pictures, places, match.to(device), rival.to(device), linked.to(device), copies.to(device))
