"""Edits of sharpness and noise, and JPEG: each takes pictures (n, 3, S, S) in [0, 1] and changes every one of them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_training.data.augment.compression import compress
from diptych_training.data.augment.draw import Draw
from diptych_training.data.augment.tones import column

REACH = 6  # half the width of a blur's kernel, in pixels


def blur(pictures: Tensor, draw: Draw) -> Tensor:
    """Blur with a Gaussian, of a deviation of up to 2.2 % of the side."""
    size = pictures.shape[-1]
    # At half the size a kernel of 13 pixels is wide enough.
    deviation = draw.between(0.002, 0.011) * size
    line = torch.arange(-REACH, REACH + 1, device=pictures.device)
    kernels = torch.exp(-0.5 * (line / deviation.unsqueeze(1).clamp(min=0.4)) ** 2)
    kernels = kernels / kernels.sum(1, keepdim=True)
    small = F.avg_pool2d(pictures, 2, ceil_mode=True)
    small = _filter(small, kernels.view(-1, 1, 1, 2 * REACH + 1))
    small = _filter(small, kernels.view(-1, 1, 2 * REACH + 1, 1))
    return F.interpolate(small, (size, size), mode="bilinear")


def motion(pictures: Tensor, draw: Draw) -> Tensor:
    """Blur along a line, as a moving camera does."""
    line = torch.arange(-REACH, REACH + 1, device=pictures.device).float()
    angle, length = column(draw.between(0, torch.pi)), column(draw.between(1.5, REACH))
    x, y = line.view(1, 1, 1, -1), line.view(1, 1, -1, 1)
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    kernels = torch.exp(-((across / 0.7) ** 2)) * (along.abs() <= length)
    return _filter(pictures, kernels / kernels.sum((2, 3), keepdim=True))


def _filter(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Filter each picture with a kernel of its own: (n, 3, S, S), (n, 1, h, w)."""
    height, width = kernels.shape[2:]
    padding = (width // 2, width // 2, height // 2, height // 2)
    padded = F.pad(pictures, padding, mode="replicate").flatten(0, 1).unsqueeze(0)
    kernels = kernels.repeat_interleave(3, 0)
    return F.conv2d(padded, kernels, groups=len(kernels)).view_as(pictures)


def sharpen(pictures: Tensor, draw: Draw) -> Tensor:
    """Sharpen, more than looks good."""
    smooth = F.avg_pool2d(pictures, 3, 1, 1, count_include_pad=False)
    return (pictures + (pictures - smooth) * column(draw.between(1, 4))).clamp_(0, 1)


def pixelate(pictures: Tensor, draw: Draw) -> Tensor:
    """Show 26 to 76 squares of one colour along each side."""
    size = pictures.shape[-1]
    drawn = []
    for picture, blocks in zip(pictures.split(1), (draw.among(51) + 26).tolist(), strict=True):
        squares = F.adaptive_avg_pool2d(picture, min(blocks, max(2, size // 2)))
        drawn.append(F.interpolate(squares, (size, size), mode="nearest"))
    return torch.cat(drawn)


def noise(pictures: Tensor, draw: Draw) -> Tensor:
    """Add noise to each channel, of a deviation of 0.02 to 0.2."""
    return (draw.normal(*pictures.shape[1:]) * column(draw.between(0.02, 0.2)) + pictures).clamp_(0, 1)


def salt(pictures: Tensor, draw: Draw) -> Tensor:
    """Make 0.5 to 8 % of the pixels white or black."""
    drawn, share = draw.uniform(1, *pictures.shape[2:]), column(draw.between(0.0025, 0.04))
    return pictures.masked_fill(drawn < share, 0.0).masked_fill_(drawn > 1 - share, 1.0)


def jpeg(pictures: Tensor, draw: Draw) -> Tensor:
    """Compress with a quality of 4 to 70, low ones more often; four pictures in ten twice, on shifted blocks."""
    first, second = ((4 + 66 * draw.uniform() ** 2).long() for _ in range(2))
    (twice,) = torch.where(draw.chance(0.4))
    pictures = compress(pictures, first)
    if len(twice):
        shifted = pictures[twice].roll((3, 5), (2, 3))
        pictures[twice] = compress(shifted, second[twice]).roll((-3, -5), (2, 3))
    return pictures
