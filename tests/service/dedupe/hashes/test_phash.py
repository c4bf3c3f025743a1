"""The hash: the bits of imagehash, and none for what says nothing."""

import io

import imagehash
import numpy as np
import pytest
from PIL import Image, ImageOps

from diptych.dedupe.hashes import perceptual_hashes, reduce_picture
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError

LIMITS = PictureLimits()


def hash_of(picture) -> int | None:
    return perceptual_hashes([reduce_picture(picture, LIMITS)])[0]


def saved(picture: Image.Image, **options) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("seed", range(2))
def test_it_has_the_bits_of_imagehash(photo_bytes, seed):
    picture = Image.open(io.BytesIO(photo_bytes(seed, (170, 110), "PNG"))).convert("RGB")
    assert hash_of(picture) == int(str(imagehash.phash(picture)), 16)


def test_saving_smaller_and_again_changes_few_bits_and_another_picture_many(photo_bytes):
    picture = Image.open(io.BytesIO(photo_bytes(3, (1200, 900), "PNG"))).convert("RGB")
    again = saved(picture.resize((400, 300)), format="JPEG", quality=60)
    large = saved(picture, format="JPEG", quality=90)  # decoded at an eighth
    other = photo_bytes(4, (1200, 900), "PNG")
    hashes = perceptual_hashes([reduce_picture(one, LIMITS) for one in (picture, again, large, other)])
    first, *others = [phash for phash in hashes if phash is not None]
    distances = [(first ^ one).bit_count() for one in others]
    assert max(distances[:2]) <= 4 < 16 < distances[2]


def test_blank_pictures_and_gradients_have_none():
    ramp = Image.linear_gradient("L").convert("RGB")
    noise = np.random.default_rng(0).integers(250, 253, (200, 300, 3), np.uint8)
    plain = [Image.new("RGB", (64, 64), "white"), ramp, ImageOps.flip(ramp), ramp.rotate(90), noise]
    assert list(map(hash_of, plain)) == [None] * 5
    assert perceptual_hashes([]) == []


def test_bombs_and_damaged_files_are_refused_before_they_are_decoded(photo_bytes):
    with pytest.raises(PictureError, match=r"big is 90x60, 0\.0 megapixels; at most 0\.0 are allowed"):
        reduce_picture(photo_bytes(1, (90, 60)), PictureLimits(pixels=5000), name="big")
    with pytest.raises(PictureError, match="more than the 100 that are allowed"):
        reduce_picture(photo_bytes(1), PictureLimits(bytes=100))
    with pytest.raises(PictureError, match="cut is damaged or cut short"):
        reduce_picture(photo_bytes(1, (300, 200))[:900], LIMITS, name="cut")


def test_it_is_of_the_picture_as_it_is_seen(photo_bytes):
    picture = Image.open(io.BytesIO(photo_bytes(5, (120, 90), "PNG"))).convert("RGB")
    exif = Image.Exif()
    exif[0x0112] = 6
    sideways = saved(picture.rotate(90, expand=True), format="PNG", exif=exif)
    assert hash_of(sideways) == hash_of(picture)
