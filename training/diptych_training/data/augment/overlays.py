"""Edits that lay something over a view, or a view into something: sprites, text, screenshots, other photos."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_training.data.augment.draw import Draw
from diptych_training.data.augment.geometry import inside, matrices, project, warp
from diptych_training.data.augment.layers import Layers
from diptych_training.data.augment.tones import column
from diptych_training.data.augment.views import OUTSIDE, Views


@dataclass(frozen=True)
class Stock:
    """Prepared pictures: stickers (n, 4, h, h) uint8, layers, and photos (n, H, H, 3) uint8 for backgrounds.

    `own` says that the backgrounds are the photos being edited, in their order; none is then its own background.
    """

    stickers: Tensor
    layers: Layers
    backgrounds: Tensor
    own: bool

    def background(self, chosen: Tensor, size: int, draw: Draw) -> Tensor:
        """Photos (n, 3, size, size) for the views of these numbers."""
        count = len(self.backgrounds)
        index = (chosen + 1 + draw.among(max(1, count - 1))) % count if self.own else draw.among(count)
        photos = self.backgrounds[index].permute(0, 3, 1, 2).float().div_(255)
        return F.interpolate(photos, (size, size), mode="bilinear", antialias=True).clamp_(0, 1)


def lay(views: Views, sprites: Tensor, grid: Tensor, opacity: Tensor | float = 1.0) -> Views:
    """Draw RGBA sprites (n, 4, h, w) uint8 where a grid reads them; pixels mostly covered lose their place."""
    drawn = sprites.float().div_(255)
    # Bilinear reading mixes in the colour of transparent pixels, unless colours are multiplied by their alpha first.
    drawn[:, :3] *= drawn[:, 3:]
    drawn = F.grid_sample(drawn, grid, align_corners=False) * opacity
    alpha = drawn[:, 3:]
    pictures = views.pictures * (1 - alpha) + drawn[:, :3]
    return Views(pictures, views.places.masked_fill(alpha.permute(0, 2, 3, 1) > 0.5, OUTSIDE))


def overlay(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Lay one to three stickers over each view, at any place, size and tilt."""
    pictures, places = views.pictures.clone(), views.places.clone()
    for share in (1.0, 0.5, 0.25):
        (some,) = torch.where(draw.chance(share))
        if not len(some):
            continue
        each = Draw(len(some), draw.generator)
        # Sides up to 0.75 of the view's: a sticker covers up to half of it.
        width = each.between(0.12, 0.75)
        height = (width * each.between(-0.4, 0.4).exp()).clamp(max=0.75)
        angle = each.between(-0.7, 0.7) * each.chance(0.5)
        matrix = _placed(each.between(-0.9, 0.9), each.between(-0.9, 0.9), width, height, angle)
        opacity = torch.where(each.chance(0.7), 1.0, each.between(0.4, 1.0))
        sprites = stock.stickers[each.among(len(stock.stickers))]
        grid = project(matrix, pictures.shape[-1])
        pictures[some], places[some] = lay(Views(pictures[some], places[some]), sprites, grid, column(opacity))
    return Views(pictures, places)


def _placed(x: Tensor, y: Tensor, width: Tensor, height: Tensor, angle: Tensor) -> Tensor:
    """Matrices from a view to a sprite at (x, y), of sides `width` and `height` (1: the view's), turned by `angle`."""
    cos, sin = angle.cos(), angle.sin()
    return matrices(
        (cos / width, sin / width, -(cos * x + sin * y) / width),
        (-sin / height, cos / height, (sin * x - cos * y) / height),
    )


def caption(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set text at the top or the bottom, or both: outlined, or on a bar that covers the view or makes it taller."""
    size, layers = views.pictures.shape[-1], stock.layers
    height, ends, zeros = draw.between(0.1, 0.28), draw.among(3), torch.zeros(draw.count, device=views.places.device)
    barred = draw.chance(0.5)
    (taller,) = torch.where(barred & (ends < 2) & draw.chance(0.6))
    pictures, places = views.pictures.clone(), views.places.clone()
    if len(taller):
        # The view makes room at its end for the bar.
        scale, end = 1 / (1 - height[taller]), ends[taller] * 2.0 - 1
        room = matrices((torch.ones_like(scale), None, None), (None, scale, end * (scale - 1)))
        pictures[taller], places[taller] = warp(Views(pictures[taller], places[taller]), project(room, size))
    number = draw.among(len(layers.bars))
    for end in (0, 1):
        (some,) = torch.where((ends == end) | (ends == 2))
        if not len(some):
            continue
        texts = (number[some] + end) % len(layers.bars)
        strips = torch.where(barred[some].view(-1, 1, 1, 1), layers.bars[texts], layers.titles[texts])
        high = height[some]
        y = (1 - high) * (2 * end - 1)
        grid = project(_placed(zeros[some], y, torch.ones_like(high), high, zeros[some]), size)
        pictures[some], places[some] = lay(Views(pictures[some], places[some]), strips, grid)
    return Views(pictures, places)


def watermark(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Repeat a faint text over the whole view."""
    marks = stock.layers.marks[draw.among(len(stock.layers.marks))]
    width, zeros = draw.between(0.25, 0.9), torch.zeros(draw.count, device=marks.device)
    matrix = _placed(zeros, zeros, width, width * draw.between(0.15, 0.35), draw.between(-0.8, 0.8) * draw.chance(0.7))
    grid = project(matrix, views.pictures.shape[-1])
    return lay(views, marks, torch.remainder(grid + 1, 2) - 1, column(draw.between(0.15, 0.6)))


def stripes(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Draw parallel lines over the whole view, or a grid of them."""
    zeros, ones = (f(draw.count, device=views.places.device) for f in (torch.zeros, torch.ones))
    angle = draw.between(-torch.pi, torch.pi) * draw.chance(0.6)
    period = 1 / draw.between(3, 16)
    grid = project(_placed(zeros, zeros, period * 2, period * 2, angle), views.pictures.shape[-1])
    crossed = torch.stack([ones, draw.chance(0.5).float()], -1).view(-1, 1, 1, 2)
    lines = (torch.remainder(grid, 1) < draw.between(0.08, 0.4).view(-1, 1, 1, 1)) & (crossed > 0)
    alpha = lines.any(-1, keepdim=True) * column(draw.between(0.3, 1.0))
    pictures = torch.lerp(views.pictures, draw.uniform(3, 1, 1), alpha.permute(0, 3, 1, 2))
    return Views(pictures, views.places.masked_fill(alpha > 0.5, OUTSIDE))


def paste(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view into another photo, at 30 to 70 % of its side."""
    size = views.pictures.shape[-1]
    width = draw.between(0.3, 0.7)
    height = (width * draw.between(-0.3, 0.3).exp()).clamp(0.3, 0.7)
    angle = draw.between(-0.4, 0.4) * draw.chance(0.3)
    x, y = draw.between(-1, 1) * (1 - width), draw.between(-1, 1) * (1 - height)
    return _set_into(views, _placed(x, y, width, height, angle), stock.background(chosen, size, draw))


def _set_into(views: Views, matrix: Tensor, ground: Tensor) -> Views:
    grid = project(matrix, ground.shape[-1])
    moved = warp(views, grid)
    return Views(torch.where(inside(grid).unsqueeze(1), moved.pictures, ground), moved.places)


def collage(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view and three other photos side by side, two by two."""
    count, size = len(views.pictures), views.pictures.shape[-1]
    gap = int(draw.among(max(2, size // 40))[0])
    side = (size - gap) // 2
    others = stock.background(chosen.repeat(3), side, Draw(3 * count, draw.generator)).unflatten(0, (3, count))
    tile = F.interpolate(views.pictures, (side, side), mode="bilinear", antialias=True)
    shown = F.interpolate(views.places.permute(0, 3, 1, 2), (side, side), mode="nearest-exact").permute(0, 2, 3, 1)
    pictures = draw.chance(0.7).float().view(-1, 1, 1, 1).expand(-1, 3, size, size).clone()
    places = torch.full_like(views.places, OUTSIDE)
    where = draw.among(4).tolist()
    for view, corner in enumerate(where):
        for number in range(4):
            top, left = (number // 2) * (size - side), (number % 2) * (size - side)
            part = slice(top, top + side), slice(left, left + side)
            pictures[view, :, *part] = tile[view] if number == corner else others[(number - corner) % 4 - 1, view]
            if number == corner:
                places[view, *part] = shown[view]
    return Views(pictures, places)


def screenshot(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view into a web page or a phone's screen."""
    size, number = views.pictures.shape[-1], draw.among(len(stock.layers.windows))
    left, top, right, bottom = stock.layers.windows[number].unbind(1)
    zeros = torch.zeros_like(left)
    matrix = _placed((left + right) / 2, (top + bottom) / 2, (right - left) / 2, (bottom - top) / 2, zeros)
    screens = stock.layers.screenshots[number, :3].float().div_(255)
    return _set_into(views, matrix, F.interpolate(screens, (size, size), mode="bilinear", antialias=True))


def photograph(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Photograph the view on a screen: tilted, in a dark frame, with moire and a glare."""
    size, device = views.pictures.shape[-1], views.pictures.device
    ones = torch.ones(draw.count, device=device)
    zoom, angle = draw.between(0.9, 1.35), draw.between(-0.12, 0.12)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    x, y = draw.between(-0.1, 0.1), draw.between(-0.1, 0.1)
    tilt = matrices((ones, None, None), (None, ones, None), (draw.between(-0.2, 0.2), draw.between(-0.2, 0.2)))
    grid = project(matrices((cos, sin, x), (-sin, cos, y)) @ tilt, size)
    frame = (grid.abs() <= draw.between(1.03, 1.15).view(-1, 1, 1, 1)).all(-1).unsqueeze(1)
    desk = draw.uniform(3, 1, 1) * 0.7
    moved = warp(views, grid)
    pictures = torch.where(inside(grid).unsqueeze(1), moved.pictures, torch.where(frame, 0.04, desk))
    # Two gratings of nearly the same pitch: broad waves over the picture, in each channel at another phase.
    fine, slope = (draw.between(0.005, 0.05), draw.between(0.005, 0.05)), draw.between(-1.5, 1.5)
    waves = project(_placed(x, y, *fine, slope), size)
    wave = torch.sin(waves.sum(-1).unsqueeze(1) + draw.uniform(3, 1, 1) * 3)
    moire = wave.mul_(column(draw.between(0.0, 0.09))).add_(1)
    at, wide = (draw.between(-1, 1), draw.between(-1, 1)), (draw.between(0.2, 0.7), draw.between(0.2, 0.7))
    spot = project(_placed(*at, *wide, angle), size)
    glare = torch.exp(-spot.square().sum(-1)).unsqueeze(1) * column(draw.between(0.1, 0.8) * draw.chance(0.6))
    cast = (draw.normal(3, 1, 1) * 0.06).exp() * column(draw.between(0.7, 1.1))
    return Views(
        (torch.lerp(pictures.mul_(moire).mul_(cast), torch.ones_like(glare), glare)).clamp_(0, 1), moved.places
    )
