"""The instance task: an article against the same article from another side, among other articles."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator

from diptych_training.data.archives import subjects_of
from diptych_training.data.augment import MILD, SHOT, draw_sprites, edit
from diptych_training.errors import DataError
from diptych_training.tasks.task import Embed, Part, Source
from diptych_training.tasks.validation import ValidationSet


@dataclass(frozen=True)
class Instance:
    """`queries` articles a step, each against another side of it; judged by recall@1 over styles never trained on."""

    queries: int = 8
    weight: float = 1.0
    calibrated: bool = False
    kind: str = field(default="instance", init=False)

    def open(self, source: Source) -> "Sides":
        """Load the archive `goods`."""
        return Sides(self, source)


class Sides:
    """Articles seen from several sides."""

    def __init__(self, settings: Instance, source: Source) -> None:
        self.settings, self.source = settings, source
        self.photos = source.archives.photos(("goods",))
        self.names = [row.name for row in self.photos.rows]
        self.subject = subjects_of(self.photos)
        self.pixels = torch.from_numpy(self.photos.pixels).to(source.device)
        self.sided = self._sided("train")
        if len(np.unique(self.subject[self.sided])) < 2:
            raise DataError(
                "the instance task needs articles seen from several sides; there is none that is not held out"
            )
        self.sprites = draw_sprites(64, source.seed).to(source.device)
        self.neighbours: np.ndarray | None = None

    def draw(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Articles, once from one side, once from another."""
        articles = np.unique(self.subject[self.sided])
        asked = rng.permutation(articles)[: max(2, round(self.settings.queries * fill))]
        both = [rng.permutation(self.sided[self.subject[self.sided] == article])[:2] for article in asked]
        index, other = np.stack(both, 1)
        size = self.source.pixels
        queries = edit(self.pixels[torch.from_numpy(index)], size, SHOT, generator, self.sprites)
        references = edit(self.pixels[torch.from_numpy(other)], size, MILD, generator, self.sprites)
        match = self.subject[index][:, None] == self.subject[other][None, :]
        return Part(queries, references, match, ~match)

    def mine(self, embed: Embed) -> None:
        """Nothing to look for: the articles are few."""

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Every side of the unseen articles, among the other sides of all articles; the query itself is left out."""
        asked = self._sided("validation")
        gallery = self.photos.where(kinds=("goods",), split="validation")
        gallery = np.concatenate([gallery, self.photos.where(kinds=("goods",), split="train")])
        place = np.zeros(len(self.photos.rows), np.int64)
        place[gallery] = np.arange(len(gallery))
        relevant = self.subject[asked][:, None] == self.subject[gallery][None, :]
        relevant[np.arange(len(asked)), place[asked]] = False
        pixels = torch.from_numpy(self.photos.pixels)
        return ValidationSet(pixels[asked], pixels[gallery], relevant, "recall@1", itself=place[asked])

    def _sided(self, split: str) -> np.ndarray:
        goods = self.photos.where(kinds=("goods",), split=split)
        seen = np.bincount(self.subject[goods], minlength=self.subject.max() + 1)
        return goods[seen[self.subject[goods]] > 1]
