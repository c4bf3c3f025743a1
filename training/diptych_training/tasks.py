"""The tasks a network is trained on: which pictures a step sees, and which of them show the same thing.

*copy*: an edited photo against the photo, among photos like it. *catalogue*: a photo taken in a shop against its
catalogue picture, and an article against the same article from another side, among other articles.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from diptych_training.augment import HEAVY, MILD, SHOT, edit, plain
from diptych_training.photos import Photos
from diptych_training.recipe import Stage


@dataclass(frozen=True)
class Step:
    """The pictures of one step: queries, then references.

    `pictures` (Q + R, 3, S, S) in [0, 1]; `match` and `rival` (Q, R) bool: same thing, and surely not the same thing.
    Pairs that are neither (other photos of one product, other tasks) are left out of the loss.
    """

    pictures: Tensor
    match: Tensor
    rival: Tensor


class Tasks:
    """Draws steps from the training split; the same seed and step give the same pictures."""

    def __init__(self, photos: Photos, sprites: Tensor, seed: int) -> None:
        self.pixels = torch.from_numpy(photos.pixels)
        self.sprites, self.seed = sprites, seed
        subjects = {name: i for i, name in enumerate(dict.fromkeys(row.subject for row in photos.rows))}
        self.subject = np.array([subjects[row.subject] for row in photos.rows])
        self.copied = photos.where(kinds=("clothing", "flowers", "goods", "grocery"), split="train")
        self.shots = photos.where(kinds=("grocery",), split="train")
        self.iconic = photos.where(kinds=("iconic",), split="train")
        goods = photos.where(kinds=("goods",), split="train")
        seen = np.bincount(self.subject[goods], minlength=len(subjects))
        self.sided = goods[seen[self.subject[goods]] > 1]

    def draw(self, step: int, stage: Stage, neighbours: np.ndarray | None) -> Step:
        """Draw one step; `neighbours` (len(copied), k) are positions in `copied` of the photos most alike, from
        mining.
        """
        rng = np.random.default_rng((self.seed, step))
        generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
        parts = [self._copies(rng, generator, stage, neighbours)]
        if stage.shots and len(self.shots) and len(self.iconic):
            parts.append(self._shop(rng, generator, stage))
        if stage.sides and len(self.sided):
            parts.append(self._sides(rng, generator, stage))
        return _join(parts)

    def _copies(
        self, rng: np.random.Generator, generator: Generator, stage: Stage, neighbours: np.ndarray | None
    ) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray]:
        if neighbours is None:
            chosen = rng.choice(len(self.copied), stage.copies, replace=False)
        else:
            family = 8
            seeds = rng.choice(len(self.copied), -(-stage.copies // family), replace=False)
            near = [rng.permutation(neighbours[seed])[: family - 1] for seed in seeds]
            drawn = np.concatenate([np.concatenate([[seed], kin]) for seed, kin in zip(seeds, near, strict=True)])
            chosen = np.array(list(dict.fromkeys(drawn.tolist())))[: stage.copies]
        index = self.copied[chosen]
        pixels = self.pixels[index]
        queries = edit(pixels, stage.pixels, HEAVY, generator, self.sprites)
        # The other side is most often the photo as it is: that is what a collection holds.
        references = plain(pixels, stage.pixels)
        changed = torch.rand(len(index), generator=generator) < 0.4
        if changed.any():
            references[changed] = edit(pixels[changed], stage.pixels, MILD, generator, self.sprites)
        match = np.eye(len(index), dtype=bool)
        rival = self.subject[index][:, None] != self.subject[index][None, :]
        return queries, references, match, rival

    def _shop(
        self, rng: np.random.Generator, generator: Generator, stage: Stage
    ) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray]:
        # Classes first, photos second: the shop's many apples do not drown its one ginger.
        classes = rng.choice(self.subject[self.iconic], stage.shots)
        index = np.array([rng.choice(self.shots[self.subject[self.shots] == c]) for c in classes])
        queries = edit(self.pixels[index], stage.pixels, SHOT, generator, self.sprites)
        references = edit(self.pixels[self.iconic], stage.pixels, MILD, generator, self.sprites)
        match = self.subject[index][:, None] == self.subject[self.iconic][None, :]
        return queries, references, match, ~match

    def _sides(
        self, rng: np.random.Generator, generator: Generator, stage: Stage
    ) -> tuple[Tensor, Tensor, np.ndarray, np.ndarray]:
        index = rng.choice(self.sided, min(stage.sides, len(self.sided)), replace=False)
        other = np.array(
            [rng.choice(self.sided[(self.subject[self.sided] == self.subject[i]) & (self.sided != i)]) for i in index]
        )
        queries = edit(self.pixels[index], stage.pixels, SHOT, generator, self.sprites)
        references = edit(self.pixels[other], stage.pixels, MILD, generator, self.sprites)
        match = self.subject[index][:, None] == self.subject[other][None, :]
        return queries, references, match, ~match


def _join(parts: list[tuple[Tensor, Tensor, np.ndarray, np.ndarray]]) -> Step:
    queries = torch.cat([part[0] for part in parts])
    references = torch.cat([part[1] for part in parts])
    match = torch.zeros(len(queries), len(references), dtype=torch.bool)
    rival = torch.zeros_like(match)
    row = column = 0
    for _, _, same, other in parts:
        rows, columns = slice(row, row + same.shape[0]), slice(column, column + same.shape[1])
        match[rows, columns], rival[rows, columns] = torch.from_numpy(same), torch.from_numpy(other)
        row, column = rows.stop, columns.stop
    return Step(torch.cat([queries, references]), match, rival)
