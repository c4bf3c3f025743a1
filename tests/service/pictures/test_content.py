import hashlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from diptych.pictures.content import content_ids, describe, picture_id, read_bytes
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError

LIMITS = PictureLimits()
ORIENTATION = 0x0112


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "HEIF"])
def test_every_format_is_known_by_its_bytes_and_served_under_its_own_media_type(photo_bytes, format):
    data = photo_bytes(1, (37, 23), format)
    content = describe(data, 32, LIMITS)
    assert content.media_type == f"image/{format.lower()}"
    assert (content.width, content.height) == (37, 23)
    assert (content.pixels.shape, content.pixels.dtype) == ((32, 32, 3), np.uint8)
    assert content.sha256 == hashlib.sha256(data).hexdigest()
    assert content.id == picture_id(content.sha256) == content.sha256[:32]


def test_neither_a_second_picture_behind_the_first_nor_a_broken_exif_block_spoils_a_jpeg(photo):
    for kind, how in (("MPO", {"save_all": True, "append_images": [photo(2)]}), ("JPEG", {"exif": b"Exif\0\0none"})):
        photo(1, (41, 19)).save(buffer := BytesIO(), kind, **how)
        content = describe(buffer.getvalue(), 32, LIMITS)
        assert (content.width, content.height, content.media_type) == (41, 19, "image/jpeg")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_width_and_height_are_those_of_the_upright_picture(photo, orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    buffer = BytesIO()
    photo(1, (41, 19)).save(buffer, "JPEG", exif=exif)
    content = describe(buffer.getvalue(), 32, LIMITS)
    assert (content.width, content.height) == ((19, 41) if orientation >= 5 else (41, 19))


def test_only_our_own_limits_count_and_not_a_limit_that_pillow_was_given(photo_bytes, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    assert describe(photo_bytes(1), 32, LIMITS).width == 96
    with pytest.raises(PictureError, match="96x64"):
        describe(photo_bytes(1), 32, PictureLimits(pixels=6143))


def test_bytes_are_taken_as_they_are_and_pixels_become_a_png_of_the_same_pixels(photo):
    picture = photo(3, (31, 17))
    for source in (b"any bytes", bytearray(b"any bytes"), memoryview(b"any bytes")):
        assert read_bytes(source, LIMITS) == b"any bytes"  # type: ignore[arg-type]
    for source in (picture, np.asarray(picture)):
        with Image.open(BytesIO(read_bytes(source, LIMITS))) as read:
            assert read.format == "PNG"
            assert np.array_equal(np.asarray(read), np.asarray(picture))


def test_what_is_no_readable_file_is_refused_by_the_name_it_was_given(tmp_path):
    folder, missing = tmp_path / "folder.jpg", tmp_path / "missing.jpg"
    folder.mkdir()
    with pytest.raises(PictureError, match=r"folder\.jpg is a folder"):
        read_bytes(folder, LIMITS)
    with pytest.raises(PictureError, match=r"^queries\[3\] does not exist"):
        read_bytes(missing, LIMITS, name="queries[3]")
    with pytest.raises(PictureError, match="cannot be read"):
        read_bytes("a\0b.jpg", LIMITS)
    with pytest.raises(PictureError, match=r"expected bytes, a path, .* got int"):
        read_bytes(5, LIMITS)  # type: ignore[arg-type]
    with (tmp_path / "sparse.jpg").open("wb") as file:
        file.truncate(10 * 2**30)
    with pytest.raises(PictureError, match=r"jpg has 10,737,418,240 bytes, more than the 1,000 that are allowed"):
        read_bytes(tmp_path / "sparse.jpg", PictureLimits(bytes=1000))


def test_contents_have_ids_where_another_file_may_be_the_same(tmp_path, photo_bytes, photo):
    (tmp_path / "a.jpg").write_bytes(photo_bytes(1))
    ids = content_ids([photo_bytes(1), tmp_path / "a.jpg", photo_bytes(2) + b"longer", photo(1), tmp_path / "none.jpg"])
    same = picture_id(hashlib.sha256(photo_bytes(1)).hexdigest())
    assert ids == [same, same, None, None, None]
