"""Edits that lay something over a view, or a view into something: sprites, text, screenshots, other photos."""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor

from diptych_training.data.augment.geometry import is_inside, place_matrices, project_pixels, stack_matrices, warp_views
from diptych_training.data.augment.views import OUTSIDE, Draw, Views, as_column
from diptych_training.data.documents import GROUPS, draw_documents
from diptych_training.data.layers import STRIPS, WIDTH, draw_sticker, draw_strip

SURROUNDINGS = (*GROUPS["windows"], *GROUPS["pages"])  # the kinds of documents that views are set into


class Layers(NamedTuple):
    """Drawn layers, uint8: `bars` are opaque strips with text, `titles` outlined text alone and `marks` plain text
    alone, RGBA (n, 4, 60, 240); `pages` are documents and screens to set a view into, RGB (n, 3, 240, 240).
    """

    bars: Tensor
    titles: Tensor
    marks: Tensor
    pages: Tensor

    def to(self, device: torch.device | str) -> "Layers":
        """The same layers on a device."""
        return Layers(*(layer.to(device) for layer in self))


def draw_layers(count: int, seed: int) -> Layers:
    """Draw `count` layers of each sort."""
    rng = np.random.default_rng(seed)
    bars, titles, marks = (_stack_pictures([draw_strip(rng, sort) for _ in range(count)]) for sort in STRIPS)
    pages = draw_documents(count, WIDTH, seed, SURROUNDINGS)
    return Layers(bars, titles, marks, torch.from_numpy(pages).permute(0, 3, 1, 2).contiguous())


@lru_cache(maxsize=2)
def standard_layers(device: str) -> Layers:
    """The layers of edits that are given none: 64 of each sort, from seed 0, drawn once."""
    return draw_layers(64, 0).to(device)


def draw_sprites(count: int, seed: int, size: int = 64) -> Tensor:
    """Draw stickers to lay over views, uint8 (count, 4, size, size) RGBA."""
    return _draw_sprites(count, seed, size).clone()


@lru_cache(maxsize=4)
def _draw_sprites(count: int, seed: int, size: int) -> Tensor:
    """The stickers of a seed, which every stage of a run asks for, and every validation."""
    rng = np.random.default_rng(seed)
    return _stack_pictures([draw_sticker(rng, size) for _ in range(count)])


def _stack_pictures(pictures: list[Image.Image]) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2).contiguous()


@dataclass(frozen=True)
class Stock:
    """Prepared pictures: stickers (n, 4, h, h) uint8, layers, and photos (n, H, H, 3) uint8 for backgrounds.

    `own` says that the backgrounds are the photos being edited, in their order; none is then its own background.
    """

    stickers: Tensor
    layers: Layers
    backgrounds: Tensor
    own: bool

    def choose_backgrounds(self, chosen: Tensor, size: int, draw: Draw) -> Tensor:
        """Photos (n, 3, size, size) for the views of these numbers."""
        count = len(self.backgrounds)
        index = (chosen + 1 + draw.among(max(1, count - 1))) % count if self.own else draw.among(count)
        photos = self.backgrounds[index].permute(0, 3, 1, 2).float().div_(255)
        return F.interpolate(photos, (size, size), mode="bilinear", antialias=True).clamp_(0, 1)


def _lay_sprites(views: Views, sprites: Tensor, grid: Tensor, opacity: Tensor | float = 1.0) -> Views:
    """Draw RGBA sprites (n, 4, h, w) uint8 where a grid reads them; pixels mostly covered lose their place."""
    drawn = sprites.float().div_(255)
    # Bilinear reading mixes in the colour of transparent pixels, unless colours are multiplied by their alpha first.
    drawn[:, :3] *= drawn[:, 3:]
    drawn = F.grid_sample(drawn, grid, align_corners=False) * opacity
    alpha = drawn[:, 3:]
    pictures = views.pictures * (1 - alpha) + drawn[:, :3]
    return Views(pictures, views.places.masked_fill(alpha.permute(0, 2, 3, 1) > 0.5, OUTSIDE))


def _set_into(views: Views, matrix: Tensor, ground: Tensor) -> Views:
    grid = project_pixels(matrix, ground.shape[-1])
    moved = warp_views(views, grid)
    return Views(torch.where(is_inside(grid).unsqueeze(1), moved.pictures, ground), moved.places)


def overlay(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Lay one to three stickers over each view, at any place, size and tilt."""
    pictures, places = views.pictures.clone(), views.places.clone()
    for share in (1.0, 0.5, 0.25):
        (some,) = torch.where(draw.chance(share))
        if not len(some):
            continue
        each = draw.of(len(some))
        # Sides up to 0.75 of the view's: a sticker covers up to half of it.
        width = each.between(0.12, 0.75)
        height = (width * each.between(-0.4, 0.4).exp()).clamp(max=0.75)
        angle = each.between(-0.7, 0.7) * each.chance(0.5)
        matrix = place_matrices(each.between(-0.9, 0.9), each.between(-0.9, 0.9), width, height, angle)
        opacity = torch.where(each.chance(0.7), 1.0, each.between(0.4, 1.0))
        sprites = stock.stickers[each.among(len(stock.stickers))]
        grid = project_pixels(matrix, pictures.shape[-1])
        pictures[some], places[some] = _lay_sprites(
            Views(pictures[some], places[some]), sprites, grid, as_column(opacity)
        )
    return Views(pictures, places)


def caption(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set text at the top or the bottom, or both: outlined, or on a bar that covers the view or makes it taller."""
    size, layers = views.pictures.shape[-1], stock.layers
    height, ends, barred = draw.between(0.1, 0.28), draw.among(3), draw.chance(0.5)
    (taller,) = torch.where(barred & (ends < 2) & draw.chance(0.6))
    pictures, places = views.pictures.clone(), views.places.clone()
    if len(taller):
        # The view makes room at its end for the bar.
        scale, end = 1 / (1 - height[taller]), ends[taller] * 2.0 - 1
        room = stack_matrices((1, 0, 0), (0, scale, end * (scale - 1)))
        pictures[taller], places[taller] = warp_views(
            Views(pictures[taller], places[taller]), project_pixels(room, size)
        )
    number = draw.among(len(layers.bars))
    for end in (0, 1):
        (some,) = torch.where((ends == end) | (ends == 2))
        if len(some):
            texts, high = (number[some] + end) % len(layers.bars), height[some]
            strips = torch.where(as_column(barred[some]), layers.bars[texts], layers.titles[texts])
            matrix = place_matrices(high * 0, (1 - high) * (2 * end - 1), torch.ones_like(high), high)
            pictures[some], places[some] = _lay_sprites(
                Views(pictures[some], places[some]), strips, project_pixels(matrix, size)
            )
    return Views(pictures, places)


def watermark(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Repeat a faint text over the whole view."""
    marks = stock.layers.marks[draw.among(len(stock.layers.marks))]
    width, angle = draw.between(0.25, 0.9), draw.between(-0.8, 0.8) * draw.chance(0.7)
    matrix = place_matrices(width * 0, width * 0, width, width * draw.between(0.15, 0.35), angle)
    grid = project_pixels(matrix, views.pictures.shape[-1])
    return _lay_sprites(views, marks, torch.remainder(grid + 1, 2) - 1, as_column(draw.between(0.15, 0.6)))


def stripes(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Draw parallel lines over the whole view, or a grid of them."""
    angle, period = draw.between(-torch.pi, torch.pi) * draw.chance(0.6), 1 / draw.between(3, 16)
    matrix = place_matrices(period * 0, period * 0, period * 2, period * 2, angle)
    lines = torch.remainder(project_pixels(matrix, views.pictures.shape[-1]), 1) < as_column(draw.between(0.08, 0.4))
    lines[..., 1] &= draw.chance(0.5).view(-1, 1, 1)
    alpha = lines.any(-1, keepdim=True) * as_column(draw.between(0.3, 1.0))
    pictures = torch.lerp(views.pictures, draw.uniform(3, 1, 1), alpha.permute(0, 3, 1, 2))
    return Views(pictures, views.places.masked_fill(alpha > 0.5, OUTSIDE))


def paste(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view into another photo, at 30 to 70 % of its side."""
    width = draw.between(0.3, 0.7)
    height = (width * draw.between(-0.3, 0.3).exp()).clamp(0.3, 0.7)
    angle = draw.between(-0.4, 0.4) * draw.chance(0.3)
    x, y = draw.between(-1, 1) * (1 - width), draw.between(-1, 1) * (1 - height)
    ground = stock.choose_backgrounds(chosen, views.pictures.shape[-1], draw)
    return _set_into(views, place_matrices(x, y, width, height, angle), ground)


def collage(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view and three other photos side by side, two by two."""
    count, size = len(views.pictures), views.pictures.shape[-1]
    gap = int(draw.among(max(2, size // 40))[0])
    side = (size - gap) // 2
    others = stock.choose_backgrounds(chosen.repeat(4), side, draw.of(4 * count)).unflatten(0, (4, count))
    tile = F.interpolate(views.pictures, (side, side), mode="bilinear", antialias=True)
    shown = F.interpolate(views.places.permute(0, 3, 1, 2), (side, side), mode="nearest-exact").permute(0, 2, 3, 1)
    pictures = as_column(draw.chance(0.7).float()).expand(-1, 3, size, size).clone()
    places, corner = torch.full_like(views.places, OUTSIDE), as_column(draw.among(4))
    for number, (top, left) in enumerate(((0, 0), (0, size - side), (size - side, 0), (size - side, size - side))):
        rows, columns, is_own = slice(top, top + side), slice(left, left + side), corner == number
        pictures[:, :, rows, columns] = torch.where(is_own, tile, others[number])
        places[:, rows, columns] = torch.where(is_own, shown, OUTSIDE)
    return Views(pictures, places)


def screenshot(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Set the view into a page or a screen, upright; half of them are as wide as it."""
    size, pages = views.pictures.shape[-1], stock.layers.pages[draw.among(len(stock.layers.pages))]
    width = torch.where(draw.chance(0.5), draw.between(0.9, 1), draw.between(0.45, 0.9))
    height = draw.between(0.4, 0.75)
    x, y = draw.between(-1, 1) * (1 - width), draw.between(-1, 1) * (0.9 - height)
    ground = F.interpolate(pages.float().div_(255), (size, size), mode="bilinear", antialias=True)
    return _set_into(views, place_matrices(x, y, width, height), ground)


def photograph(views: Views, draw: Draw, stock: Stock, chosen: Tensor) -> Views:
    """Photograph the view on a screen: tilted, in a dark frame, with moire and a glare."""
    size = views.pictures.shape[-1]
    zoom, angle = draw.between(0.9, 1.35), draw.between(-0.12, 0.12)
    cos, sin = angle.cos() * zoom, angle.sin() * zoom
    x, y = draw.between(-0.1, 0.1), draw.between(-0.1, 0.1)
    tilt = stack_matrices((1, 0, 0), (0, 1, 0), (draw.between(-0.2, 0.2), draw.between(-0.2, 0.2), 1))
    grid = project_pixels(stack_matrices((cos, sin, x), (-sin, cos, y)) @ tilt, size)
    frame = (grid.abs() <= as_column(draw.between(1.03, 1.15))).all(-1).unsqueeze(1)
    desk = draw.uniform(3, 1, 1) * 0.7
    moved = warp_views(views, grid)
    pictures = torch.where(is_inside(grid).unsqueeze(1), moved.pictures, torch.where(frame, 0.04, desk))
    # Two gratings of nearly the same pitch: broad waves over the picture, in each channel at another phase.
    waves = place_matrices(x, y, draw.between(0.005, 0.05), draw.between(0.005, 0.05), draw.between(-1.5, 1.5))
    wave = torch.sin(project_pixels(waves, size).sum(-1).unsqueeze(1) + draw.uniform(3, 1, 1) * 3)
    moire = 1 + wave * as_column(draw.between(0.0, 0.09))
    spot = place_matrices(
        draw.between(-1, 1), draw.between(-1, 1), draw.between(0.2, 0.7), draw.between(0.2, 0.7), angle
    )
    glare = torch.exp(-project_pixels(spot, size).square().sum(-1)).unsqueeze(1)
    glare = glare * as_column(draw.between(0.1, 0.8) * draw.chance(0.6))
    cast = (draw.normal(3, 1, 1) * 0.06).exp() * as_column(draw.between(0.7, 1.1))
    return Views(torch.lerp(pictures * moire * cast, torch.ones_like(glare), glare).clamp_(0, 1), moved.places)
