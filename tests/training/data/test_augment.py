from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from diptych_training.data.augment import (
    HARD,
    HEAVY,
    MILD,
    Strength,
    Views,
    draw_layers,
    draw_sprites,
    edit_photos,
    make_identity_places,
    view_unedited,
)
from diptych_training.data.augment.engine import EDITS, EXCLUSIVE, choose_edits
from diptych_training.data.augment.geometry import GEOMETRY
from diptych_training.data.augment.pixels import quantise_jpeg, save_as_files

MOVES = [*GEOMETRY, "caption", "overlay", "stripes", "paste", "collage", "screenshot"]


def strength_of(**numbers: Any) -> Strength:
    """A strength at which only the edits named here happen."""
    given: dict[str, Any] = {field.name: 0 for field in fields(Strength)} | {"reach": 1.0} | numbers
    return Strength(**given)


def only(*names: str) -> Strength:
    """A strength at which each view gets all of these edits, if they do not exclude each other."""
    return strength_of(area=0.3, most=len(names), **dict.fromkeys(names, 1.0))


NOTHING = strength_of(area=1.0)


@pytest.fixture(scope="module")
def photos(photo) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(photo(seed, (44, 44))) for seed in range(7)]))


@pytest.fixture(scope="module")
def sprites() -> Tensor:
    return draw_sprites(16, 0)


def views(photos: Tensor, sprites: Tensor, strength: Strength, seed: int = 0, **options: Any) -> Views:
    return edit_photos(photos, 32, strength, torch.Generator().manual_seed(seed), sprites, **options)


def test_overlays_are_those_of_their_seed_and_belong_to_the_caller() -> None:
    first, kept = draw_sprites(3, 7, 32), draw_sprites(3, 7, 32)
    assert first.shape == (3, 4, 32, 32)
    assert not first.equal(draw_sprites(3, 8, 32))
    first.zero_()
    assert draw_sprites(3, 7, 32).equal(kept)
    layers, again = draw_layers(11, 3), draw_layers(11, 3)
    assert all(torch.equal(one, other) for one, other in zip(layers, again, strict=True))
    assert layers.bars.shape == layers.titles.shape == layers.marks.shape == (11, 4, 60, 240)
    assert not torch.equal(layers.pages, draw_layers(11, 4).pages)


@pytest.mark.parametrize("strength", [HEAVY, HARD])
def test_views_are_those_of_their_seed_in_range_and_nothing_given_is_changed(
    strength: Strength, photos: Tensor, sprites: Tensor
) -> None:
    given = photos.clone(), sprites.clone()
    for seed in range(9):
        (pictures, places), again = (views(photos, sprites, strength, seed) for _ in range(2))
        assert pictures.shape == (7, 3, 32, 32)
        assert places.shape == (7, 32, 32, 2)
        assert 0 <= pictures.min() < pictures.max() <= 1
        assert places.isfinite().all()
        assert torch.equal(pictures, again.pictures)
        assert torch.equal(places, again.places)
    assert not torch.equal(*(views(photos, sprites, strength, seed).pictures for seed in (0, 1)))
    assert torch.equal(photos, given[0])
    assert torch.equal(sprites, given[1])


@pytest.mark.parametrize("strength", [NOTHING, strength_of(most=3)])
def test_no_edit_at_all_is_the_photo_as_it_is_served(strength: Strength, photos: Tensor, sprites: Tensor) -> None:
    # One resampling is not anti-aliased as the other is; otherwise they are the same picture.
    pictures, places = views(photos, sprites, strength)
    assert (pictures - view_unedited(photos, 32)).abs().mean() < 0.03
    assert torch.allclose(places, make_identity_places(7, 32), atol=1e-6)


def test_a_heavy_edit_changes_more_than_a_mild_one_and_a_hard_one_more_still(photos: Tensor, sprites: Tensor) -> None:
    shown = view_unedited(photos, 32)
    mild, heavy, hard = (
        sum((views(photos, sprites, strength, seed).pictures - shown).abs().mean() for seed in range(8))
        for strength in (MILD, HEAVY, HARD)
    )
    assert heavy > 1.5 * mild
    assert hard > heavy


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_changes_the_views_it_was_chosen_for_and_no_others(name: str, photos: Tensor, sprites: Tensor) -> None:
    nothing = views(photos, sprites, NOTHING).pictures
    changes = (views(photos, sprites, only(name)).pictures - nothing).abs().amax((1, 2, 3))
    assert (changes > 0.01).all()
    # The other edit there is to choose, a flip, leaves the colours of the view it turns as they are.
    partner = "flip" if name != "flip" else "invert"
    strength = strength_of(**{"area": 0.3, "most": 1, name: 1.0, partner: 1.0})
    chosen = choose_edits(7, strength, torch.Generator().manual_seed(2))
    assert chosen[name].any()
    assert (chosen[name] ^ chosen[partner]).all()
    pictures = views(photos, sprites, strength, seed=2).pictures
    candidates = [nothing.flip(3), nothing.flip(2)] if partner == "flip" else [1 - nothing]
    left = torch.stack([(pictures - other).abs().amax((1, 2, 3)) for other in candidates]).amin(0)
    assert (left[chosen[partner]] < 1e-3).all()


def test_a_view_gets_from_one_to_six_edits_three_on_average_and_none_that_exclude_each_other() -> None:
    chosen = choose_edits(3001, HARD, torch.Generator().manual_seed(0))
    counts = torch.stack(list(chosen.values())).sum(0)
    assert set(counts.tolist()) == {1, 2, 3, 4, 5, 6}
    assert float(counts.float().mean()) == pytest.approx(3, abs=0.1)
    assert all(chosen[name].any() for name in EDITS)
    for group in EXCLUSIVE:
        assert torch.stack([chosen[name] for name in group]).sum(0).max() == 1


def test_without_a_count_each_edit_has_its_own_chance() -> None:
    chosen = choose_edits(3001, HEAVY, torch.Generator().manual_seed(0))
    for name in EDITS:
        assert float(chosen[name].float().mean()) == pytest.approx(getattr(HEAVY, name), abs=0.03)


def coordinates(count: int, height: int) -> Tensor:
    """Photos whose red is x and whose green is y; blue is 128, which no overlay or ground is by chance."""
    line = ((torch.arange(height) + 0.5) * (255 / height)).round().byte()
    x, y = line.expand(height, height), line.unsqueeze(1).expand(height, height)
    return torch.stack([x, y, torch.full_like(x, 128)], -1).expand(count, -1, -1, -1)


def edited_coordinates(*names: str, seed: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    """Pictures and places, and which pixels show a place in the photo and have other colours than that place."""
    pictures, places = edit_photos(
        coordinates(23, 176), 128, only(*names), torch.Generator().manual_seed(seed), draw_sprites(16, 0),
        backgrounds=torch.full((3, 176, 176, 3), 255, dtype=torch.uint8), layers=draw_layers(8, 1),
    )  # fmt: skip
    colours = (places + 1).mul(0.5).permute(0, 3, 1, 2)
    return pictures, places, ((pictures[:, :2] - colours).abs().amax(1) > 0.06) & (places.abs() <= 1).all(-1)


@pytest.mark.parametrize("name", MOVES)
def test_pixels_show_the_place_in_the_photo_that_views_say(name: str) -> None:
    pictures, places, wrong = edited_coordinates(name)
    shown = (places.abs() <= 1).all(-1)
    assert 0.05 < shown.float().mean() <= 1
    # Thin letters and faint stripes are over places that are still the photo's, and stay inside.
    allowed = {"caption": 0.04, "overlay": 0.08, "stripes": 0.5}.get(name, 0.01)
    assert wrong.sum() <= allowed * shown.sum()
    photo_like = (pictures[:, 2] - 128 / 255).abs() < 0.004
    if name in {"crop", "stretch", "flip"}:
        assert shown.all()
    elif name in {"paste", "collage", "screenshot"}:
        assert (photo_like == shown).float().mean() > 0.98
    else:
        # Some of the ground around a photo is the photo itself, blurred, which is outside too.
        assert not shown.all()
        assert (photo_like | ~shown).float().mean() > (0.98 if name in GEOMETRY else 0.5)


def test_a_photographed_screen_brightens_from_side_to_side_as_its_places_say() -> None:
    # Its colours are changed, by a cast, a moire and a glare: so their order is compared.
    for picture, place in zip(*edited_coordinates("photograph")[:2], strict=True):
        shown = (place.abs() <= 1).all(-1)
        assert 0.3 < shown.float().mean() <= 1
        for axis in (0, 1):
            together = torch.corrcoef(torch.stack([picture[axis][shown], place[..., axis][shown]]))
            assert together[0, 1] > 0.7


def test_places_stay_right_through_several_moves_one_after_the_other() -> None:
    for seed in range(3):
        _, places, wrong = edited_coordinates("crop", "rotate", "perspective", "flip", "paste", seed=seed)
        shown = (places.abs() <= 1).all(-1)
        assert shown.any()
        assert wrong.sum() <= 0.03 * shown.sum()


def test_a_view_never_stands_on_its_own_photo_and_only_on_given_backgrounds_where_there_are_some(
    sprites: Tensor,
) -> None:
    greys = torch.arange(20, 27 * 9, 9, dtype=torch.uint8)[:24].view(-1, 1, 1, 1).expand(-1, 44, 44, 3)
    for name in ("paste", "collage"):
        pictures, places = views(greys, sprites, only(name))
        outside = (places.abs() > 1).any(-1)
        for view, mask, own in zip(pictures, outside, view_unedited(greys, 32)[:, 0, 0, 0], strict=True):
            assert ((view[0][mask] - own).abs() > 0.02).all()
    red = torch.tensor([255, 0, 0], dtype=torch.uint8).expand(2, 44, 44, 3)
    pictures, places = views(greys, sprites, only("paste"), backgrounds=red)
    outside = (places.abs() > 1).any(-1)
    assert (pictures[:, 0][outside] > 0.99).all()
    assert (pictures[:, 2][outside] < 0.01).all()


def test_both_ways_to_compress_give_nearly_the_same_picture(photos: Tensor) -> None:
    shown, qualities = view_unedited(photos, 32), torch.full((len(photos),), 40)
    here, there = save_as_files(shown, qualities), quantise_jpeg(shown, qualities)
    assert (here - there).abs().mean() < 0.4 * (here - shown).abs().mean()
