"""Scenes: where a thing stands, how it is lit, what is behind it and in front of it; and the pictures taken of them."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_training.data.augment.geometry import project_pixels, stack_matrices
from diptych_training.data.augment.views import OUTSIDE, Draw, Views, view_unedited
from diptych_training.data.render.geometry import cast_rays, form_of, trace_rays
from diptych_training.data.render.occluders import Occluders, draw_occluders, occlude_things
from diptych_training.data.render.shading import light_surface, paint_surface, places_of, soften_seams
from diptych_training.data.render.things import Rows, Things

CHUNK = 200_000  # pixels rendered at a time: what fits the cache of a core
GROUNDS = (PHOTO, BLURRED, GRADIENT) = range(3)
SHARES = (0.4, 0.25, 0.35)  # of the grounds


@dataclass(frozen=True)
class Scenes(Rows):
    """n scenes: `turn` (n, 3, 3) turns the thing, `centre` (n, 2) is where its middle is seen, `focal` (n,) the focal
    length (half a picture's side is 1), `distance` (n,) the camera's.

    `towards` (n, 2, 3), `strength` (n, 2), `ambient` (n, 3) and `gloss` (n, 2) are the light; `ground` (n,) one of
    `GROUNDS`, `behind` (n,) its photo, `crop` (n, 4) what is seen of it, `corners` (n, 3, 2, 2) a gradient's colours;
    `shadow` (n, 3) its darkness and where it falls.
    """

    turn: Tensor
    centre: Tensor
    focal: Tensor
    distance: Tensor
    towards: Tensor
    strength: Tensor
    ambient: Tensor
    gloss: Tensor
    ground: Tensor
    behind: Tensor
    crop: Tensor
    corners: Tensor
    shadow: Tensor


def texture_side(size: int) -> int:
    """The side at which photos are printed on things seen in pictures of `size` pixels: finer, they would flicker."""
    return max(8, round(0.75 * size))


def render_things(things: Things, textures: Tensor, backgrounds: Tensor, size: int, generator: Generator) -> Views:
    """Take a picture of each thing from a drawn side, in a drawn scene.

    `textures` and `backgrounds` are photos uint8 (m, H, H, 3), reduced to `texture_side(size)` where they are larger.
    The places are those on the thing's texture atlas, which spans [-1, 1], and `OUTSIDE` off the thing.
    """
    scenes = draw_scenes(things, len(backgrounds), generator)
    occluders = draw_occluders(len(things), len(backgrounds), generator)
    return shoot_scenes(things, scenes, occluders, textures, backgrounds, size)


def shoot_scenes(
    things: Things, scenes: Scenes, occluders: Occluders, textures: Tensor, backgrounds: Tensor, size: int
) -> Views:
    """Take the picture of each thing in its scene; nothing is drawn here."""
    same = textures is backgrounds
    textures = _reduce_photos(textures, size)
    backgrounds = textures if same else _reduce_photos(backgrounds, size)
    pictures = torch.empty(len(things), 3, size, size, device=textures.device)
    places = torch.empty(len(things), size, size, 2, device=textures.device)
    form = form_of(things.shape)
    for kind in form.unique():
        (alike,) = torch.where(form == kind)
        for rows in alike.split(max(1, CHUNK // size**2)):
            views = _shoot_parts(things[rows], scenes[rows], occluders[rows], textures, backgrounds, size)
            pictures.index_copy_(0, rows, views.pictures)
            places.index_copy_(0, rows, views.places)
    return Views(pictures, places)


def _shoot_parts(
    things: Things, scenes: Scenes, occluders: Occluders, textures: Tensor, backgrounds: Tensor, size: int
) -> Views:
    rays = cast_rays(scenes.turn, scenes.centre, scenes.focal, scenes.distance, size)
    surface = trace_rays(things, rays)
    printed = paint_surface(things, surface, textures)
    towards = scenes.towards @ scenes.turn  # into the thing's coordinates
    lit = light_surface(printed, surface, rays, towards, scenes.strength, scenes.ambient, scenes.gloss)
    lit = soften_seams(lit, surface)
    ground = _cast_shadow(_draw_ground(scenes, backgrounds, size), surface.inside, scenes.shadow)
    pictures = ground.lerp_(lit, surface.inside[:, None])
    pictures, hidden = occlude_things(pictures, surface.inside, occluders, backgrounds)
    places = places_of(things, surface)
    return Views(pictures, places.masked_fill_(hidden[..., None], OUTSIDE))


def draw_scenes(things: Things, backgrounds: int, generator: Generator) -> Scenes:
    """Draw a scene for each thing, with photos of so many behind them."""
    draw, device = Draw(len(things), generator), generator.device
    between, degrees = draw.between, math.pi / 180
    upright = form_of(things.shape) < 2
    # Paper and bags have no sides: they are turned less.
    yaw = between(-70, 70) * torch.where(upright, 1.0, 0.8) * degrees
    turn = _turn_matrices(between(-20, 20) * degrees, between(-25, 35) * degrees, yaw)
    focal = between(math.log(1.6), math.log(6)).exp()
    fill = between(0.75, 1.4)
    free = (1 - fill).clamp(min=0.12)[:, None]
    towards = torch.stack([between(-1, 1, 2), between(-1.2, 0.3, 2), between(-1.5, -0.3, 2)], -1)
    ground = torch.bucketize(draw.uniform(), torch.tensor(SHARES, device=device).cumsum(0)[:-1])
    half = between(0.4, 1, 2)
    colour = between(0, 1, 1, 1, 1).lerp(between(0, 1, 3, 1, 1), between(0, 1, 1, 1, 1) ** 2)
    corners = (colour + between(-0.25, 0.25, 1, 2, 2)).clamp(0, 1)
    return Scenes(
        turn=turn,
        centre=between(-1, 1, 2) * free,
        focal=focal,
        distance=focal / fill,
        towards=F.normalize(towards, dim=-1),
        strength=torch.stack([between(0.1, 0.6), between(0, 0.25)], 1),
        ambient=between(0.35, 0.7, 1) * between(0.92, 1.08, 3),
        gloss=torch.stack([between(-0.3, 0.5).clamp(min=0), between(math.log(8), math.log(120)).exp()], 1),
        ground=ground,
        behind=draw.among(backgrounds),
        crop=torch.cat([between(-1, 1, 2) * (1 - half), half], 1),
        corners=corners,
        shadow=torch.stack([between(-0.4, 0.7).clamp(min=0), between(-0.1, 0.1), between(0.02, 0.18)], 1),
    )


def _turn_matrices(roll: Tensor, pitch: Tensor, yaw: Tensor) -> Tensor:
    """Rotations (n, 3, 3): about the vertical by `yaw`, then tipped by `pitch`, then in the picture by `roll`."""
    about_y = stack_matrices((yaw.cos(), 0, yaw.sin()), (0, 1, 0), (-yaw.sin(), 0, yaw.cos()))
    about_x = stack_matrices((1, 0, 0), (0, pitch.cos(), -pitch.sin()), (0, pitch.sin(), pitch.cos()))
    about_z = stack_matrices((roll.cos(), -roll.sin(), 0), (roll.sin(), roll.cos(), 0))
    return about_z @ about_x @ about_y


def _draw_ground(scenes: Scenes, backgrounds: Tensor, size: int) -> Tensor:
    """The background behind the things, (n, 3, S, S)."""
    grounds = F.interpolate(scenes.corners, (size, size), mode="bilinear", align_corners=True)
    for kind in (PHOTO, BLURRED):
        (rows,) = torch.where(scenes.ground == kind)
        if not len(rows):
            continue
        photos = backgrounds[scenes.behind[rows]].permute(0, 3, 1, 2).float() / 255
        if kind == BLURRED:
            photos = F.interpolate(photos, (14, 14), mode="area")
        x, y, width, height = scenes.crop[rows].unbind(1)
        grid = project_pixels(stack_matrices((width, 0, x), (0, height, y)), size)
        shown = F.grid_sample(photos, grid, padding_mode="border", align_corners=False)
        grounds.index_copy_(0, rows, shown)
    return grounds


def _cast_shadow(ground: Tensor, inside: Tensor, shadow: Tensor) -> Tensor:
    """Darken the ground by a blurred silhouette of the thing, moved a little."""
    dark, x, y = shadow.unbind(1)
    side = min(20, ground.shape[-1])
    small = F.interpolate(inside[:, None], (side, side), mode="area")
    grid = project_pixels(stack_matrices((1, 0, -x), (0, 1, -y)), side)
    moved = F.grid_sample(F.avg_pool2d(small, 3, 1, 1), grid, align_corners=False)
    shade = F.interpolate(1 - moved * dark[:, None, None, None], ground.shape[2:], mode="bilinear")
    return ground * shade


def _reduce_photos(photos: Tensor, size: int) -> Tensor:
    side = texture_side(size)
    if photos.shape[1] <= side:
        return photos
    parts = [(view_unedited(part, side) * 255).round_().clamp_(0, 255).byte() for part in photos.split(128)]
    return torch.cat(parts).permute(0, 2, 3, 1).contiguous()
