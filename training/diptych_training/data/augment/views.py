"""Edited pictures with the place in the photo of each of their pixels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

OUTSIDE = 3.0  # the place of a pixel that shows no part of the photo


class Views(NamedTuple):
    """Edited pictures (B, 3, S, S), and for each pixel its place (x, y) in the photo, (B, S, S, 2); the photo spans
    [-1, 1].
    """

    pictures: Tensor
    places: Tensor


def plain(photos: Tensor, size: int) -> Tensor:
    """Return the photos as they are served, unedited: uint8 (B, H, H, 3) -> float (B, 3, size, size)."""
    return F.interpolate(photos.permute(0, 3, 1, 2).float() / 255, (size, size), mode="bilinear", antialias=True)


def unmoved(count: int, size: int) -> Tensor:
    """The places (count, size, size, 2) of a picture that shows its photo as it is."""
    line = (torch.arange(size) + 0.5) * (2 / size) - 1
    return torch.stack(torch.meshgrid(line, line, indexing="xy"), -1).expand(count, -1, -1, -1)
