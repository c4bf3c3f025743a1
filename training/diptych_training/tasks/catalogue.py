"""The catalogue task: a photo taken in a shop against the catalogue picture of the same product."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator

from diptych_training.data.archives import subjects_of
from diptych_training.data.augment import MILD, SHOT, draw_sprites, edit
from diptych_training.errors import DataError
from diptych_training.tasks.task import Embed, Part, Source
from diptych_training.tasks.validation import ValidationSet

EXAMINED = 300


@dataclass(frozen=True)
class Catalogue:
    """`queries` shop photos a step against twice as many catalogue pictures; judged by recall@1 over classes never
    trained on.
    """

    queries: int = 16
    weight: float = 1.0
    calibrated: bool = False
    kind: str = field(default="catalogue", init=False)

    def open(self, source: Source) -> "Products":
        """Load the archive `grocery`."""
        return Products(self, source)


class Products:
    """Shop photos and catalogue pictures of the classes that are not held out."""

    def __init__(self, settings: Catalogue, source: Source) -> None:
        self.settings, self.source = settings, source
        self.photos = source.archives.photos(("grocery",))
        self.names = [row.name for row in self.photos.rows]
        self.subject = subjects_of(self.photos)
        self.pixels = torch.from_numpy(self.photos.pixels).to(source.device)
        self.shots = self.photos.where(kinds=("grocery",), split="train")
        self.iconic = self.photos.where(kinds=("iconic",), split="train")
        if not len(self.shots) or not len(self.iconic):
            raise DataError(
                "the catalogue task needs shop photos and catalogue pictures of classes that are not held out"
            )
        self.sprites = draw_sprites(64, source.seed).to(source.device)
        self.neighbours: np.ndarray | None = None

    def draw(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Classes first, photos second: the shop's many apples do not drown its one ginger."""
        classes = rng.choice(self.subject[self.iconic], max(1, round(self.settings.queries * fill)))
        index = np.array([rng.choice(self.shots[self.subject[self.shots] == c]) for c in classes])
        size = self.source.pixels
        queries = edit(self.pixels[torch.from_numpy(index)], size, SHOT, generator, self.sprites)
        asked = np.isin(self.subject[self.iconic], classes)
        others = rng.permutation(self.iconic[~asked])[: max(1, 2 * len(classes) - asked.sum())]
        shown = np.concatenate([self.iconic[asked], others])
        references = edit(self.pixels[torch.from_numpy(shown)], size, MILD, generator, self.sprites)
        match = self.subject[index][:, None] == self.subject[shown][None, :]
        return Part(queries, references, match, ~match)

    def mine(self, embed: Embed) -> None:
        """Nothing to look for: every step sees much of the catalogue."""

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Shop photos of unseen classes among the catalogue pictures of all classes."""
        rng = np.random.default_rng(0)
        shots = rng.permutation(self.photos.where(kinds=("grocery",), split="validation"))
        shots = shots if whole else shots[:EXAMINED]
        iconic = np.concatenate(
            [self.photos.where(kinds=("iconic",), split=split) for split in ("validation", "train")]
        )
        relevant = self.subject[shots][:, None] == self.subject[iconic][None, :]
        pixels = torch.from_numpy(self.photos.pixels)
        return ValidationSet(pixels[shots], pixels[iconic], relevant, "recall@1")
