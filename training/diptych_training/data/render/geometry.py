"""Rays and the things that they meet: analytic intersections, a batch of things of one form at a time.

Points are in the thing's own coordinates (`Things`). Every ray of a batch is intersected, hit or not: `inside` says
how much of its pixel the thing covers.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render.things import BACK, BOTTOM, FACES, FRONT, LEFT, RIGHT, TOP, Things

HALVINGS = 6  # steps towards the point where a ray meets a bumpy surface

Three = tuple[Tensor, Tensor, Tensor]


class Rays(NamedTuple):
    """A camera's `origin` (n, 3) and the `direction` of each pixel, three of (n, S, S)."""

    origin: Tensor
    direction: Three


class Surface(NamedTuple):
    """The first point of each ray: `inside` (n, S, S), the share of the pixel that the thing covers, `slot` (n, S, S),
    a column of `faces` (n, K), `u` and `v` on that face, which spans [-1, 1], and the unit `normal`, three of
    (n, S, S).
    """

    inside: Tensor
    slot: Tensor
    faces: Tensor
    u: Tensor
    v: Tensor
    normal: Three


def cast_rays(turn: Tensor, centre: Tensor, focal: Tensor, distance: Tensor, size: int) -> Rays:
    """Return the rays of pictures of size x size pixels, whose x and y span [-1, 1].

    The camera stands `distance` (n,) before a thing turned by `turn` (n, 3, 3) whose middle it sees at `centre` (n, 2).
    """
    line = (torch.arange(size, device=turn.device) + 0.5) * (2 / size) - 1
    depth = torch.cat([centre / focal[:, None], torch.ones_like(focal)[:, None]], 1) * distance[:, None]
    origin = -(turn.transpose(1, 2) @ depth[..., None])[..., 0]
    columns = (turn[:, 0] / focal[:, None])[:, :, None] * line
    rows = (turn[:, 1] / focal[:, None])[:, :, None] * line + turn[:, 2, :, None]
    x, y, z = (columns[:, :, None, :] + rows[:, :, :, None]).unbind(1)
    return Rays(origin, (x, y, z))


def trace_rays(things: Things, rays: Rays) -> Surface:
    """Intersect the rays with things of one form (`form_of`)."""
    return (_trace_box, _trace_can, _trace_rolled, _trace_relief)[int(form_of(things.shape[:1]))](things, rays)


def form_of(shape: Tensor) -> Tensor:
    """Number the forms: box, can, rolled sheet, relief; shapes of one form are traced together."""
    return torch.tensor([0, 0, 0, 1, 2, 3, 3], device=shape.device)[shape]


def find_cells(shape: Tensor) -> Tensor:
    """The faces on the texture atlas, (n, 6, 4): centre and half size of each, the atlas spanning [-1, 1].

    A box has six faces in three columns and two rows, a can two halves, paper and bags one face.
    """
    thirds = torch.tensor([[c * 2 / 3 - 2 / 3, r - 0.5, 1 / 3, 0.5] for r in range(2) for c in range(3)])
    halves = torch.tensor([[-0.5, 0.0, 0.5, 1.0], [0.5, 0.0, 0.5, 1.0]] + [[OUTSIDE, OUTSIDE, 0, 0]] * 4)
    whole = torch.tensor([[0.0, 0.0, 1.0, 1.0]] + [[OUTSIDE, OUTSIDE, 0, 0]] * (FACES - 1))
    return torch.stack([thirds, halves, whole, whole]).to(shape.device)[form_of(shape)]


def _trace_box(things: Things, rays: Rays) -> Surface:
    extents, (x, y, z) = things.extents, rays.direction
    near, far = [], []
    for axis, along in enumerate((x, y, z)):
        half, start = _spread_rows(extents[:, axis]), _spread_rows(rays.origin[:, axis])
        inverse = along.where(along.abs() > 1e-6, 1e-6).reciprocal_()
        one, other = (-half - start) * inverse, (half - start) * inverse
        near.append(torch.minimum(one, other))
        far.append(torch.maximum(one, other))
    sideways = torch.maximum(near[0], near[1])
    enter = torch.maximum(sideways, near[2])
    leave = torch.minimum(torch.minimum(far[0], far[1]), far[2])
    slot = torch.where(near[2] >= sideways, 2, (near[1] > near[0]).long())
    right, down, away = rays.origin.sign().unbind(1)
    p, q, r = (
        _spread_rows(rays.origin[:, k] / extents[:, k]) + enter * along / _spread_rows(extents[:, k])
        for k, along in enumerate((x, y, z))
    )
    on_x, on_y, on_z = slot == 0, slot == 1, slot == 2
    u = torch.where(on_x, _spread_rows(right) * r, torch.where(on_z, -_spread_rows(away) * p, p))
    v = torch.where(on_y, _spread_rows(down) * r, q)
    faces = torch.stack(
        [torch.where(right > 0, RIGHT, LEFT), torch.where(down < 0, TOP, BOTTOM), torch.where(away < 0, FRONT, BACK)], 1
    )
    normal = (on_x * _spread_rows(right), on_y * _spread_rows(down), on_z * _spread_rows(away))
    return Surface(measure_cover(leave - enter), slot, faces, u, v, normal)


def _trace_can(things: Things, rays: Rays) -> Surface:
    (x, y, z), (ox, oy, oz) = rays.direction, (_spread_rows(o) for o in rays.origin.unbind(1))
    radius, half = _spread_rows(things.extents[:, 0]), _spread_rows(things.extents[:, 1])
    near, far = _meet_cylinder(ox, oz, x, z, radius)
    inverse = y.where(y.abs() > 1e-6, 1e-6).reciprocal_()
    one, other = (-half - oy) * inverse, (half - oy) * inverse
    lid = torch.minimum(one, other)
    enter, leave = torch.maximum(near, lid), torch.minimum(far, torch.maximum(one, other))
    on_lid = lid > near
    p, q, r = ox + enter * x, oy + enter * y, oz + enter * z
    turned = torch.atan2(p, -r) * (2 / torch.pi)  # 0 in front, 1 at the right
    behind = turned.abs() > 1
    slot = torch.where(on_lid, 2, behind.long())
    u = torch.where(behind, turned - 2 * turned.sign(), turned)
    u, v = torch.where(on_lid, p / radius, u), torch.where(on_lid, r / radius, q / half)
    down = rays.origin[:, 1].sign()
    faces = torch.stack([torch.full_like(things.shape, face) for face in (FRONT, BACK, TOP)], 1)
    side = ~on_lid / radius
    return Surface(measure_cover(leave - enter), slot, faces, u, v, (p * side, on_lid * _spread_rows(down), r * side))


def _trace_rolled(things: Things, rays: Rays) -> Surface:
    """A sheet on part of a cylinder: its front outside (side 1) or inside (side -1), plain paper on the other side."""
    lying = things.bend[:, 2] > 0.5
    order = torch.where(
        lying[:, None], torch.tensor([1, 0, 2], device=lying.device), torch.arange(3, device=lying.device)
    )
    ox, oy, oz = (_spread_rows(o) for o in rays.origin.gather(1, order).unbind(1))
    x, y, z = rays.direction
    x, y = torch.where(_spread_rows(lying), y, x), torch.where(_spread_rows(lying), x, y)
    width, half, _ = (_spread_rows(e) for e in things.extents.gather(1, order).unbind(1))
    angle, side = _spread_rows(things.bend[:, 0]), _spread_rows(things.bend[:, 1])
    radius = width / angle
    oz = oz - side * radius
    found = []
    for t in _meet_cylinder(ox, oz, x, z, radius):
        p, q, r = ox + t * x, oy + t * y, oz + t * z
        u, v = torch.atan2(p, -side * r) / angle, q / half
        found.append((1 - torch.maximum(u.abs(), v.abs()), u, v, p / radius, r / radius))
    near, far = _meet_cylinder(ox, oz, x, z, radius)
    met = torch.minimum(torch.maximum(found[0][0], found[1][0]), far - near)
    # The near side also where a pixel's middle just misses it: at a soft edge the far side would shine through.
    first = (found[0][0] > -0.02) | (found[0][0] > found[1][0])
    u, v, p, r = (torch.where(first, one, other) for one, other in zip(found[0][1:], found[1][1:], strict=True))
    outward = torch.where(first, 1.0, -1.0)
    slot = (outward != side).long()
    faces = torch.stack([torch.full_like(things.shape, face) for face in (FRONT, BACK)], 1)
    zero, p, r = torch.zeros_like(p), p * outward, r * outward
    lying = _spread_rows(lying)
    u, v = torch.where(lying, v, u), torch.where(lying, u, v)
    return Surface(measure_cover(met), slot, faces, u, v, (torch.where(lying, zero, p), torch.where(lying, p, zero), r))


def _trace_relief(things: Things, rays: Rays) -> Surface:
    """A sheet or a bag whose front bulges towards the viewer by a height that waves add to."""
    (x, y, z), (ox, oy, oz) = rays.direction, (_spread_rows(o) for o in rays.origin.unbind(1))
    width, half, depth = (_spread_rows(e) for e in things.extents.unbind(1))
    waves = [[_spread_rows(one) for one in wave] for wave in things.bend.view(-1, 2, 4).permute(1, 2, 0)]
    facing = z > 0.12
    inverse = z.clamp(min=0.12).reciprocal_()
    slant_u, slant_v = x * inverse / width, y * inverse / half
    flat_u, flat_v = ox / width - oz * slant_u, oy / half - oz * slant_v
    u, v = flat_u, flat_v
    for _ in range(HALVINGS):
        near_u, near_v = u.clamp(-1.1, 1.1), v.clamp(-1.1, 1.1)
        height = depth * (1 - near_u * near_u) * (1 - near_v * near_v)
        for amplitude, along_u, along_v, phase in waves:
            height = height + amplitude * (along_u * near_u + along_v * near_v + phase).sin_()
        u, v = (u + flat_u - height * slant_u) / 2, (v + flat_v - height * slant_v) / 2
    rise_u, rise_v = -2 * depth * u * (1 - v * v), -2 * depth * v * (1 - u * u)
    for amplitude, along_u, along_v, phase in waves:
        swing = amplitude * (along_u * u + along_v * v + phase).cos_()
        rise_u, rise_v = rise_u + along_u * swing, rise_v + along_v * swing
    rise_u, rise_v = rise_u / width, rise_v / half
    unit = (1 + rise_u * rise_u + rise_v * rise_v).rsqrt_()
    met = (1 - torch.maximum(u.abs(), v.abs())).where(facing, -1)
    faces = torch.full_like(things.shape, FRONT)[:, None]
    return Surface(
        measure_cover(met), torch.zeros_like(u, dtype=torch.long), faces, u, v, (-rise_u * unit, -rise_v * unit, -unit)
    )


def _meet_cylinder(ox: Tensor, oz: Tensor, x: Tensor, z: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """The entry and exit of rays at an upright cylinder; the exit comes before the entry where they miss it."""
    a, b = (x * x + z * z).clamp_(min=1e-6), ox * x + oz * z
    discriminant = b * b - a * (ox * ox + oz * oz - radius * radius)
    root = discriminant.abs().sqrt_() * discriminant.sign()
    return (-b - root) / a, (root - b) / a


def measure_cover(measure: Tensor) -> Tensor:
    """The share of each pixel for which a measure is positive, by its slope from pixel to pixel; (n, S, S)."""
    measure = measure.clamp(-0.5, 0.5)  # a leap far outside is no edge
    slope = torch.empty_like(measure)
    slope[:, :, :-1] = measure.diff(dim=2).abs_()
    slope[:, :, -1] = slope[:, :, -2]
    slope[:, :-1] += measure.diff(dim=1).abs_()
    slope[:, -1] += slope[:, -2]
    return (measure / slope.clamp_(min=1e-6)).add_(0.5).clamp_(0, 1)


def _spread_rows(values: Tensor) -> Tensor:
    return values[:, None, None]
