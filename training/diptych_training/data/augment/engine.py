"""The engine of training's edits: chooses each view's edits, moves it in one resampling, then makes the others."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_training.data.augment import overlays, pixels
from diptych_training.data.augment.geometry import (
    canvas_matrices,
    crop_matrices,
    is_inside,
    project_pixels,
    read_at,
)
from diptych_training.data.augment.overlays import Layers, Stock, standard_layers
from diptych_training.data.augment.views import OUTSIDE, Draw, Views


@dataclass(frozen=True)
class Strength:
    """How far edits go, and the chance or the weight of each.

    `area` is the smallest share of the photo that a crop keeps, and `reach` scales how far edits go: 1 for those of
    `HARD`. Every other number belongs to an edit: with `most` at 0 its probability, on its own. With `most` above 0 a
    view gets 1 to `most` edits, 1 + 0.4 (`most` - 1) on average, chosen with these numbers as relative weights.
    """

    area: float = 0.2
    reach: float = 0.6
    most: int = 0
    crop: float = 0.7
    flip: float = 0.4
    rotate: float = 0.4
    perspective: float = 0.25
    shrink: float = 0.2
    stretch: float = 0.0
    pad: float = 0.0
    colour: float = 0.6
    grey: float = 0.08
    tint: float = 0.0
    invert: float = 0.0
    posterise: float = 0.0
    solarise: float = 0.0
    shuffle: float = 0.0
    vignette: float = 0.0
    watermark: float = 0.0
    stripes: float = 0.0
    caption: float = 0.0
    overlay: float = 0.35
    screenshot: float = 0.0
    paste: float = 0.0
    collage: float = 0.0
    photograph: float = 0.0
    sharpen: float = 0.0
    pixelate: float = 0.0
    blur: float = 0.2
    motion: float = 0.0
    noise: float = 0.2
    salt: float = 0.0
    jpeg: float = 0.3


HEAVY = Strength()
MILD = Strength(
    area=0.7, crop=0.4, flip=0.0, rotate=0.15, perspective=0.1, shrink=0.05, colour=0.3, grey=0.0, overlay=0.05,
    blur=0.1, noise=0.1, jpeg=0.2,
)  # fmt: skip
SHOT = Strength(
    area=0.4, flip=0.3, perspective=0.3, shrink=0.15, grey=0.02, overlay=0.05, noise=0.15, jpeg=0.2
)  # fmt: skip
HARD = Strength(
    area=0.06, reach=1.0, most=6,
    crop=1.0, flip=0.5, rotate=0.6, perspective=0.4, shrink=0.2, stretch=0.4, pad=0.3,
    colour=0.7, grey=0.2, tint=0.2, invert=0.12, posterise=0.15, solarise=0.1, shuffle=0.15, vignette=0.2,
    watermark=0.35, stripes=0.25, caption=0.7, overlay=0.9, screenshot=0.45, paste=0.5, collage=0.3, photograph=0.35,
    sharpen=0.25, pixelate=0.25, blur=0.4, motion=0.2, noise=0.4, salt=0.15, jpeg=0.7,
)  # fmt: skip

CHUNK = 16  # views edited together on a CPU: what fits in its caches is edited faster

# In the order in which they are made.
EDITS = tuple(field.name for field in fields(Strength) if field.name not in ("area", "reach", "most"))
# Of these a view gets one at most: two of them leave nothing to recognise.
EXCLUSIVE = (("paste", "collage", "screenshot", "photograph"), ("blur", "motion", "pixelate"), ("shrink", "pad"))

PIXELS: dict[str, Callable[[Tensor, Draw], Tensor]] = {
    name: getattr(pixels, name) for name in EDITS if hasattr(pixels, name)
}
OVERLAYS: dict[str, Callable[[Views, Draw, Stock, Tensor], Views]] = {
    name: getattr(overlays, name) for name in EDITS if hasattr(overlays, name)
}


def edit_photos(
    photos: Tensor,
    size: int,
    strength: Strength,
    generator: Generator,
    sprites: Tensor,
    *,
    backgrounds: Tensor | None = None,
    layers: Layers | None = None,
) -> Views:
    """Return one edited view of each photo: uint8 (B, H, H, 3) -> pictures (B, 3, size, size).

    `sprites` are stickers, RGBA uint8 (n, 4, h, h); `backgrounds` are photos to paste views into, uint8 (n, H, H, 3),
    by default the other photos of the batch; `layers` are captions and screenshots, by default `standard_layers`.
    """
    grounds = photos if backgrounds is None else backgrounds
    stock = Stock(sprites, layers or standard_layers(str(generator.device)), grounds, backgrounds is None)
    chunk = CHUNK if photos.device.type == "cpu" else len(photos)
    numbers = torch.arange(len(photos), device=photos.device).split(max(1, chunk))
    parts = [_edit_chunk(photos[some], size, strength, generator, stock, some) for some in numbers]
    return Views(*(torch.cat(part) for part in zip(*parts, strict=True)))


def choose_edits(count: int, strength: Strength, generator: Generator) -> dict[str, Tensor]:
    """Choose each view's edits, bool (count,) for each edit: by chance, or 1 to `strength.most` of them by weight."""
    draw = Draw(count, generator)
    weights = torch.tensor([float(getattr(strength, name)) for name in EDITS], device=generator.device)
    if not strength.most:
        return dict(zip(EDITS, (draw.uniform(len(EDITS)) < weights).unbind(1), strict=True))
    wanted = 1 + (draw.uniform(strength.most - 1) < 0.4).sum(1, keepdim=True)
    # The largest of log(weight) + Gumbel noise are a weighted choice without replacement.
    keys = weights.log() - (-draw.uniform(len(EDITS)).clamp(1e-7, 1 - 1e-7).log()).log()
    for group in EXCLUSIVE:
        columns = [EDITS.index(name) for name in group]
        rivals = keys[:, columns]
        keys[:, columns] = rivals.masked_fill(rivals < rivals.amax(1, keepdim=True), -torch.inf)
    ranks = keys.argsort(1, descending=True).argsort(1)
    chosen = (ranks < wanted) & keys.isfinite()
    return dict(zip(EDITS, chosen.unbind(1), strict=True))


def _edit_chunk(
    photos: Tensor, size: int, strength: Strength, generator: Generator, stock: Stock, numbers: Tensor
) -> Views:
    draw, chosen = Draw(len(photos), generator, strength.reach), choose_edits(len(photos), strength, generator)
    pictures, places = _reframe_photos(photos, size, strength.area, chosen, draw, stock, numbers)
    for name in EDITS:
        (some,) = torch.where(chosen[name])
        if not len(some):
            continue
        if name in PIXELS:
            pictures[some] = PIXELS[name](pictures[some], draw.of(len(some)))
        elif name in OVERLAYS:
            views = Views(pictures[some], places[some])
            pictures[some], places[some] = OVERLAYS[name](views, draw.of(len(some)), stock, numbers[some])
    return Views(pictures.clamp_(0, 1), places)


def _reframe_photos(
    photos: Tensor, size: int, area: float, chosen: dict[str, Tensor], draw: Draw, stock: Stock, numbers: Tensor
) -> Views:
    """All chosen edits of geometry in one resampling."""
    # Of a small part that is then shown small or unsharp, nothing would be left to recognise.
    is_burdened = torch.stack([chosen[name] for group in EXCLUSIVE for name in group]).any(0)
    crops = crop_matrices(chosen, torch.where(is_burdened, max(area, 0.2), area), draw)
    grid = project_pixels(canvas_matrices(chosen, draw), size)
    within = is_inside(grid)
    scale, shift = crops[:, :2, :2].diagonal(dim1=1, dim2=2), crops[:, :2, 2]
    places = torch.addcmul(shift.view(-1, 1, 1, 2), grid, scale.reshape(-1, 1, 1, 2))
    pictures = read_at(photos.permute(0, 3, 1, 2).float().div_(255), places)
    (some,) = torch.where(~within.flatten(1).all(1))
    if len(some):
        ground = _draw_ground(pictures[some], draw.of(len(some)), stock, numbers[some])
        pictures[some] = torch.where(within[some].unsqueeze(1), pictures[some], ground)
        places = places.masked_fill(~within.unsqueeze(-1), OUTSIDE)
    return Views(pictures, places)


def _draw_ground(pictures: Tensor, draw: Draw, stock: Stock, numbers: Tensor) -> Tensor:
    """The ground around the photo: black, white, any colour, the photo itself blurred, or another photo."""
    size, sort = pictures.shape[-1], draw.uniform(1, 1, 1)
    plain = torch.where(sort < 0.25, 0.0, torch.where(sort < 0.5, 1.0, draw.uniform(3, 1, 1)))
    ground = plain.expand(-1, -1, size, size).clone()
    (blurred,), (other,) = (torch.where(which.flatten()) for which in ((sort > 0.65) & (sort < 0.8), sort >= 0.8))
    if len(blurred):
        few = F.adaptive_avg_pool2d(pictures[blurred], 8)
        ground[blurred] = F.interpolate(few, (size, size), mode="bilinear")
    if len(other):
        ground[other] = stock.choose_backgrounds(numbers[other], size, draw.of(len(other)))
    return ground
