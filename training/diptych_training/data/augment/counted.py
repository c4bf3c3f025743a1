"""A counted number of edits to each view, of everything people do: how `HARD` edits."""

from collections.abc import Callable
from dataclasses import fields

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_training.data.augment import filters, overlays, tones
from diptych_training.data.augment.draw import Draw
from diptych_training.data.augment.geometry import GEOMETRY, canvas_matrices, crop_matrices, inside, project, read
from diptych_training.data.augment.layers import Layers, standard_layers
from diptych_training.data.augment.overlays import Stock
from diptych_training.data.augment.strength import Strength
from diptych_training.data.augment.views import OUTSIDE, Views

CHUNK = 16  # views edited together on a CPU: what fits in its caches is edited faster

EDITS = tuple(field.name for field in fields(Strength) if field.name not in ("area", "most"))
# Of these a view gets one at most: two of them leave nothing to recognise.
EXCLUSIVE = (("paste", "collage", "screenshot", "photograph"), ("blur", "motion", "pixelate"), ("shrink", "pad"))

TONES: dict[str, Callable[[Tensor, Draw], Tensor]] = {
    name: getattr(tones, name)
    for name in ("colour", "grey", "tint", "invert", "posterise", "solarise", "shuffle", "vignette")
}
OVERLAYS: dict[str, Callable[[Views, Draw, Stock, Tensor], Views]] = {
    name: getattr(overlays, name)
    for name in ("watermark", "stripes", "caption", "overlay", "screenshot", "paste", "collage", "photograph")
}
FILTERS: dict[str, Callable[[Tensor, Draw], Tensor]] = {
    name: getattr(filters, name) for name in ("sharpen", "pixelate", "blur", "motion", "noise", "salt", "jpeg")
}


def edit_counted(
    photos: Tensor,
    size: int,
    strength: Strength,
    generator: Generator,
    sprites: Tensor,
    backgrounds: Tensor | None = None,
    layers: Layers | None = None,
) -> Views:
    """Return one edited view of each photo: uint8 (B, H, H, 3) -> pictures (B, 3, size, size)."""
    own = backgrounds is None
    grounds = photos if backgrounds is None else backgrounds
    stock = Stock(sprites, layers or standard_layers(str(generator.device)), grounds, own)
    chunk = CHUNK if photos.device.type == "cpu" else len(photos)
    pictures = torch.empty(len(photos), 3, size, size, device=photos.device)
    places = torch.empty(len(photos), size, size, 2, device=photos.device)
    for start in range(0, len(photos), chunk):
        part = slice(start, start + chunk)
        numbers = torch.arange(start, min(start + chunk, len(photos)), device=photos.device)
        pictures[part], places[part] = _edit_chunk(photos[part], size, strength, generator, stock, numbers)
    return Views(pictures, places)


def choose(count: int, strength: Strength, generator: Generator) -> dict[str, Tensor]:
    """Choose each view's edits: 1 to `strength.most` of them, by weight; bool (count,) for each edit."""
    draw = Draw(count, generator)
    weights = torch.tensor([float(getattr(strength, name)) for name in EDITS], device=generator.device)
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
    chosen = choose(len(photos), strength, generator)
    pictures, places = reframe(photos, size, strength.area, chosen, Draw(len(photos), generator), stock, numbers)

    def apply(name: str, change: Callable[[Tensor, Draw], Tensor]) -> None:
        (some,) = torch.where(chosen[name])
        if len(some):
            pictures[some] = change(pictures[some], Draw(len(some), generator))

    for name, change in TONES.items():
        apply(name, change)
    for name, lay in OVERLAYS.items():
        (some,) = torch.where(chosen[name])
        if len(some):
            views = Views(pictures[some], places[some])
            pictures[some], places[some] = lay(views, Draw(len(some), generator), stock, numbers[some])
    for name, change in FILTERS.items():
        apply(name, change)
    return Views(pictures.clamp_(0, 1), places)


def reframe(
    photos: Tensor, size: int, area: float, chosen: dict[str, Tensor], draw: Draw, stock: Stock, numbers: Tensor
) -> Views:
    """All chosen edits of geometry in one resampling."""
    # Of a small part that is then shown small or unsharp, nothing would be left to recognise.
    burdened = torch.stack([chosen[name] for group in EXCLUSIVE for name in group]).any(0)
    kept = torch.where(burdened, max(area, 0.2), area)
    crops = crop_matrices(chosen["crop"], chosen["stretch"], kept, draw)
    canvas = canvas_matrices({name: chosen[name] for name in GEOMETRY}, draw)
    sources = photos.permute(0, 3, 1, 2).float().div_(255)
    grid = project(canvas, size)
    within = inside(grid)
    scale, shift = crops[:, :2, :2].diagonal(dim1=1, dim2=2), crops[:, :2, 2]
    places = torch.addcmul(shift.view(-1, 1, 1, 2), grid, scale.reshape(-1, 1, 1, 2))
    pictures = read(sources, places)
    (some,) = torch.where(~within.flatten(1).all(1))
    if len(some):
        ground = _ground(pictures[some], Draw(len(some), draw.generator), stock, numbers[some])
        pictures[some] = torch.where(within[some].unsqueeze(1), pictures[some], ground)
        places = places.masked_fill(~within.unsqueeze(-1), OUTSIDE)
    return Views(pictures, places)


def _ground(pictures: Tensor, draw: Draw, stock: Stock, numbers: Tensor) -> Tensor:
    """The ground around the photo: black, white, any colour, the photo itself blurred, or another photo."""
    size, sort = pictures.shape[-1], draw.uniform().view(-1, 1, 1, 1)
    plain = torch.where(sort < 0.25, 0.0, torch.where(sort < 0.5, 1.0, draw.uniform(3, 1, 1)))
    ground = plain.expand(-1, -1, size, size).clone()
    (blurred,), (other,) = (
        torch.where((sort.flatten() > 0.65) & (sort.flatten() < 0.8)),
        torch.where(sort.flatten() >= 0.8),
    )
    if len(blurred):
        few = F.adaptive_avg_pool2d(pictures[blurred], 8)
        ground[blurred] = F.interpolate(few, (size, size), mode="bilinear")
    if len(other):
        ground[other] = stock.background(numbers[other], size, Draw(len(other), draw.generator))
    return ground
