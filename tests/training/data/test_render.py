from dataclasses import replace

import pytest
import torch
from torch import Generator, Tensor

from diptych_training.data.augment.views import OUTSIDE
from diptych_training.data.render import scene
from diptych_training.data.render.geometry import Surface, cast_rays, trace_rays
from diptych_training.data.render.occluders import BAR, HIDDEN, KINDS, NONE, draw_occluders
from diptych_training.data.render.scene import draw_scenes, render_things, shoot_scenes
from diptych_training.data.render.shading import paint_surface, places_of
from diptych_training.data.render.things import FRONT, PLAIN, SHAPES, Things, draw_lookalikes, draw_things

SIZE = 61
BOXES = ("carton", "book", "pack")


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def photos() -> Tensor:
    coarse = torch.rand(29, 3, 5, 5, generator=seeded(7)) * 255
    return torch.nn.functional.interpolate(coarse, (37, 37), mode="bilinear").byte().permute(0, 2, 3, 1).contiguous()


@pytest.fixture(scope="module")
def things() -> Things:
    return draw_things(torch.arange(23), torch.arange(29), seeded(1))


def of_shape(shape: str, count: int = 8) -> Things:
    """Things of one shape, with photo 0 on every face that may have one, whole, in its own colours."""
    drawn = draw_things(torch.zeros(300, dtype=torch.long), torch.zeros(1, dtype=torch.long), seeded(3))
    (rows,) = torch.where(drawn.shape == SHAPES.index(shape))
    assert len(rows) >= count
    some = drawn[rows[:count]]
    whole = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(count, 6, 4)
    return replace(some, crop=whole, tint=torch.ones(count, 3))


def seen(things: Things, seed: int, size: int = SIZE) -> tuple[Surface, Tensor, Tensor]:
    """The surfaces seen in drawn scenes, where each pixel's ray is (n, S, S, 3), and the camera (n, 3)."""
    scenes = draw_scenes(things, 1, seeded(seed))
    rays = cast_rays(scenes.turn, scenes.centre, scenes.focal, scenes.distance, size)
    return trace_rays(things, rays), torch.stack(rays.direction, -1), rays.origin


def test_the_same_seed_gives_the_same_pictures_and_another_seed_others(things, photos) -> None:
    once, again, other = (render_things(things, photos, photos, SIZE, seeded(seed)) for seed in (4, 4, 5))
    assert torch.equal(once.pictures, again.pictures)
    assert torch.equal(once.places, again.places)
    assert not torch.equal(once.pictures, other.pictures)
    assert once.pictures.shape == (23, 3, SIZE, SIZE)
    assert once.places.shape == (23, SIZE, SIZE, 2)
    assert once.pictures.min() >= 0
    assert once.pictures.max() <= 1
    # Photos larger than things need are reduced.
    large = photos.repeat_interleave(3, 1).repeat_interleave(3, 2)
    assert (render_things(things, large, large, SIZE, seeded(4)).pictures - once.pictures).abs().mean() < 0.03


@pytest.mark.parametrize("shape", SHAPES)
def test_a_texture_painted_with_its_own_coordinates_shows_the_places(shape: str) -> None:
    line = (torch.arange(128) + 0.5) / 128 * 255
    own = torch.stack(torch.meshgrid(line, line, indexing="xy"), -1)
    texture = torch.cat([own, torch.full((128, 128, 1), 77.0)], -1).round().byte()[None]
    things = of_shape(shape)
    surface, _, _ = seen(things, 5)
    places, colours = places_of(things, surface), paint_surface(things, surface, texture)
    on = places[..., 0] < OUTSIDE
    assert on.float().mean() > 0.05
    assert places[on].abs().max() <= 1
    columns, rows = (3, 2) if shape in BOXES else (2, 1) if shape == "can" else (1, 1)
    # Of the atlas, the part that is the pixel's face, stretched to [-1, 1].
    within = [((places[..., k] + 1) / 2 * n) % 1 * 2 - 1 for k, n in enumerate((columns, rows))]
    for k in range(2):
        assert (colours[:, k][on] * 2 - 1 - within[k][on]).abs().max() < 0.02
    assert (colours[:, 2][on] - 77 / 255).abs().max() < 1e-4


def point_of(things: Things, surface: Surface) -> Tensor:
    """The point (n, S, S, 3) of the thing at the face and the u and v of each pixel, from the shape's own equation."""
    face = surface.faces.gather(1, surface.slot.flatten(1)).view(surface.slot.shape)
    u, v, n = surface.u, surface.v, len(things)
    a, b, c = things.extents.view(n, 3, 1, 1).unbind(1)
    shape = SHAPES[int(things.shape[0])]
    one = torch.ones_like(u)
    if shape in BOXES:
        corners = [(u, v, -one), (-u, v, one), (one, v, u), (-one, v, -u), (u, -one, -v), (u, one, v)]
        points = torch.stack([torch.stack([x * a, y * b, z * c], -1) for x, y, z in corners], 1)
        return points[torch.arange(n)[:, None, None], face, torch.arange(SIZE)[:, None], torch.arange(SIZE)]
    if shape == "can":
        angle = u * torch.pi / 2 + torch.where(face == 1, torch.pi, 0.0)
        side = torch.stack([a * angle.sin(), b * v, -a * angle.cos()], -1)
        return side.where((face < 2)[..., None], torch.nan)
    if shape == "rolled":
        angle, sign, lying = things.bend[:, :3, None, None].unbind(1)
        along, across = torch.where(lying > 0, v, u), torch.where(lying > 0, u, v)
        radius = torch.where(lying > 0, b, a) / angle
        x, y = radius * (along * angle).sin(), torch.where(lying > 0, a, b) * across
        z = sign * radius * (1 - (along * angle).cos())
        return torch.stack([torch.where(lying > 0, y, x), torch.where(lying > 0, x, y), z], -1)
    rise = c * (1 - u**2) * (1 - v**2)
    for wave in things.bend.view(n, 2, 4).unbind(1):
        high, f, g, phase = wave.view(n, 4, 1, 1).unbind(1)
        rise = rise + high * torch.sin(f * u + g * v + phase)
    return torch.stack([a * u, b * v, -rise], -1)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_point_at_a_pixels_place_lies_on_the_pixels_ray(shape: str) -> None:
    things = of_shape(shape)
    surface, direction, origin = seen(things, 6)
    towards = point_of(things, surface) - origin[:, None, None]
    apart = 1 - torch.cosine_similarity(towards, direction, dim=-1)
    on = (surface.inside >= 0.5) & ~apart.isnan()
    assert on.float().mean() > 0.05
    # Bumpy surfaces are met by a fixed number of steps: what is seen very aslant may be off by a pixel or two.
    assert apart[on].quantile(0.99) < (2e-4 if shape in ("waved", "bag") else 1e-5)


def test_pixels_off_the_thing_and_hidden_ones_have_no_place(things, photos) -> None:
    scenes = draw_scenes(things, len(photos), seeded(2))
    free = replace(draw_occluders(len(things), len(photos), seeded(2)), kind=torch.full((len(things),), NONE))
    bar = replace(free, kind=torch.full_like(free.kind, BAR), centre=torch.full_like(free.centre, 0.2))
    bare, crossed = (shoot_scenes(things, scenes, some, photos, photos, SIZE) for some in (free, bar))
    black = shoot_scenes(things, scenes, free, torch.zeros_like(photos), photos, SIZE)
    off = bare.places[..., 0] == OUTSIDE
    assert (off == (bare.places[..., 1] == OUTSIDE)).all()
    assert 0.2 < off.float().mean() < 0.95
    # A pixel without a place does not show what is printed on the thing.
    changed = (bare.pictures - black.pictures).abs().amax(1)
    assert changed[~off].mean() > 20 * changed[off].mean()
    hidden = (bare.pictures != crossed.pictures).any(1)
    assert hidden.any()
    assert torch.equal(bare.places[~hidden], crossed.places[~hidden])
    taken = (bare.places != crossed.places).any(-1)
    assert taken.any()
    assert (crossed.places[taken] == OUTSIDE).all()


def test_no_occluder_hides_more_than_half_of_a_thing(photos) -> None:
    things = draw_things(torch.arange(200) % 29, torch.arange(29), seeded(1))
    scenes, occluders = draw_scenes(things, 29, seeded(3)), draw_occluders(200, 29, seeded(3))
    assert set(occluders.kind.tolist()) == set(KINDS)
    free = replace(occluders, kind=torch.zeros_like(occluders.kind))
    before, after = (
        (shoot_scenes(things, scenes, some, photos, photos, 31).places[..., 0] < OUTSIDE).sum((1, 2)).float()
        for some in (free, occluders)
    )
    # Soft edges, and faces that are plain, count a little differently.
    assert ((after >= (1 - HIDDEN) * 0.8 * before) | (things.photo[:, 1:] == PLAIN).any(1)).all()
    assert (after < before).any()


def test_a_picture_does_not_depend_on_those_rendered_with_it(things, photos, monkeypatch) -> None:
    scenes, occluders = draw_scenes(things, 29, seeded(2)), draw_occluders(23, 29, seeded(2))
    together = shoot_scenes(things, scenes, occluders, photos, photos, SIZE)
    monkeypatch.setattr(scene, "CHUNK", 1)
    rows = torch.tensor([19, 3, 11, 2])
    alone = shoot_scenes(things[rows], scenes[rows], occluders[rows], photos, photos, SIZE)
    assert torch.allclose(together.pictures[rows], alone.pictures, atol=1e-4)
    assert torch.allclose(together.places[rows], alone.places, atol=1e-4)


def test_a_lookalike_has_the_shape_of_its_thing_and_another_look(photos) -> None:
    things = draw_things(torch.arange(29).repeat(5), torch.arange(29), seeded(1))
    others = draw_lookalikes(things, torch.arange(29), seeded(2))
    for name in ("shape", "extents", "bend", "colour"):
        assert torch.equal(getattr(things, name), getattr(others, name))
    changed = torch.stack(
        [(getattr(things, name) != getattr(others, name)).flatten(1).any(1) for name in ("photo", "tint", "crop")]
    )
    assert (changed.sum(0) == 1).all()
    assert changed.any(1).all()
    assert torch.equal(changed[0], things.photo[:, FRONT] != others.photo[:, FRONT])
    scenes, occluders = draw_scenes(things, 29, seeded(2)), draw_occluders(len(things), 29, seeded(2))
    shown, instead = (shoot_scenes(some, scenes, occluders, photos, photos, 31).pictures for some in (things, others))
    assert ((shown - instead).abs().mean((1, 2, 3)) > 1e-4).all()


def test_things_come_in_families_of_one_shape_and_all_shapes_are_drawn() -> None:
    things = draw_things(torch.zeros(400, dtype=torch.long), torch.arange(3), seeded(0))
    assert (things.shape.view(-1, 4) == things.shape.view(-1, 4)[:, :1]).all()
    assert set(things.shape.tolist()) == set(range(len(SHAPES)))
    assert torch.allclose(things.extents.norm(dim=1), torch.ones(400))
