"""Edits that each happen with a probability of their own: how `HEAVY`, `MILD` and `SHOT` edit.

Released recipes rest on the order in which these functions draw their random numbers.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_training.data.augment.compression import compress
from diptych_training.data.augment.draw import Draw
from diptych_training.data.augment.strength import Strength
from diptych_training.data.augment.views import Views, unmoved


def edit_separately(photos: Tensor, size: int, strength: Strength, generator: Generator, sprites: Tensor) -> Views:
    """Return one edited view of each photo: uint8 (B, H, H, 3) -> pictures (B, 3, size, size)."""
    sources = photos.permute(0, 3, 1, 2).float() / 255
    views, places = reframe(sources, size, strength, generator)
    views = recolour(views, strength, generator)
    views = overlay(views, sprites, strength, generator)
    views = degrade(views, strength, generator)
    return Views(recompress(views, strength, generator).clamp_(0, 1), places)


def reframe(sources: Tensor, size: int, strength: Strength, generator: Generator) -> Views:
    """Crop, flip, rotate, tilt and shrink in one resampling; the area outside it is a colour or another photo."""
    count = len(sources)
    draw = Draw(count, generator)
    ones, zeros = torch.ones(count, device=generator.device), torch.zeros(count, device=generator.device)
    cropped = draw.chance(strength.crop)
    area = torch.where(cropped, draw.between(strength.area, 1.0), ones)
    aspect = torch.where(cropped, draw.between(-0.3, 0.3), zeros).exp()
    width, height = (area * aspect).sqrt().clamp(max=1), (area / aspect).sqrt().clamp(max=1)
    x = draw.between(-1, 1) * (1 - width)
    y = draw.between(-1, 1) * (1 - height)
    turned = draw.chance(strength.rotate)
    small, quarter = draw.between(-0.35, 0.35), draw.among(3) * (math.pi / 2) + math.pi / 2
    free = draw.between(-math.pi, math.pi)
    which = draw.between(0, 1)
    angle = torch.where(which < 0.5, small, torch.where(which < 0.75, quarter, free)) * turned
    # Panels are squashed photos: a turn of the photo is a turn between two stretches of the panel.
    stretch = draw.between(-0.4, 0.4).exp()
    shrunk = torch.where(draw.chance(strength.shrink), draw.between(1.1, 2.2), ones)
    flip = torch.where(draw.chance(strength.flip), -ones, ones)
    upside = torch.where(draw.chance(strength.flip * 0.2), -ones, ones)
    cos, sin = angle.cos() * shrunk, angle.sin() * shrunk
    tilt = draw.chance(strength.perspective).float()
    matrix = torch.stack(
        [
            torch.stack([width * flip * cos, -width * flip * sin * stretch, x], -1),
            torch.stack([height * upside * sin / stretch, height * upside * cos, y], -1),
            torch.stack([draw.between(-0.25, 0.25) * tilt, draw.between(-0.25, 0.25) * tilt, ones], -1),
        ],
        1,
    )
    points = F.pad(unmoved(1, size)[0], (0, 1), value=1.0).flatten(0, 1).to(generator.device)
    mapped = (points @ matrix.transpose(1, 2)).unflatten(1, (size, size))
    grid = mapped[..., :2] / mapped[..., 2:].clamp(min=0.2)
    inside = (grid.abs() <= 1).all(-1).float().unsqueeze(1)
    views = F.grid_sample(sources, grid, padding_mode="border", align_corners=False)
    colour = draw.uniform(3, 1, 1) * draw.chance(0.7).view(-1, 1, 1, 1)
    others = F.interpolate(sources.roll(1, 0), (size, size), mode="bilinear")
    ground = torch.where(draw.chance(0.3).view(-1, 1, 1, 1), others, colour.expand(-1, -1, size, size))
    # A smear of the border, as some editors leave it, is what `padding_mode` gave.
    smeared = draw.chance(0.2).float().view(-1, 1, 1, 1)
    keep = torch.maximum(inside, smeared)
    return Views(views * keep + ground * (1 - keep), grid)


def recolour(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Brightness, contrast, saturation, a colour cast, gamma; sometimes grey."""
    draw = Draw(len(views), generator)
    used = draw.chance(strength.colour)

    def factor(reach: float) -> Tensor:
        return (draw.between(-reach, reach) * used).exp().view(-1, 1, 1, 1)

    red, green, blue = views.split(1, 1)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    saturation = factor(0.7) * ~draw.chance(strength.grey).view(-1, 1, 1, 1)
    views = luma + (views - luma) * saturation
    mean = views.mean((1, 2, 3), keepdim=True)
    views = (mean + (views - mean) * factor(0.5)) * factor(0.35)
    cast = (draw.normal(3, 1, 1) * 0.1 * used.view(-1, 1, 1, 1)).exp()
    return (views * cast).clamp(1e-4, 1) ** factor(0.35)


def overlay(views: Tensor, sprites: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Lay one or two sprites (text, stickers, bars) over some of the views, at any place, size and tilt."""
    views = views.clone()
    for _ in range(2):
        (chosen,) = torch.where(Draw(len(views), generator).chance(strength.overlay * 0.7))
        if not len(chosen):
            continue
        draw = Draw(len(chosen), generator)
        scale, angle = draw.between(0.15, 0.7), draw.between(-0.6, 0.6) * draw.chance(0.5)
        squash = draw.between(-0.5, 0.5).exp()
        x, y = draw.between(-0.9, 0.9), draw.between(-0.9, 0.9)
        cos, sin = angle.cos() / scale, angle.sin() / scale
        matrix = torch.stack(
            [
                torch.stack([cos, sin, -(cos * x + sin * y)], -1),
                torch.stack([-sin * squash, cos * squash, (sin * x - cos * y) * squash], -1),
            ],
            1,
        )
        grid = F.affine_grid(matrix, [len(chosen), 4, *views.shape[2:]], align_corners=False)
        drawn = sprites[draw.among(len(sprites))].float() / 255
        sprite = F.grid_sample(drawn, grid, align_corners=False)
        alpha = sprite[:, 3:] * draw.between(0.6, 1.0).view(-1, 1, 1, 1)
        views[chosen] = views[chosen] * (1 - alpha) + sprite[:, :3] * alpha
    return views


def degrade(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Blur some of the views, add noise to some."""
    draw = Draw(len(views), generator)
    small = F.avg_pool2d(views, 2)
    blurred = F.interpolate(small, views.shape[2:], mode="bilinear")
    amount = (draw.chance(strength.blur).float() * draw.between(0.3, 1)).view(-1, 1, 1, 1)
    views = views * (1 - amount) + blurred * amount
    deviation = (draw.chance(strength.noise).float() * draw.between(0.01, 0.08)).view(-1, 1, 1, 1)
    return views + draw.normal(*views.shape[1:]) * deviation


def recompress(views: Tensor, strength: Strength, generator: Generator) -> Tensor:
    """Save some of the views as JPEG of quality 15 to 80 and read them again."""
    draw = Draw(len(views), generator)
    qualities = draw.among(66) + 15
    (chosen,) = torch.where(draw.chance(strength.jpeg))
    if not len(chosen):
        return views
    views = views.clone()
    views[chosen] = compress(views[chosen], qualities[chosen])
    return views
