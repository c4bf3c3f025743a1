"""Things to render: shapes, sizes, and which part of which photo is printed on which face."""

from dataclasses import dataclass, fields, replace
from itertools import permutations
from typing import Self

import torch
from torch import Generator, Tensor

from diptych_training.data.augment.views import Draw

SHAPES = ("carton", "book", "pack", "can", "rolled", "waved", "bag")
FAMILY = 4  # consecutive things have one shape: rivals that only their textures tell apart
FACES = 6
FRONT, BACK, RIGHT, LEFT, TOP, BOTTOM = range(FACES)  # of a can: halves of its side and, as TOP, its lid
TINTS = ((1.0, 1.0, 1.0), *permutations((1.0, 0.65, 0.35)))
PLAIN = -1


class Rows:
    """Frozen tensors of equal length: `rows[index]` are some of them."""

    def __getitem__(self, index: Tensor) -> Self:
        return type(self)(**{field.name: getattr(self, field.name)[index] for field in fields(self)})  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Things(Rows):
    """n things, each in a sphere of radius 1; x points right, y down, z away from who looks at the front.

    `shape` (n,) is an index of `SHAPES`, `extents` (n, 3) are half sizes, `bend` (n, 8) is how paper is bent: a rolled
    sheet's half angle, side (1 towards the viewer, -1 away) and whether its axis lies (1); or two waves' amplitude,
    frequency along u and v, and phase. `photo` (n, 6) is the texture of each face, or `PLAIN`; `crop` (n, 6, 4) the
    centre and half size of the part printed there, in a photo that spans [-1, 1], a negative half width being a mirror;
    `colour` (n, 6, 3) is that of plain faces, `tint` (n, 3) that of the ink.
    """

    shape: Tensor
    extents: Tensor
    bend: Tensor
    photo: Tensor
    crop: Tensor
    colour: Tensor
    tint: Tensor


def draw_things(fronts: Tensor, others: Tensor, generator: Generator) -> Things:
    """Draw a thing for each of `fronts` (n,), the photo on its front; `others` (m,) are photos for its other faces."""
    draw, device = Draw(len(fronts), generator), generator.device
    each = draw.of(-(-draw.count // FAMILY))
    shape = each.among(len(SHAPES)).repeat_interleave(FAMILY)[: draw.count]
    size = each.uniform(5).repeat_interleave(FAMILY, 0)[: draw.count]
    extents = _choose_extents(shape, (size + draw.between(-0.05, 0.05, 5)).clamp(0, 1))
    photo, colour = _draw_faces(shape, fronts.to(device), others.to(device), draw)
    half = draw.between(0.55, 1, FACES, 2)
    half[:, FRONT] = 1 - draw.between(0, 0.25, 2) * draw.chance(0.5, 1)
    centre = draw.between(-1, 1, FACES, 2) * (1 - half)
    tint = torch.tensor(TINTS, device=device)[draw.among(len(TINTS)) * draw.chance(0.3)]
    return Things(shape, extents, _draw_bends(shape, draw), photo, torch.cat([centre, half], -1), colour, tint)


def draw_lookalikes(things: Things, others: Tensor, generator: Generator) -> Things:
    """Draw a lookalike of each thing, which is another thing: with another front, in another colour, or mirrored.

    Shape, size and the other faces stay; `others` (m,) are photos for new fronts.
    """
    draw, device = Draw(len(things), generator), generator.device
    how = draw.uniform()
    refronted, mirrored = how < 0.5, how > 0.9
    step = 1 + draw.among(len(others) - 1) if len(others) > 1 else torch.zeros_like(things.shape)
    present = (others.to(device)[None, :] == things.photo[:, FRONT, None]).float().argmax(1)
    photo = things.photo.clone()
    photo[:, FRONT] = torch.where(refronted, others.to(device)[(present + step) % len(others)], photo[:, FRONT])
    tints = torch.tensor(TINTS, device=device)
    old = (things.tint[:, None] == tints).all(-1).float().argmax(1)
    new = (old + 1 + draw.among(len(TINTS) - 1)) % len(TINTS)
    tint = torch.where((refronted | mirrored)[:, None], things.tint, tints[new])
    flip = torch.ones(4, device=device)
    flip[2] = -1
    crop = torch.where(mirrored[:, None, None], things.crop * flip, things.crop)
    return replace(things, photo=photo, tint=tint, crop=crop)


def join_things(one: Things, other: Things) -> Things:
    """Lay things beside each other."""
    return Things(**{f.name: torch.cat([getattr(one, f.name), getattr(other, f.name)]) for f in fields(one)})


def _choose_extents(shape: Tensor, size: Tensor) -> Tensor:
    """Half sizes (n, 3) from uniform numbers (n, 5), by shape, in a sphere of radius 1."""
    a, b, c, *_ = size.unbind(1)
    one = torch.ones_like(a)
    table = torch.stack(
        [
            torch.stack([0.5 + 0.5 * a, 0.55 + 0.7 * b, 0.25 + 0.5 * c], -1),  # carton
            torch.stack([0.62 + 0.2 * a, one, 0.05 + 0.17 * b], -1),  # book
            torch.stack([0.8 + 0.5 * a, 0.55 + 0.6 * b, 0.08 + 0.2 * c], -1),  # pack
            torch.stack([0.35 + 0.4 * a, 0.55 + 0.6 * b, 0.35 + 0.4 * a], -1),  # can
            torch.stack([0.6 + 0.5 * a, 0.6 + 0.5 * b, 0 * one], -1),  # rolled
            torch.stack([0.6 + 0.5 * a, 0.6 + 0.5 * b, 0 * one], -1),  # waved
            torch.stack([0.65 + 0.3 * a, 0.75 + 0.35 * b, 0.1 + 0.14 * c], -1),  # bag
        ],
        1,
    )
    extents = table[torch.arange(len(shape), device=shape.device), shape]
    return extents / extents.norm(dim=1, keepdim=True)


def _draw_bends(shape: Tensor, draw: Draw) -> Tensor:
    """How paper is bent, (n, 8), as `Things` has it."""
    drawn = draw.uniform(8)
    rolled = torch.zeros_like(drawn)
    rolled[:, 0] = 0.3 + drawn[:, 0]
    rolled[:, 1] = torch.where(drawn[:, 1] < 0.65, 1.0, -1.0)
    rolled[:, 2] = (drawn[:, 2] < 0.3).float()
    waves = drawn.view(-1, 2, 4)
    angle, frequency = 6.28 * waves[..., 1], 1.5 + 4 * waves[..., 2]
    # Waves are not so steep that a surface hides itself: slope = amplitude * frequency.
    slope = (0.1 + 0.3 * waves[..., 0]) * torch.where(shape == SHAPES.index("bag"), 0.4, 1.0)[:, None]
    waved = torch.stack(
        [slope / frequency, frequency * angle.cos(), frequency * angle.sin(), 6.28 * waves[..., 3]], -1
    ).flatten(1)
    return torch.where((shape == SHAPES.index("rolled"))[:, None], rolled, waved)


def _draw_faces(shape: Tensor, fronts: Tensor, others: Tensor, draw: Draw) -> tuple[Tensor, Tensor]:
    """Return which photo is on which face, (n, 6), and the colours (n, 6, 3) of faces without one."""
    drawn, which = others[draw.among(len(others), FACES)], draw.uniform(FACES)
    photo = torch.where(which < 0.4, PLAIN, torch.where(which < 0.7, fronts[:, None], drawn))
    photo[:, LEFT] = torch.where(draw.chance(0.5), photo[:, RIGHT], photo[:, LEFT])
    photo[:, BACK] = torch.where(which[:, BACK] < 0.5, fronts, drawn[:, BACK])
    photo[:, TOP] = torch.where(which[:, TOP] < 0.6, PLAIN, photo[:, TOP])
    colour = (draw.uniform(1, 3) + draw.between(-0.15, 0.15, FACES, 1)).clamp(0.03, 0.97)
    paper = draw.between(0.75, 0.95, 1, 1) - torch.tensor([0.0, 0.02, 0.08], device=shape.device)
    book = shape == SHAPES.index("book")
    pages = torch.tensor([RIGHT, TOP, BOTTOM], device=shape.device)
    photo[:, pages] = torch.where(book[:, None], PLAIN, photo[:, pages])
    colour[:, pages] = torch.where(book[:, None, None], paper, colour[:, pages])
    photo[:, TOP:] = torch.where((shape == SHAPES.index("can"))[:, None], PLAIN, photo[:, TOP:])
    photo[:, BACK] = torch.where(shape == SHAPES.index("rolled"), PLAIN, photo[:, BACK])
    colour[:, BACK] = torch.where((shape == SHAPES.index("rolled"))[:, None], paper[:, 0], colour[:, BACK])
    photo[:, FRONT] = fronts
    return photo, colour
