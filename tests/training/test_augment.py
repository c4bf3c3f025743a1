import pytest
import torch

from diptych_training.augment import HEAVY, MILD, Strength, draw_sprites, edit, plain, unmoved
from diptych_training.augment.compression import compressed_on_accelerator, compressed_on_cpu

NOTHING = Strength(1.0, *[0.0] * 11)


@pytest.fixture(scope="module")
def photos(photo) -> torch.Tensor:
    import numpy as np

    return torch.from_numpy(np.stack([np.asarray(photo(seed, (44, 44))) for seed in range(7)]))


@pytest.fixture(scope="module")
def sprites() -> torch.Tensor:
    return draw_sprites(16, 0)


def edited(photos: torch.Tensor, sprites: torch.Tensor, strength: Strength, seed: int = 0) -> torch.Tensor:
    return edit(photos, 32, strength, torch.Generator().manual_seed(seed), sprites).pictures


def test_the_same_seed_gives_the_same_views_and_another_seed_others(
    photos: torch.Tensor, sprites: torch.Tensor
) -> None:
    assert torch.equal(edited(photos, sprites, HEAVY), edited(photos, sprites, HEAVY))
    assert not torch.equal(edited(photos, sprites, HEAVY), edited(photos, sprites, HEAVY, seed=1))


def test_views_are_panels_in_range_and_the_photos_are_left_alone(photos: torch.Tensor, sprites: torch.Tensor) -> None:
    before = photos.clone()
    views = edited(photos, sprites, HEAVY)
    assert views.shape == (7, 3, 32, 32)
    assert views.min() >= 0
    assert views.max() <= 1
    assert torch.equal(photos, before)


def test_no_edit_at_all_is_the_photo_as_it_is_served(photos: torch.Tensor, sprites: torch.Tensor) -> None:
    # One resampling is not anti-aliased as the other is; otherwise they are the same picture.
    assert (edited(photos, sprites, NOTHING) - plain(photos, 32)).abs().mean() < 0.03


def test_a_heavy_edit_changes_more_than_a_mild_one(photos: torch.Tensor, sprites: torch.Tensor) -> None:
    shown = plain(photos, 32)
    mild, heavy = (
        sum((edited(photos, sprites, strength, seed) - shown).abs().mean() for seed in range(5))
        for strength in (MILD, HEAVY)
    )
    assert heavy > 1.5 * mild


@pytest.mark.parametrize(
    "name", ["crop", "flip", "rotate", "perspective", "shrink", "colour", "grey", "blur", "noise", "overlay", "jpeg"]
)
def test_every_edit_by_itself_changes_the_picture(name: str, photos: torch.Tensor, sprites: torch.Tensor) -> None:
    alone = Strength(**dict.fromkeys(Strength.__dataclass_fields__, 0.0) | {"area": 0.3, name: 1.0})
    nothing = edited(photos, sprites, NOTHING)
    assert (edited(photos, sprites, alone) - nothing).abs().mean() > 0.002


def test_both_ways_to_compress_give_nearly_the_same_picture(photos: torch.Tensor) -> None:
    views, qualities = plain(photos, 32), torch.full((len(photos),), 40)
    here, there = compressed_on_cpu(views, qualities), compressed_on_accelerator(views, qualities)
    assert (here - there).abs().mean() < 0.4 * (here - views).abs().mean()


def test_a_view_says_where_in_the_photo_each_of_its_pixels_was(photos: torch.Tensor, sprites: torch.Tensor) -> None:
    flipped = Strength(**dict.fromkeys(Strength.__dataclass_fields__, 0.0) | {"area": 1.0, "flip": 1.0})
    views, places = edit(photos, 32, flipped, torch.Generator().manual_seed(3), sprites)
    read = torch.nn.functional.grid_sample(plain(photos, 32), places, padding_mode="border", align_corners=False)
    assert (views - read).abs().mean() < 0.03
    assert torch.equal(unmoved(2, 4)[0, 1, 2], torch.tensor([0.25, -0.25]))
