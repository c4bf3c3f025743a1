"""The interface of tasks: settings that open a source of training steps and of an examination."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Generator, Tensor

from diptych_training.data.archives import Archives
from diptych_training.data.augment import Views
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


class OpenTask(Protocol):
    """A task with its pictures loaded."""

    neighbours: np.ndarray | None
    """What mining found, if the task mines; kept with the state of the run."""

    @property
    def names(self) -> Sequence[str]:
        """Of its pictures, in their order: a run is not resumed on others."""
        ...

    def draw(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Draw the task's part of a step, `fill` times as many queries as set; the same draws give the same part."""
        ...

    def mine(self, embed: "Embed") -> None:
        """Look for hard negatives under the present embedding."""
        ...

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """The examination on held-out pictures; `whole` with as many as there are, for thresholds."""
        ...


class Embed(Protocol):
    """Embeds photos uint8 (n, H, H, 3), unedited: unit vectors float32 (n, e)."""

    def __call__(self, photos: Tensor, /) -> np.ndarray:  # noqa: D102
        ...


class Task(Protocol):
    """Settings of a task, as they stand under [[tasks]] in a recipe."""

    @property
    def kind(self) -> str:
        """The task's name in a recipe."""
        ...

    @property
    def weight(self) -> float:
        """The weight of the task in the score by which a run chooses its best checkpoint."""
        ...

    @property
    def calibrated(self) -> bool:
        """True if the task's pairs are among those that probabilities and thresholds are fitted on."""
        ...

    def open(self, source: Source) -> OpenTask:
        """Load the data of the task; raise `DataError` where it is missing."""
        ...
