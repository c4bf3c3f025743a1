"""Occluders in front of a thing: a bar, a disc, the fingers of a hand, a card with another photo on it."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_training.data.augment.views import Draw, make_identity_places
from diptych_training.data.render.geometry import measure_cover
from diptych_training.data.render.things import Rows

SHARE = 0.4  # of the pictures have an occluder
HIDDEN = 0.5  # an occluder that hides more of the thing than this is left out
KINDS = (NONE, BAR, DISC, HAND, CARD) = range(5)


@dataclass(frozen=True)
class Occluders(Rows):
    """n occluders: `kind` (n,) of `KINDS`, `centre` (n, 2) in the picture that spans [-1, 1], `angle` (n,), half sizes
    `half` (n, 2), `colour` (n, 3) and the `photo` (n,) on a card.
    """

    kind: Tensor
    centre: Tensor
    angle: Tensor
    half: Tensor
    colour: Tensor
    photo: Tensor


def draw_occluders(count: int, photos: int, generator: Generator) -> Occluders:
    """Draw them, most of them beside the middle of the picture."""
    draw = Draw(count, generator)
    kind = (1 + draw.among(len(KINDS) - 1)) * draw.chance(SHARE)
    direction, reach = draw.between(0, 2 * math.pi), draw.between(0.3, 0.9)
    reach = torch.where(kind == HAND, 0.15 + 0.4 * reach, reach)
    centre = torch.stack([direction.cos(), direction.sin()], 1) * reach[:, None]
    half = draw.between(0.12, 0.42, 2)
    half = torch.where((kind == BAR)[:, None], half * 0.45, half)
    # A hand comes from the border: its fingers point at the middle.
    angle = torch.where(kind == HAND, direction + draw.between(-0.5, 0.5), draw.between(0, 2 * math.pi))
    skin = torch.tensor([0.95, 0.72, 0.6], device=generator.device) * draw.between(0.3, 1, 1)
    colour = torch.where((kind == HAND)[:, None], skin, draw.uniform(3))
    return Occluders(kind, centre, angle, half, colour, draw.among(photos))


def occlude_things(pictures: Tensor, inside: Tensor, occluders: Occluders, photos: Tensor) -> tuple[Tensor, Tensor]:
    """Lay occluders over pictures (n, 3, S, S) of things that cover `inside` (n, S, S); return the pictures, and which
    pixels are hidden, (n, S, S) bool. Photos are uint8 (m, h, h, 3).
    """
    hidden = torch.zeros_like(inside, dtype=torch.bool)
    for kind in KINDS[1:]:
        (rows,) = torch.where(occluders.kind == kind)
        if not len(rows):
            continue
        some = occluders[rows]
        x, y = _turn_places(some, pictures.shape[-1])
        measure, height = _measure_depth(some, x, y)
        share = measure_cover(measure)
        own = inside[rows]
        excess = (share * own).sum((1, 2)) > HIDDEN * own.sum((1, 2))
        share = share * ~excess[:, None, None]
        if kind == CARD:
            shown = photos[some.photo].permute(0, 3, 1, 2).float() / 255
            grid = torch.stack([x / some.half[:, 0, None, None], y / some.half[:, 1, None, None]], -1)
            colour = F.grid_sample(shown, grid, padding_mode="border", align_corners=False)
        else:
            colour = some.colour[:, :, None, None] * (0.55 + 0.45 * height)[:, None]
        pictures.index_copy_(0, rows, pictures[rows].lerp_(colour, share[:, None]))
        hidden.index_copy_(0, rows, share >= 0.5)
    return pictures, hidden


def _turn_places(occluders: Occluders, size: int) -> tuple[Tensor, Tensor]:
    """Every pixel's place from the occluder's centre, along and across it, each (n, S, S)."""
    place = make_identity_places(1, size).to(occluders.angle.device) - occluders.centre[:, None, None]
    (x, y), angle = place.unbind(-1), occluders.angle[:, None, None]
    return x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()


def _measure_depth(occluders: Occluders, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The depth of each pixel inside the occluder, and the height of the occluder there, 0 to 1."""
    kind = int(occluders.kind[0])
    long, wide = (half[:, None, None] for half in occluders.half.unbind(1))
    if kind == BAR:
        measure = wide - y.abs()
    elif kind == DISC:
        measure = long - (x * x + y * y).sqrt()
    elif kind == CARD:
        return torch.minimum(long - x.abs(), wide - y.abs()), torch.ones_like(x)
    else:
        # Four fingers side by side, the middle ones longest; they come in from the border.
        finger, measure = wide * 0.35, torch.full_like(x, -torch.inf)
        for place, tip in ((-1.5, 0.25), (-0.5, 0.0), (0.5, 0.05), (1.5, 0.4)):
            beyond = (tip * long - x).clamp(min=0)
            away = (beyond * beyond + (y - place * 1.9 * finger) ** 2).sqrt()
            measure = torch.maximum(measure, finger - away)
        wide = finger
    return measure, (measure / (long if kind == DISC else wide)).clamp(0, 1).sqrt()
