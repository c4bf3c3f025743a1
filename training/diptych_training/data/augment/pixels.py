"""Edits of tones, sharpness and noise, and JPEG: each changes all of its pictures (n, 3, S, S) in [0, 1]."""

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from diptych_training.data.augment.views import Draw, as_column
from diptych_training.data.canvas import save_as

REACH = 6  # half the width of a blur's kernel, in pixels
ORDERS = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def grey(pictures: Tensor, draw: Draw) -> Tensor:
    """Take the colour away."""
    red, green, blue = pictures.split(1, 1)
    return (0.299 * red + 0.587 * green + 0.114 * blue).expand(-1, 3, -1, -1)


def colour(pictures: Tensor, draw: Draw) -> Tensor:
    """Change brightness, contrast, saturation, colour cast and gamma."""
    shades = grey(pictures, draw)
    mean = shades.mean((1, 2, 3), keepdim=True)
    saturation, contrast = draw.within(-1.2, 0.9).exp(), draw.within(-0.9, 0.7).exp()
    brightness, gamma = draw.within(-0.6, 0.5).exp(), draw.within(-0.5, 0.5).exp()
    cast = (draw.normal(3, 1, 1) * 0.15 * draw.reach).exp() * as_column(brightness)
    mixed = torch.lerp(shades, pictures, as_column(saturation))
    scaled = torch.lerp(mean, mixed, as_column(contrast)) * cast
    return scaled.clamp_(1e-4, 1).pow_(as_column(gamma))


def tint(pictures: Tensor, draw: Draw) -> Tensor:
    """Show the grey between two colours: sepia, or a dark and a light colour of any hue."""
    sepia = as_column(draw.chance(0.4))
    brown, cream = (torch.tensor(c, device=pictures.device).view(3, 1, 1) for c in ((0.1, 0.05, 0.0), (1.0, 0.9, 0.7)))
    dark = torch.where(sepia, brown, draw.uniform(3, 1, 1) * 0.4)
    light = torch.where(sepia, cream, draw.uniform(3, 1, 1) * 0.6 + 0.4)
    return torch.lerp(dark, light, grey(pictures, draw))


def invert(pictures: Tensor, draw: Draw) -> Tensor:
    """Turn the picture into its negative."""
    return 1 - pictures


def posterise(pictures: Tensor, draw: Draw) -> Tensor:
    """Keep 2 to 6 levels of each channel."""
    levels = as_column((draw.among(5) + 2).float())
    return (pictures * levels).floor().clamp_(max=levels - 1) / (levels - 1)


def solarise(pictures: Tensor, draw: Draw) -> Tensor:
    """Invert all values that are brighter than a threshold."""
    return torch.where(pictures < as_column(draw.between(0.35, 0.75)), pictures, 1 - pictures)


def shuffle(pictures: Tensor, draw: Draw) -> Tensor:
    """Exchange the channels."""
    order = torch.tensor(ORDERS, device=pictures.device)[draw.among(len(ORDERS))]
    return pictures[torch.arange(len(pictures), device=pictures.device).unsqueeze(1), order]


def vignette(pictures: Tensor, draw: Draw) -> Tensor:
    """Darken the corners, or lighten them."""
    line = torch.linspace(-1, 1, pictures.shape[-1], device=pictures.device) ** 2
    amount = as_column(draw.between(0.3, 0.9)) * (line + line.unsqueeze(1)).mul(0.6).clamp_(max=1)
    return torch.lerp(pictures, as_column(draw.chance(0.2).float()), amount)


def sharpen(pictures: Tensor, draw: Draw) -> Tensor:
    """Sharpen, more than looks good."""
    smooth = F.avg_pool2d(pictures, 3, 1, 1, count_include_pad=False)
    return (pictures + (pictures - smooth) * as_column(draw.between(1, 4))).clamp_(0, 1)


def pixelate(pictures: Tensor, draw: Draw) -> Tensor:
    """Show 26 to 76 squares of one colour along each side."""
    size = pictures.shape[-1]
    drawn = []
    for picture, blocks in zip(pictures.split(1), (draw.among(51) + 26).tolist(), strict=True):
        squares = F.adaptive_avg_pool2d(picture, min(blocks, max(2, size // 2)))
        drawn.append(F.interpolate(squares, (size, size), mode="nearest"))
    return torch.cat(drawn)


def blur(pictures: Tensor, draw: Draw) -> Tensor:
    """Blur with a Gaussian, of a deviation of up to 2.2 % of the side."""
    size = pictures.shape[-1]
    # At half the size a kernel of 13 pixels is wide enough.
    deviation = draw.within(0.002, 0.011) * size
    line = torch.arange(-REACH, REACH + 1, device=pictures.device)
    kernels = torch.exp(-0.5 * (line / deviation.unsqueeze(1).clamp(min=0.4)) ** 2)
    kernels = kernels / kernels.sum(1, keepdim=True)
    small = F.avg_pool2d(pictures, 2, ceil_mode=True)
    small = _convolve_pictures(small, kernels.view(-1, 1, 1, 2 * REACH + 1))
    small = _convolve_pictures(small, kernels.view(-1, 1, 2 * REACH + 1, 1))
    return F.interpolate(small, (size, size), mode="bilinear")


def motion(pictures: Tensor, draw: Draw) -> Tensor:
    """Blur along a line, as a moving camera does."""
    line = torch.arange(-REACH, REACH + 1, device=pictures.device).float()
    angle, length = as_column(draw.between(0, torch.pi)), as_column(draw.between(1.5, REACH))
    x, y = line.view(1, 1, 1, -1), line.view(1, 1, -1, 1)
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    kernels = torch.exp(-((across / 0.7) ** 2)) * (along.abs() <= length)
    return _convolve_pictures(pictures, kernels / kernels.sum((2, 3), keepdim=True))


def _convolve_pictures(pictures: Tensor, kernels: Tensor) -> Tensor:
    """Filter each picture with a kernel of its own: (n, 3, S, S), (n, 1, h, w)."""
    height, width = kernels.shape[2:]
    padding = (width // 2, width // 2, height // 2, height // 2)
    padded = F.pad(pictures, padding, mode="replicate").flatten(0, 1).unsqueeze(0)
    kernels = kernels.repeat_interleave(3, 0)
    return F.conv2d(padded, kernels, groups=len(kernels)).view_as(pictures)


def noise(pictures: Tensor, draw: Draw) -> Tensor:
    """Add noise to each channel, of a deviation of 0.02 to 0.2."""
    return (draw.normal(*pictures.shape[1:]) * as_column(draw.within(0.02, 0.2)) + pictures).clamp_(0, 1)


def salt(pictures: Tensor, draw: Draw) -> Tensor:
    """Make 0.5 to 8 % of the pixels white or black."""
    drawn, share = draw.uniform(1, *pictures.shape[2:]), as_column(draw.between(0.0025, 0.04))
    return pictures.masked_fill(drawn < share, 0.0).masked_fill_(drawn > 1 - share, 1.0)


def jpeg(pictures: Tensor, draw: Draw) -> Tensor:
    """Compress with a quality of 4 to 70, low ones more often; four pictures in ten twice, on shifted blocks."""
    first, second = ((80 - draw.reach * (76 - 66 * draw.uniform() ** 2)).long() for _ in range(2))
    (twice,) = torch.where(draw.chance(0.4))
    pictures = compress_jpeg(pictures, first)
    if len(twice):
        shifted = pictures[twice].roll((3, 5), (2, 3))
        pictures[twice] = compress_jpeg(shifted, second[twice]).roll((-3, -5), (2, 3))
    return pictures


def compress_jpeg(pictures: Tensor, qualities: Tensor) -> Tensor:
    """Save each picture as JPEG of its quality and read it again: (n, 3, S, S) in [0, 1], int64 (n,)."""
    return (quantise_jpeg if pictures.is_cuda else save_as_files)(pictures.clamp(0, 1), qualities)


def save_as_files(pictures: Tensor, qualities: Tensor) -> Tensor:
    """Pillow's JPEG, a picture at a time."""
    pixels = (pictures * 255).round().byte().permute(0, 2, 3, 1).numpy()
    read = [np.asarray(save_as(Image.fromarray(one), int(q))) for one, q in zip(pixels, qualities, strict=True)]
    return torch.from_numpy(np.stack(read)).permute(0, 3, 1, 2).float() / 255


def quantise_jpeg(pictures: Tensor, qualities: Tensor) -> Tensor:
    """JPEG on an accelerator: quantised in place, without a file and without a trip to the host."""
    from kornia.enhance import jpeg_codec_differentiable

    return jpeg_codec_differentiable(pictures, qualities.float())
