"""Edited pictures, where in the photo each of their pixels was, and random numbers for a batch of them."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

OUTSIDE = 3.0  # the place of a pixel that shows no part of the photo


class Views(NamedTuple):
    """Edited pictures (B, 3, S, S), and for each pixel its place (x, y) in the photo, (B, S, S, 2); the photo spans
    [-1, 1].
    """

    pictures: Tensor
    places: Tensor


def view_unedited(photos: Tensor, size: int) -> Tensor:
    """View photos unedited, as they are served.

    uint8 (B, H, H, 3) -> float (B, 3, size, size).
    """
    return F.interpolate(photos.permute(0, 3, 1, 2).float() / 255, (size, size), mode="bilinear", antialias=True)


def make_identity_places(count: int, size: int) -> Tensor:
    """Make the places of a picture that shows its photo as it is.

    They are (count, size, size, 2).
    """
    line = (torch.arange(size) + 0.5) * (2 / size) - 1
    return torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(count, -1, -1, -1)


class Draw:
    """Random numbers for `count` pictures, on the generator's device; `reach` scales those drawn `within` a range."""

    def __init__(self, count: int, generator: Generator, reach: float = 1.0) -> None:
        self.count, self.generator, self.reach = count, generator, reach

    def uniform(self, *shape: int) -> Tensor:
        """Uniform in [0, 1): (n, *shape)."""
        return torch.rand(self.count, *shape, generator=self.generator, device=self.generator.device)

    def normal(self, *shape: int) -> Tensor:
        """Normal with deviation 1: (n, *shape)."""
        return torch.randn(self.count, *shape, generator=self.generator, device=self.generator.device)

    def between(self, low: float, high: float, *shape: int) -> Tensor:
        """Uniform in [low, high): (n, *shape)."""
        return self.uniform(*shape) * (high - low) + low

    def within(self, low: float, high: float) -> Tensor:
        """Uniform in [low, high), times `reach`: (n,)."""
        return self.between(low, high) * self.reach

    def chance(self, probability: float, *shape: int) -> Tensor:
        """True with a probability: bool (n, *shape)."""
        return self.uniform(*shape) < probability

    def among(self, choices: int, *shape: int) -> Tensor:
        """Uniform among 0 to choices - 1: int64 (n, *shape)."""
        return torch.randint(choices, (self.count, *shape), generator=self.generator, device=self.generator.device)

    def of(self, count: int) -> "Draw":
        """Numbers for another count of pictures."""
        return Draw(count, self.generator, self.reach)


def as_column(values: Tensor) -> Tensor:
    """Shape one number a picture, (n,), to multiply pictures: (n, 1, 1, 1)."""
    return values.view(-1, 1, 1, 1)
