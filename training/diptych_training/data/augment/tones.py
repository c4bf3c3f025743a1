"""Edits of colour: each takes pictures (n, 3, S, S) in [0, 1] and changes every one of them."""

import torch
from torch import Tensor

from diptych_training.data.augment.draw import Draw

ORDERS = ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))


def luma(pictures: Tensor) -> Tensor:
    """The grey of pictures: (n, 3, S, S) -> (n, 1, S, S)."""
    red, green, blue = pictures.split(1, 1)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def colour(pictures: Tensor, draw: Draw) -> Tensor:
    """Change brightness, contrast, saturation, colour cast and gamma."""
    grey = luma(pictures)
    mean = grey.mean((1, 2, 3), keepdim=True)
    saturation, contrast = draw.between(-1.2, 0.9).exp(), draw.between(-0.9, 0.7).exp()
    brightness, gamma = draw.between(-0.6, 0.5).exp(), draw.between(-0.5, 0.5).exp()
    cast = (draw.normal(3, 1, 1) * 0.15).exp() * column(brightness)
    mixed = torch.lerp(grey, pictures, column(saturation))
    scaled = torch.lerp(mean, mixed, column(contrast)) * cast
    return scaled.clamp_(1e-4, 1).pow_(column(gamma))


def grey(pictures: Tensor, draw: Draw) -> Tensor:
    """Take the colour away."""
    return luma(pictures).expand(-1, 3, -1, -1)


def tint(pictures: Tensor, draw: Draw) -> Tensor:
    """Show the grey between two colours: sepia, or a dark and a light colour of any hue."""
    sepia = draw.chance(0.4).view(-1, 1, 1, 1)
    brown, cream = (torch.tensor(c, device=pictures.device).view(3, 1, 1) for c in ((0.1, 0.05, 0.0), (1.0, 0.9, 0.7)))
    dark = torch.where(sepia, brown, draw.uniform(3, 1, 1) * 0.4)
    light = torch.where(sepia, cream, draw.uniform(3, 1, 1) * 0.6 + 0.4)
    return torch.lerp(dark, light, luma(pictures))


def invert(pictures: Tensor, draw: Draw) -> Tensor:
    """Turn the picture into its negative."""
    return 1 - pictures


def posterise(pictures: Tensor, draw: Draw) -> Tensor:
    """Keep 2 to 6 levels of each channel."""
    levels = column((draw.among(5) + 2).float())
    return (pictures * levels).floor().clamp_(max=levels - 1) / (levels - 1)


def solarise(pictures: Tensor, draw: Draw) -> Tensor:
    """Invert all values that are brighter than a threshold."""
    return torch.where(pictures < column(draw.between(0.35, 0.75)), pictures, 1 - pictures)


def shuffle(pictures: Tensor, draw: Draw) -> Tensor:
    """Exchange the channels."""
    order = torch.tensor(ORDERS, device=pictures.device)[draw.among(len(ORDERS))]
    return pictures[torch.arange(len(pictures), device=pictures.device).unsqueeze(1), order]


def vignette(pictures: Tensor, draw: Draw) -> Tensor:
    """Darken the corners, or lighten them."""
    line = torch.linspace(-1, 1, pictures.shape[-1], device=pictures.device) ** 2
    amount = column(draw.between(0.3, 0.9)) * (line + line.unsqueeze(1)).mul(0.6).clamp_(max=1)
    return torch.lerp(pictures, column(draw.chance(0.2).float()), amount)


def column(values: Tensor) -> Tensor:
    """A number a picture, (n,), in a shape that multiplies pictures: (n, 1, 1, 1)."""
    return values.view(-1, 1, 1, 1)
