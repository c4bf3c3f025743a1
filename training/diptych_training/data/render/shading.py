"""The colours of surfaces: what is printed at each point, and how it is lit."""

import torch
import torch.nn.functional as F
from torch import Tensor

from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render.geometry import Rays, Surface, find_cells
from diptych_training.data.render.things import PLAIN, Things


def paint_surface(things: Things, surface: Surface, textures: Tensor) -> Tensor:
    """The colours (n, 3, S, S) printed on a surface; textures are uint8 (m, h, h, 3)."""
    slots, side = surface.faces.shape[1], textures.shape[1]
    photo = things.photo.gather(1, surface.faces)
    colour = things.colour.gather(1, surface.faces[..., None].expand(-1, -1, 3))
    plain = (photo == PLAIN)[..., None]
    scale, base = things.tint[:, None] / 255 * ~plain, colour * plain
    strip = textures[photo.clamp(min=0)].permute(0, 4, 2, 1, 3).float()  # (n, 3, h, K, h): faces side by side
    scale, base = (values.transpose(1, 2)[:, :, None, :, None] for values in (scale, base))
    strip = strip.contiguous().mul_(scale).add_(base).flatten(3)
    crop = things.crop.gather(1, surface.faces[..., None].expand(-1, -1, 4))
    x, y, width, height = (_pick_slot(values, surface.slot) for values in crop.unbind(2))
    within = 1 - 1 / side
    x = (x + surface.u.clamp(-1, 1) * width).clamp_(-within, within)
    y = y + surface.v.clamp(-1, 1) * height
    grid = torch.stack([(x + 2 * surface.slot + 1) / slots - 1, y], -1)
    return F.grid_sample(strip, grid, padding_mode="border", align_corners=False)


def places_of(things: Things, surface: Surface) -> Tensor:
    """The place (n, S, S, 2) of each pixel on the thing's texture atlas; `OUTSIDE` where no photo is printed."""
    layout = find_cells(things.shape).gather(1, surface.faces[..., None].expand(-1, -1, 4))
    x, y, width, height = (_pick_slot(values, surface.slot) for values in layout.unbind(2))
    places = torch.stack([x + surface.u * width, y + surface.v * height], -1)
    printed = _pick_slot(things.photo.gather(1, surface.faces) != PLAIN, surface.slot)
    shown = printed & (surface.inside >= 0.5) & (surface.u.abs() <= 1) & (surface.v.abs() <= 1)
    return places.masked_fill_(~shown[..., None], OUTSIDE)


def light_surface(
    printed: Tensor, surface: Surface, rays: Rays, towards: Tensor, strength: Tensor, ambient: Tensor, gloss: Tensor
) -> Tensor:
    """Light colours (n, 3, S, S): ambient light, two lights with Lambert's cosine, a highlight of the first.

    `towards` (n, 2, 3) points at the lights, in the thing's coordinates; `strength` (n, 2), `ambient` (n, 3), `gloss`
    (n, 2) how bright and how small the highlight is.
    """
    first, second = (_project_onto(surface.normal, towards[:, k]) for k in range(2))
    strong, weak = (values[:, None, None] for values in strength.unbind(1))
    lambert = first.clamp(min=0) * strong + second.clamp(min=0) * weak
    norm = sum((along * along for along in rays.direction), torch.zeros(())).rsqrt_()
    facing = sum((a * b for a, b in zip(surface.normal, rays.direction, strict=True)), torch.zeros(()))
    mirrored = (_project_onto(rays.direction, towards[:, 0]) - 2 * first * facing) * norm
    bright, small = (values[:, None, None] for values in gloss.unbind(1))
    highlight = ((mirrored - 1).clamp_(max=0) * small).exp_() * bright * (first > 0)
    lit = printed * (ambient[:, :, None, None] + lambert[:, None])
    return lit.add_(highlight[:, None]).clamp_(0, 1)


def soften_seams(lit: Tensor, surface: Surface) -> Tensor:
    """Average pictures (n, 3, S, S) over the pixels along the edges where two faces meet, which would be jagged."""
    if surface.faces.shape[1] == 1:
        return lit
    seam = torch.zeros_like(surface.slot, dtype=torch.bool)
    for axis in (1, 2):
        length = seam.shape[axis] - 1
        leap = surface.slot.diff(dim=axis) != 0
        seam.narrow(axis, 0, length).logical_or_(leap)
        seam.narrow(axis, 1, length).logical_or_(leap)
    return torch.where(seam[:, None], F.avg_pool2d(lit, 3, 1, 1, count_include_pad=False), lit)


def _project_onto(vectors: tuple[Tensor, Tensor, Tensor], direction: Tensor) -> Tensor:
    x, y, z = (values[:, None, None] for values in direction.unbind(1))
    return vectors[0] * x + vectors[1] * y + vectors[2] * z


def _pick_slot(values: Tensor, slot: Tensor) -> Tensor:
    """The value (n, K) of each pixel's slot (n, S, S)."""
    if values.shape[1] == 1:
        return values[:, :, None]
    return values.gather(1, slot.flatten(1)).view(slot.shape)
