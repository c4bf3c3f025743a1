"""The interface of tasks: settings that open a source of training steps and of an examination."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator, Tensor

from diptych_training.data.archives import Archives
from diptych_training.data.augment import MILD, SHOT, Views, edit_photos
from diptych_training.tasks.validation import ValidationSet


@dataclass(frozen=True)
class Part:
    """The contribution of one task to a step: Q queries, R references, and which show the same thing.

    `match` and `rival` (Q, R) bool: same thing, and surely not the same thing. Pairs that are neither (other photos of
    one product, near-duplicates) are left out of the loss. `linked`: places in both views are places in one photo where
    `match` is true, so that it is known which token shows what. `copies`: matches are copies of one another, and not
    only the same thing. A query may have no match among the references.
    """

    queries: Views
    references: Views
    match: np.ndarray
    rival: np.ndarray
    linked: bool = False
    copies: bool = False


@dataclass(frozen=True)
class Source:
    """The data that tasks draw from: the archives, the side of the stage's panels in pixels, the seed, the device."""

    archives: Archives
    pixels: int
    seed: int
    device: torch.device


Embed = Callable[[Tensor], np.ndarray]
"""Embeds photos uint8 (n, H, H, 3), unedited: unit vectors float32 (n, e)."""


class OpenTask:
    """A task with its pictures loaded.

    `names` are those of its pictures, in their order: a run is not resumed on others. `neighbours` is what mining
    found, if the task mines; it is kept with the state of the run.
    """

    names: Sequence[str]
    neighbours: np.ndarray | None = None

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Draw the task's part of a step, `fill` times as many queries as set; the same draws give the same part."""
        raise NotImplementedError

    def mine_negatives(self, embed: Embed) -> None:
        """Look for hard negatives under the present embedding; most tasks have enough of them in every step."""

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """The validation set of held-out pictures; `whole` with as many as there are, for thresholds."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Task:
    """Settings of a task, as they stand under [[tasks]] in a recipe.

    `weight` is that of the task in the score by which a run chooses its best checkpoint; the pairs of those that are
    `calibrated` are among those that probabilities and thresholds are fitted on.
    """

    weight: float = 1.0
    calibrated: bool = True
    kind: str = field(default="", init=False)

    def open(self, source: Source) -> OpenTask:
        """Load the data of the task; raise `DataError` where it is missing."""
        raise NotImplementedError


def shoot_part(
    pixels: Tensor,
    subject: np.ndarray,
    both: tuple[np.ndarray, np.ndarray],
    size: int,
    generator: Generator,
    sprites: Tensor,
) -> Part:
    """The part of photos uint8 (n, H, H, 3) of known subjects (n,): `both` are the places of queries and references.

    Queries are edited as people take pictures, references mildly; those of one subject match.
    """
    queries, references = (
        edit_photos(pixels[torch.from_numpy(places)], size, strength, generator, sprites)
        for places, strength in zip(both, (SHOT, MILD), strict=True)
    )
    match = subject[both[0]][:, None] == subject[both[1]][None, :]
    return Part(queries, references, match, ~match)
