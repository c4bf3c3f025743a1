"""Pairs of rendered things: edited copies of a picture of one, and the same thing from another side or a moment later,
or another thing in its place.

What is another picture of the same thing is no copy, though it may be laid over the first: what stands out of the plane
moves otherwise, light falls otherwise, and the ground stays where it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from diptych_runtime.closer_look.verification import describe_pixels
from diptych_studies.aligned.pairs import (
    SQUARE,
    SQUARES,
    AlignedPair,
    edit_as_files,
    make_pair,
    resize_photos,
    training_photos,
)
from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render.occluders import draw_occluders
from diptych_training.data.render.scene import Scenes, draw_scenes, shoot_scenes
from diptych_training.data.render.things import Things, draw_lookalikes, draw_things

THINGS = "things"
SIDE = 320  # pixels of a rendered picture
PRINTED = 200  # photos of an archive that are printed on things
GROUND = 0.15  # the share of a picture beside the thing, without which a flat thing seen anew is like a copy
TURN, MOVE, BRIGHTER = (4.0, 16.0), 0.15, 0.25  # degrees, shares of half a side and of the light: a moment's change


def thing_pairs(first: int, stop: int, photos: np.ndarray, seed: int) -> Iterator[AlignedPair]:
    """The pairs of the things from one number up to another, printed with photos uint8 (m, S, S, 3)."""
    rng, generator = np.random.default_rng([seed, 3, first]), torch.Generator().manual_seed(seed * 1_000_003 + first)
    textures, others = torch.from_numpy(photos), torch.arange(len(photos))
    things = draw_things(torch.from_numpy(rng.integers(len(photos), size=stop - first)), others, generator)
    scenes = draw_scenes(things, len(photos), generator)
    pictures, grounds = _render_pictures(things, scenes, textures, generator)
    sides, _ = _render_pictures(things, draw_scenes(things, len(photos), generator), textures, generator)
    laters, _ = _render_pictures(things, _a_moment_later(scenes, generator), textures, generator)
    lookalikes, _ = _render_pictures(
        draw_lookalikes(things, others, generator), _a_moment_later(scenes, generator), textures, generator
    )
    for place, ground in enumerate(grounds):
        picture, side, later, other = (describe_pixels(shown[place]) for shown in (pictures, sides, laters, lookalikes))
        size = int(rng.choice(SQUARES))
        copies = [describe_pixels(edit_as_files(pictures[place : place + 1], size, rng, seed)[0]) for _ in range(2)]
        for copy in copies:
            yield from make_pair(picture, copy, True, THINGS)
        if ground >= GROUND:
            yield from make_pair(side, copies[0], False, THINGS)
            yield from make_pair(later, copies[1], False, THINGS)
            yield from make_pair(picture, later, False, THINGS)
        yield from make_pair(other, copies[0], False, THINGS)
        yield from make_pair(picture, other, False, THINGS)


def printed_photos(archives: tuple[str, ...], seed: int, folder: Path) -> np.ndarray:
    """Training photos of archives, as many of each at most as things are printed with, uint8 (m, S, S, 3)."""
    rng = np.random.default_rng([seed, 4])
    return resize_photos(
        [photo for archive in archives for photo in training_photos(archive, PRINTED, rng, folder)], SQUARE
    )


def _render_pictures(
    things: Things, scenes: Scenes, textures: Tensor, generator: Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A picture of each thing uint8 (n, S, S, 3), and the share of it that shows the ground."""
    occluders = draw_occluders(len(things), len(textures), generator)
    views = shoot_scenes(things, scenes, occluders, textures, textures, SIDE)
    pictures = (views.pictures.clamp(0, 1) * 255).round().byte().permute(0, 2, 3, 1).contiguous()
    return pictures.numpy(), (views.places == OUTSIDE).all(-1).float().mean((1, 2)).numpy()


def _a_moment_later(scenes: Scenes, generator: Generator) -> Scenes:
    """Each scene with its thing turned and moved a little, in a little other light, before the same ground."""
    count = len(scenes)

    def between(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(count, *shape, generator=generator) * (high - low) + low

    axis = F.normalize(between(-1, 1, 3), dim=-1) * torch.tensor([1.0, 1.0, 0.3])
    turn = torch.linalg.matrix_exp(_cross_matrices(F.normalize(axis, dim=-1) * between(*TURN, 1) * math.pi / 180))
    return replace(
        scenes,
        turn=turn @ scenes.turn,
        centre=scenes.centre + between(-MOVE, MOVE, 2),
        strength=scenes.strength * (1 + between(-BRIGHTER, BRIGHTER, 1)),
    )


def _cross_matrices(axes: Tensor) -> Tensor:
    """The matrices (n, 3, 3) that take the cross product with axes (n, 3)."""
    x, y, z = axes.unbind(1)
    zero = torch.zeros_like(x)
    return torch.stack([torch.stack(row, -1) for row in ((zero, -z, y), (z, zero, -x), (-y, x, zero))], 1)
