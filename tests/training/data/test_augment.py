from typing import Any

import pytest
import torch
from torch import Tensor

from diptych_training.data.augment import (
    HARD,
    HEAVY,
    MILD,
    SHOT,
    Strength,
    Views,
    draw_layers,
    draw_sprites,
    edit,
    load_emoji,
    plain,
    unmoved,
)
from diptych_training.data.augment.compression import compressed_on_accelerator, compressed_on_cpu
from diptych_training.data.augment.counted import EDITS, EXCLUSIVE, OVERLAYS, choose
from diptych_training.data.augment.geometry import GEOMETRY
from diptych_training.data.augment.sprites import _drawn
from diptych_training.errors import DataError

NONE: dict[str, Any] = dict.fromkeys(Strength.__dataclass_fields__, 0)
FIRST = ["crop", "flip", "rotate", "perspective", "shrink", "colour", "grey", "blur", "noise", "overlay", "jpeg"]
MOVES = [*GEOMETRY, "caption", "overlay", "stripes", "paste", "collage", "screenshot"]


def strength_of(**numbers: Any) -> Strength:
    """A strength at which only the edits named here happen."""
    given = NONE.copy()
    given.update(numbers)
    return Strength(**given)


def only(*names: str) -> Strength:
    """A strength at which each view gets all of these edits, if they do not exclude each other."""
    return strength_of(area=0.3, most=len(names), **dict.fromkeys(names, 1.0))


NOTHING = strength_of(area=1.0)


@pytest.fixture(scope="module")
def photos(photo) -> Tensor:
    import numpy as np

    return torch.from_numpy(np.stack([np.asarray(photo(seed, (44, 44))) for seed in range(7)]))


@pytest.fixture(scope="module")
def sprites() -> Tensor:
    return draw_sprites(16, 0)


def views(photos: Tensor, sprites: Tensor, strength: Strength, seed: int = 0, **options: Any) -> Views:
    return edit(photos, 32, strength, torch.Generator().manual_seed(seed), sprites, **options)


def edited(photos: Tensor, sprites: Tensor, strength: Strength, seed: int = 0) -> Tensor:
    return views(photos, sprites, strength, seed).pictures


def test_overlays_are_those_of_their_seed_drawn_anew_and_belong_to_the_caller() -> None:
    first = draw_sprites(3, 7, 32)
    anew = _drawn.__wrapped__(3, 7, 32)
    assert first.shape == (3, 4, 32, 32)
    assert first.equal(anew)
    assert not first.equal(draw_sprites(3, 8, 32))
    first.zero_()
    assert draw_sprites(3, 7, 32).equal(anew)


@pytest.mark.parametrize("strength", [HEAVY, HARD])
def test_the_same_seed_gives_the_same_views_and_another_seed_others(
    strength: Strength, photos: Tensor, sprites: Tensor
) -> None:
    first, again = views(photos, sprites, strength), views(photos, sprites, strength)
    assert torch.equal(first.pictures, again.pictures)
    assert torch.equal(first.places, again.places)
    assert not torch.equal(first.pictures, edited(photos, sprites, strength, seed=1))


@pytest.mark.parametrize("strength", [HEAVY, HARD])
def test_views_are_panels_in_range_and_nothing_given_is_changed(
    strength: Strength, photos: Tensor, sprites: Tensor
) -> None:
    given = photos.clone(), sprites.clone()
    for seed in range(9):
        pictures, places = views(photos, sprites, strength, seed)
        assert pictures.shape == (7, 3, 32, 32)
        assert places.shape == (7, 32, 32, 2)
        assert pictures.min() >= 0
        assert pictures.max() <= 1
        assert pictures.isfinite().all()
        assert places.isfinite().all()
    assert torch.equal(photos, given[0])
    assert torch.equal(sprites, given[1])


# Of views, channel, row and column; then of views, axis, row and column: from before `HARD` was added.
PICTURE_AT = (
    (0, 0, 3, 5),
    (1, 1, 7, 11),
    (2, 2, 13, 17),
    (3, 0, 19, 23),
    (4, 1, 29, 2),
    (5, 2, 11, 31),
    (6, 0, 17, 19),
)
PLACE_AT = ((0, 0, 3, 5), (1, 1, 7, 11), (2, 0, 13, 17), (3, 0, 19, 23), (4, 1, 29, 2), (5, 1, 11, 31), (6, 0, 17, 19))
GOLDEN = {
    HEAVY: (
        [0.094118, 0.243137, 0.296042, 0.459559, 0.717647, 0.587955, 0.449139],
        [-0.65625, -0.378615, -0.155204, -0.46875, 0.84375, -0.138723, 0.200883],
    ),
    MILD: (
        [0.098039, 0.20048, 0.292591, 0.227451, 0.738235, 0.836452, 0.4],
        [-0.65625, -0.475881, -0.155204, 0.46875, 0.84375, -0.216459, 0.219166],
    ),
    SHOT: (
        [0.121569, 0.215145, 0.292591, 0.466667, 0.738235, 0.662644, 0.403922],
        [-0.582866, -0.433193, -0.155204, -0.46875, 0.84375, -0.174682, 0.193654],
    ),
}


@pytest.mark.parametrize("strength", GOLDEN, ids=["HEAVY", "MILD", "SHOT"])
def test_released_strengths_edit_as_they_always_did(strength: Strength, sprites: Tensor) -> None:
    y, x = torch.meshgrid(torch.arange(44.0), torch.arange(44.0), indexing="ij")
    drawn = [[x * (3 + k) + y * k, y * (5 - k % 3) + 7 * k, x * y / (7 + k) + 31 * k] for k in range(7)]
    photos = torch.stack([torch.stack(channels, -1) % 256 for channels in drawn]).byte()
    pictures, places = views(photos, sprites, strength, seed=5)
    colours, moved = GOLDEN[strength]
    # Decoders of JPEG may round differently.
    assert [float(pictures[at]) for at in PICTURE_AT] == pytest.approx(colours, abs=0.01)
    assert [float(places[view, row, column, axis]) for view, axis, row, column in PLACE_AT] == pytest.approx(
        moved, abs=1e-5
    )


def test_no_edit_at_all_is_the_photo_as_it_is_served(photos: Tensor, sprites: Tensor) -> None:
    # One resampling is not anti-aliased as the other is; otherwise they are the same picture.
    for strength in (NOTHING, strength_of(most=3)):
        pictures, places = views(photos, sprites, strength)
        assert (pictures - plain(photos, 32)).abs().mean() < 0.03
        assert torch.allclose(places, unmoved(7, 32), atol=1e-6)


def test_a_heavy_edit_changes_more_than_a_mild_one_and_a_hard_one_more_still(photos: Tensor, sprites: Tensor) -> None:
    shown = plain(photos, 32)
    mild, heavy, hard = (
        sum((edited(photos, sprites, strength, seed) - shown).abs().mean() for seed in range(8))
        for strength in (MILD, HEAVY, HARD)
    )
    assert heavy > 1.5 * mild
    assert hard > heavy


@pytest.mark.parametrize("name", FIRST)
def test_every_edit_by_itself_changes_the_picture(name: str, photos: Tensor, sprites: Tensor) -> None:
    alone = strength_of(**{"area": 0.3, name: 1.0})
    nothing = edited(photos, sprites, NOTHING)
    assert (edited(photos, sprites, alone) - nothing).abs().mean() > 0.002


@pytest.mark.parametrize("name", EDITS)
def test_every_counted_edit_by_itself_changes_every_view(name: str, photos: Tensor, sprites: Tensor) -> None:
    nothing = edited(photos, sprites, NOTHING)
    changes = (edited(photos, sprites, only(name)) - nothing).abs().amax((1, 2, 3))
    assert (changes > 0.01).all()


@pytest.mark.parametrize("name", EDITS)
def test_a_counted_edit_leaves_the_views_it_was_not_chosen_for(name: str, photos: Tensor, sprites: Tensor) -> None:
    # The other edit there is to choose, a flip, leaves the colours of the view it turns as they are.
    partner = "flip" if name != "flip" else "invert"
    strength = strength_of(**{"area": 0.3, "most": 1, name: 1.0, partner: 1.0})
    chosen = choose(7, strength, torch.Generator().manual_seed(2))
    assert chosen[name].any()
    assert (chosen[name] ^ chosen[partner]).all()
    pictures, nothing = edited(photos, sprites, strength, seed=2), edited(photos, sprites, NOTHING)
    candidates = [nothing.flip(3), nothing.flip(2)] if partner == "flip" else [1 - nothing]
    left = torch.stack([(pictures - other).abs().amax((1, 2, 3)) for other in candidates]).amin(0)
    assert (left[chosen[partner]] < 1e-3).all()


def test_a_view_gets_from_one_to_six_edits_three_on_average_and_none_that_exclude_each_other() -> None:
    chosen = choose(3001, HARD, torch.Generator().manual_seed(0))
    counts = torch.stack(list(chosen.values())).sum(0)
    assert set(counts.tolist()) == {1, 2, 3, 4, 5, 6}
    assert float(counts.float().mean()) == pytest.approx(3, abs=0.1)
    assert all(chosen[name].any() for name in EDITS)
    for group in EXCLUSIVE:
        assert torch.stack([chosen[name] for name in group]).sum(0).max() == 1


def coordinates(count: int, height: int) -> Tensor:
    """Photos whose red is x and whose green is y; blue is 128, which no overlay or ground is by chance."""
    line = ((torch.arange(height) + 0.5) * (255 / height)).round().byte()
    x, y = line.expand(height, height), line.unsqueeze(1).expand(height, height)
    return torch.stack([x, y, torch.full_like(x, 128)], -1).expand(count, -1, -1, -1)


@pytest.mark.parametrize("name", MOVES)
def test_pixels_show_the_place_in_the_photo_that_views_say(name: str) -> None:
    photos, size = coordinates(23, 176), 128
    elsewhere = torch.full((3, 176, 176, 3), 255, dtype=torch.uint8)
    opaque = draw_sprites(16, 0)
    strength = only(name)
    pictures, places = edit(
        photos,
        size,
        strength,
        torch.Generator().manual_seed(1),
        opaque,
        backgrounds=elsewhere,
        layers=draw_layers(8, 1),
    )
    shown = (places.abs() <= 1).all(-1)
    assert 0.05 < shown.float().mean() <= 1
    colours = (places + 1).mul(0.5).permute(0, 3, 1, 2)
    wrong = ((pictures[:, :2] - colours).abs().amax(1) > 0.06) & shown
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
    photos, sprites = coordinates(23, 176), draw_sprites(2, 0)
    pictures, places = edit(photos, 128, only("photograph"), torch.Generator().manual_seed(1), sprites)
    for picture, place in zip(pictures, places, strict=True):
        shown = (place.abs() <= 1).all(-1)
        assert 0.3 < shown.float().mean() <= 1
        for axis in (0, 1):
            together = torch.corrcoef(torch.stack([picture[axis][shown], place[..., axis][shown]]))
            assert together[0, 1] > 0.7


def test_places_stay_right_through_several_moves_one_after_the_other() -> None:
    strength = only("crop", "rotate", "perspective", "flip", "paste")
    photos, elsewhere = coordinates(31, 176), torch.full((3, 176, 176, 3), 255, dtype=torch.uint8)
    sprites = draw_sprites(2, 0)
    for generator in map(torch.Generator().manual_seed, range(3)):
        pictures, places = edit(photos, 128, strength, generator, sprites, backgrounds=elsewhere)
        shown = (places.abs() <= 1).all(-1)
        wrong = ((pictures[:, :2] - (places + 1).mul(0.5).permute(0, 3, 1, 2)).abs().amax(1) > 0.06) & shown
        assert shown.any()
        assert wrong.sum() <= 0.03 * shown.sum()


def test_a_view_never_stands_on_its_own_photo_and_only_on_given_backgrounds_where_there_are_some(
    sprites: Tensor,
) -> None:
    greys = torch.arange(20, 27 * 9, 9, dtype=torch.uint8)[:24].view(-1, 1, 1, 1).expand(-1, 44, 44, 3)
    pictures, places = views(greys, sprites, only("paste"))
    outside = (places.abs() > 1).any(-1)
    shown = plain(greys, 32)[:, 0, 0, 0]
    for view, mask, own in zip(pictures, outside, shown, strict=True):
        assert ((view[0][mask] - own).abs() > 0.02).all()
    red = torch.tensor([255, 0, 0], dtype=torch.uint8).expand(2, 44, 44, 3)
    pictures, places = views(greys, sprites, only("paste"), backgrounds=red)
    outside = (places.abs() > 1).any(-1)
    assert (pictures[:, 0][outside] > 0.99).all()
    assert (pictures[:, 2][outside] < 0.01).all()


def test_arguments_that_only_counted_edits_have_are_refused_elsewhere(photos: Tensor, sprites: Tensor) -> None:
    with pytest.raises(ValueError, match="backgrounds and layers are expected only with a strength whose `most` is"):
        views(photos, sprites, HEAVY, backgrounds=photos)


def test_emoji_are_read_from_an_archive_in_the_order_of_their_names(tmp_path) -> None:
    import io
    import zipfile

    from PIL import Image

    path = tmp_path / "emoji.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, colour in (("emoji/b.png", (0, 250, 0, 255)), ("emoji/a.png", (250, 0, 0, 128)), ("LICENSE", None)):
            file = io.BytesIO()
            if colour:
                Image.new("RGBA", (13, 13), colour).save(file, "PNG")
            archive.writestr(name, file.getvalue())
    emoji = load_emoji(path, 7)
    assert emoji.shape == (2, 4, 7, 7)
    # Pillow rounds colours that are partly transparent.
    assert (emoji[:, :, 3, 3].int() - torch.tensor([[250, 0, 0, 128], [0, 250, 0, 255]])).abs().max() <= 2
    with pytest.raises(DataError, match="an archive of emoji is expected at"):
        load_emoji(tmp_path / "other.zip", 7)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("LICENSE", "")
    with pytest.raises(DataError, match=r"members named emoji/\*.png are expected"):
        load_emoji(tmp_path / "empty.zip", 7)


def test_layers_are_drawn_the_same_from_the_same_seed_and_their_windows_hold_a_picture() -> None:
    first, again = draw_layers(11, 3), draw_layers(11, 3)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))
    assert first.bars.shape == first.titles.shape == first.marks.shape == (11, 4, 60, 240)
    assert first.screenshots.shape == (11, 4, 240, 240)
    left, top, right, bottom = first.windows.unbind(1)
    assert (right - left > 0.8).all()
    assert (bottom - top > 0.6).all()
    assert first.windows.abs().max() <= 1
    assert len(OVERLAYS) == 8


def test_both_ways_to_compress_give_nearly_the_same_picture(photos: Tensor) -> None:
    shown, qualities = plain(photos, 32), torch.full((len(photos),), 40)
    here, there = compressed_on_cpu(shown, qualities), compressed_on_accelerator(shown, qualities)
    assert (here - there).abs().mean() < 0.4 * (here - shown).abs().mean()


def test_a_view_says_where_in_the_photo_each_of_its_pixels_was(photos: Tensor, sprites: Tensor) -> None:
    flipped = strength_of(area=1.0, flip=1.0)
    pictures, places = views(photos, sprites, flipped, seed=3)
    read = torch.nn.functional.grid_sample(plain(photos, 32), places, padding_mode="border", align_corners=False)
    assert (pictures - read).abs().mean() < 0.03
    assert torch.equal(unmoved(2, 4)[0, 1, 2], torch.tensor([0.25, -0.25]))
