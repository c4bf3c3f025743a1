"""Tasks on photos of articles: a shop photo against the catalogue's picture, and an article from another side."""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Generator

from diptych_training.data.archives import subjects_of
from diptych_training.data.augment import draw_sprites
from diptych_training.errors import DataError
from diptych_training.tasks.task import OpenTask, Part, Source, Task, shoot_part
from diptych_training.tasks.validation import ValidationSet, match_others

EXAMINED = 300


@dataclass(frozen=True)
class Catalogue(Task):
    """`queries` shop photos a step against twice as many catalogue pictures; judged by recall@1 over classes never
    trained on.
    """

    queries: int = 16
    calibrated: bool = False
    kind: str = field(default="catalogue", init=False)

    def open(self, source: Source) -> "Products":
        """Load the archive `grocery`."""
        return Products(self, source)


@dataclass(frozen=True)
class Instance(Task):
    """`queries` articles a step, each against another side of it; judged by recall@1 over styles never trained on."""

    queries: int = 8
    calibrated: bool = False
    kind: str = field(default="instance", init=False)

    def open(self, source: Source) -> "Sides":
        """Load the archive `goods`."""
        return Sides(self, source)


class Articles(OpenTask):
    """The photos of an archive of articles."""

    def __init__(self, queries: int, source: Source, archive: str) -> None:
        self.queries, self.source = queries, source
        self.photos = source.archives.load_photos((archive,))
        self.names = [row.name for row in self.photos.rows]
        self.subject = subjects_of(self.photos)
        self.pixels = torch.from_numpy(self.photos.pixels).to(source.device)
        self.sprites = draw_sprites(64, source.seed).to(source.device)

    def find_places(self, kind: str, *splits: str) -> np.ndarray:
        """The places of the photos of a kind, of one split after the other."""
        return np.concatenate([self.photos.find_places(kinds=(kind,), split=split) for split in splits])


class Products(Articles):
    """Shop photos and catalogue pictures of the classes that are not held out."""

    def __init__(self, settings: Catalogue, source: Source) -> None:
        super().__init__(settings.queries, source, "grocery")
        self.shots, self.iconic = self.find_places("grocery", "train"), self.find_places("iconic", "train")
        if not len(self.shots) or not len(self.iconic):
            raise DataError(
                "the catalogue task needs shop photos and catalogue pictures of classes that are not held out"
            )

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Classes first, photos second: the shop's many apples do not drown its one ginger."""
        classes = rng.choice(self.subject[self.iconic], max(1, round(self.queries * fill)))
        index = np.array([rng.choice(self.shots[self.subject[self.shots] == c]) for c in classes])
        asked = np.isin(self.subject[self.iconic], classes)
        others = rng.permutation(self.iconic[~asked])[: max(1, 2 * len(classes) - asked.sum())]
        both = index, np.concatenate([self.iconic[asked], others])
        return shoot_part(self.pixels, self.subject, both, self.source.pixels, generator, self.sprites)

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Shop photos of unseen classes among the catalogue pictures of all classes."""
        shots = np.random.default_rng(0).permutation(self.find_places("grocery", "validation"))
        shots, iconic = shots if whole else shots[:EXAMINED], self.find_places("iconic", "validation", "train")
        relevant = self.subject[shots][:, None] == self.subject[iconic][None, :]
        pixels = torch.from_numpy(self.photos.pixels)
        return ValidationSet(pixels[shots], pixels[iconic], relevant, "recall@1")


class Sides(Articles):
    """Articles seen from several sides."""

    def __init__(self, settings: Instance, source: Source) -> None:
        super().__init__(settings.queries, source, "goods")
        self.sided = self._find_sided("train")
        if len(np.unique(self.subject[self.sided])) < 2:
            raise DataError(
                "the instance task needs articles seen from several sides; there is none that is not held out"
            )

    def draw_part(self, rng: np.random.Generator, generator: Generator, fill: float) -> Part:
        """Articles, once from one side, once from another."""
        articles = np.unique(self.subject[self.sided])
        asked = rng.permutation(articles)[: max(2, round(self.queries * fill))]
        both = [rng.permutation(self.sided[self.subject[self.sided] == article])[:2] for article in asked]
        index, other = np.stack(both, 1)
        return shoot_part(self.pixels, self.subject, (index, other), self.source.pixels, generator, self.sprites)

    def validation(self, *, whole: bool = False) -> ValidationSet:
        """Every side of the unseen articles, among the other sides of all articles; the query itself is left out."""
        asked, gallery = self._find_sided("validation"), self.find_places("goods", "validation", "train")
        relevant, itself = match_others(self.subject, asked, gallery)
        pixels = torch.from_numpy(self.photos.pixels)
        return ValidationSet(pixels[asked], pixels[gallery], relevant, "recall@1", itself=itself)

    def _find_sided(self, split: str) -> np.ndarray:
        """The photos of a split whose article is seen from several sides."""
        goods = self.find_places("goods", split)
        seen = np.bincount(self.subject[goods], minlength=self.subject.max() + 1)
        return goods[seen[self.subject[goods]] > 1]
