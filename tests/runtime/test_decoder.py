import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageColor, ImageDraw
from pillow_heif import HeifImageFile

from diptych_runtime import decoder as pictures
from diptych_runtime.decoder import FORMATS, SUFFIXES, PictureLimits, open_picture, panel_pixels, read_header
from diptych_runtime.errors import DiptychError, PictureError


def encoded(picture: Image.Image, format: str, **options: object) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def png_of_megapixels() -> bytes:
    """A small PNG file that claims 12000 x 12000 pixels and has them, all black: a decompression bomb."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    rows = b"".join(packer.compress(b"\0" * 1501) for _ in range(12000)) + packer.flush()
    header = struct.pack(">IIBBBBB", 12000, 12000, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


BAD = {
    "an empty file": (lambda photo: b"", r"bad\.jpg is empty \(0 bytes\)"),
    "a text file": (
        lambda photo: b"not a picture at all\n" * 9,
        r"bad\.jpg is not in a format that can be read; expected JPEG",
    ),
    "a PDF": (lambda photo: b"%PDF-1.7 ...", "not in a format that can be read"),
    "an ICO, which Pillow would open": (lambda photo: encoded(photo, "ICO"), "not in a format that can be read"),
    "a truncated JPEG": (lambda photo: encoded(photo, "JPEG")[:-300], "damaged or cut short"),
    "a JPEG cut in its header": (lambda photo: encoded(photo, "JPEG")[:12], "damaged: its JPEG header"),
    "a truncated PNG": (lambda photo: encoded(photo, "PNG")[:-300], "damaged or cut short"),
    "a truncated WebP": (lambda photo: encoded(photo, "WEBP")[:-200], "damaged"),
    "a truncated AVIF": (lambda photo: encoded(photo, "AVIF")[:-300], "damaged"),
    "a truncated HEIF": (lambda photo: encoded(photo, "HEIF")[:-300], "damaged"),
    "a HEIF cut in its header": (lambda photo: encoded(photo, "HEIF")[:40], "damaged: its HEIF header"),
    "another ISO medium": (lambda photo: b"\0\0\0\x18ftypisom\0\0\0\0isommp42", "not in a format that can be read"),
    "a GIF without a frame": (lambda photo: b"GIF89a" + bytes(30), "damaged"),
    "a TIFF of nothing": (lambda photo: b"II*\0" + bytes(9), "damaged"),
    "a decompression bomb": (lambda photo: png_of_megapixels(), r"12000x12000, 144\.0 megapixels; at most 64\.0"),
    "one pixel": (lambda photo: encoded(photo.resize((1, 1)), "PNG"), "is 1x1; each side must have at least 8 pixels"),
    "a thread": (lambda photo: encoded(photo.resize((300, 7)), "JPEG"), "is 300x7"),
    "32-bit pixels": (lambda photo: encoded(photo.convert("F"), "TIFF"), r"mode F\), which have no agreed white"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("read", [open_picture, lambda source: panel_pixels(source, 32)], ids=["open", "panel"])
def test_what_is_no_picture_gives_one_clear_error_that_names_the_file(case, read, photo, tmp_path):
    make, message = BAD[case]
    path = tmp_path / "bad.jpg"
    path.write_bytes(make(photo()))
    with pytest.raises(PictureError, match=message) as caught:
        read(path)
    assert "bad.jpg" in str(caught.value)
    assert isinstance(caught.value, DiptychError)
    assert isinstance(caught.value, ValueError)


def test_a_missing_path_a_folder_and_an_address_are_named_as_such(tmp_path):
    with pytest.raises(PictureError, match=r"nowhere\.jpg does not exist$"):
        open_picture(tmp_path / "nowhere.jpg")
    with pytest.raises(PictureError, match="is a folder; expected a picture file"):
        open_picture(str(tmp_path))
    with pytest.raises(PictureError, match="must be downloaded first"):
        open_picture("https://example.org/cat.jpg")
    with pytest.raises(PictureError, match="cannot be read: embedded null byte"):
        open_picture("a\0b.jpg")
    with pytest.raises(PictureError, match="expected bytes, a path, a Pillow image or a NumPy array, got int"):
        open_picture(7)  # pyright: ignore[reportArgumentType]


def test_limits_are_checked_before_anything_is_decoded(photo, photo_bytes, tmp_path):
    path = tmp_path / "large.jpg"
    path.write_bytes(photo_bytes())
    small = PictureLimits(bytes=100)
    for source in (path, path.read_bytes()):
        with pytest.raises(PictureError, match="more than the 100 that are allowed"):
            open_picture(source, small)
    for source in (path, photo(), np.asarray(photo())):
        with pytest.raises(PictureError, match="megapixels; at most"):
            open_picture(source, PictureLimits(pixels=100))


def test_the_bomb_guard_leaves_pillow_and_its_warnings_as_they_were():
    before, filters = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
    bomb = png_of_megapixels()

    def message(_: int) -> str:
        with pytest.raises(PictureError) as caught:
            open_picture(bomb)
        return str(caught.value)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(message, range(16))) == {message(0)}
    assert before == Image.MAX_IMAGE_PIXELS
    assert filters == list(warnings.filters)


@pytest.mark.parametrize("format", FORMATS)
def test_every_format_and_every_kind_of_source_gives_the_same_picture(format, photo, tmp_path):
    original = photo(3, (61, 47))
    lossless = {"lossless": True} if format == "WEBP" else {}
    data = encoded(original, format, **lossless)
    path = tmp_path / f"picture.{format.lower()}"
    path.write_bytes(data)
    assert path.suffix in SUFFIXES
    pictures = [np.asarray(open_picture(source)) for source in (data, path, str(path), Image.open(BytesIO(data)))]
    pictures.append(np.asarray(open_picture(pictures[0])))
    assert all(np.array_equal(pictures[0], other) for other in pictures)
    # JPEG, AVIF and HEIF round colours, GIF has 256 of them; the rest is exact.
    tolerance = {"JPEG": 12, "GIF": 12, "AVIF": 12, "HEIF": 12}.get(format, 0)
    assert np.abs(pictures[0].astype(int) - np.asarray(original)).mean() <= tolerance


@pytest.mark.parametrize(
    ("format", "orientation"),
    [*(("JPEG", one) for one in range(1, 9)), *((kind, 6) for kind in ("PNG", "TIFF", "WEBP", "AVIF", "HEIF"))],
)
def test_the_orientation_of_the_camera_is_applied_once(format, orientation, photo):
    upright = photo(5, (64, 40))
    inverse = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}  # Transpose members that lay the upright picture as stored
    stored = upright if orientation == 1 else upright.transpose(Image.Transpose(inverse[orientation]))
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(stored, format, exif=exif.tobytes(), **({"quality": 95} if format == "JPEG" else {}))
    got = open_picture(data)
    assert got.size == (64, 40)
    assert np.abs(np.asarray(got).astype(int) - np.asarray(upright)).mean() < 8
    panel = panel_pixels(data, 16).astype(int)
    assert np.abs(panel - panel_pixels(upright, 16)).mean() < 6


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_broken_exif_block_does_not_spoil_the_pixels(photo):
    data = encoded(photo(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert open_picture(data).size == (96, 64)


def test_transparency_is_laid_on_white_in_every_mode():
    clear = Image.new("RGBA", (16, 16), (10, 20, 30, 0))
    half = Image.new("RGBA", (16, 16), (0, 0, 0, 128))
    palette = Image.new("P", (16, 16), 0)
    palette.putpalette([200, 0, 0])
    grey = Image.new("LA", (16, 16), (0, 0))
    keyed = Image.new("RGB", (16, 16), (1, 2, 3))
    cases = [
        (encoded(clear, "PNG"), 255),
        (encoded(half, "PNG"), 127),
        (encoded(palette, "PNG", transparency=0), 255),
        (encoded(palette, "GIF", transparency=0), 255),
        (encoded(grey, "PNG"), 255),
        (encoded(keyed, "PNG", transparency=(1, 2, 3)), 255),
        (encoded(clear, "WEBP", lossless=True), 255),
        (encoded(clear, "AVIF", quality=100), 255),
        (encoded(clear, "HEIF", quality=-1, chroma=444, matrix_coefficients=0), 255),
    ]
    assert [set(np.unique(np.asarray(open_picture(data)))) for data, _ in cases] == [{value} for _, value in cases]


@pytest.mark.parametrize("alpha", [255, 128])
@pytest.mark.parametrize(("ink", "ground"), [("white", 0), ("#fdfdf5", 0), ("black", 255), ("#d02010", 255)])
def test_line_art_on_transparency_gets_a_ground_on_which_it_is_seen(ink, ground, alpha):
    art = Image.new("RGBA", (64, 64))
    ImageDraw.Draw(art).ellipse((8, 8, 56, 56), outline=(*ImageColor.getrgb(ink), alpha), width=4)
    palette = art.quantize(8)
    for data in (encoded(art, "PNG"), encoded(art, "WEBP", lossless=True), encoded(palette, "PNG")):
        got = np.asarray(open_picture(data)).astype(int)
        assert (got[0, 0] == ground).all()
        assert np.abs(got[10, 32] - got[0, 0]).max() > 100


def test_sixteen_bit_grey_is_scaled_and_not_clipped():
    ramp = np.linspace(0, 65535, 64 * 64).astype(np.uint16).reshape(64, 64)
    expected = np.round(ramp / 257).astype(np.uint8)
    for source in (encoded(Image.fromarray(ramp), "PNG"), encoded(Image.fromarray(ramp), "TIFF"), ramp):
        got = np.asarray(open_picture(source))
        assert got.shape == (64, 64, 3)
        assert np.array_equal(got[:, :, 0], expected)


def test_palette_one_bit_and_cmyk_pictures_come_out_as_rgb(photo):
    for mode, format in (("P", "PNG"), ("1", "PNG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("CMYK", "TIFF")):
        original = photo(8).convert(mode)
        got = open_picture(encoded(original, format))
        assert (got.mode, got.size) == ("RGB", (96, 64))
        assert np.abs(np.asarray(got).astype(int) - np.asarray(original.convert("RGB"))).mean() < 8


@pytest.mark.parametrize("format", ["GIF", "WEBP", "PNG", "TIFF"])
def test_the_first_frame_of_an_animation_counts(format):
    frames = [Image.new("RGB", (24, 24), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    data = encoded(frames[0], format, save_all=True, append_images=frames[1:])
    red, green, blue = np.asarray(open_picture(data))[12, 12]
    assert (red > 250, green < 5, blue < 5) == (True, True, True)


@pytest.mark.parametrize(("format", "brand"), [("AVIF", b"avif"), ("HEIF", b"heic")])
def test_a_file_of_the_common_container_is_told_by_any_of_its_brands(format, brand, photo):
    data = encoded(photo(), format)
    assert (data[4:8], data[8:12], b"mif1" in data[16:40]) == (b"ftyp", brand, True)
    head, rest = data[:40].replace(brand, b"....").replace(b"mif1", brand), data[40:]
    with read_header(head.replace(b"....", b"mif1") + rest, "picture") as header:
        assert header.format == format
    with pytest.raises(PictureError, match="not in a format that can be read"):
        read_header(head.replace(brand, b"isom").replace(b"....", b"isom") + rest, "picture")


def test_heif_is_decoded_itself_and_not_the_small_picture_beside_it(photo):
    beside = pillow_heif.from_pillow(photo(1, (640, 480)))
    beside.info["thumbnails"] = [320]
    buffer = BytesIO()
    beside.save(buffer, quality=90)
    with HeifImageFile(BytesIO(buffer.getvalue())) as header:
        assert header.draft("RGB", (32, 32)) is not None, "there is one, which Pillow would take"
    whole = np.asarray(open_picture(buffer.getvalue()).resize((32, 32), Image.Resampling.BICUBIC, reducing_gap=2.0))
    assert np.array_equal(panel_pixels(buffer.getvalue(), 32), whole)


def test_a_format_that_cannot_be_read_here_is_named_with_what_it_needs(photo, tmp_path, monkeypatch):
    for format, needs in (
        ("HEIF", r"`pip install 'diptych\[heif\]'`; or save it as JPEG"),
        ("AVIF", "built with libavif"),
    ):
        path = tmp_path / f"photo.{format.lower()}"
        path.write_bytes(encoded(photo(), format))
        monkeypatch.delitem(pictures._READERS, format)
        with pytest.raises(PictureError, match=rf"photo\.{format.lower()} is {format}, which cannot be read.*{needs}"):
            open_picture(path)


def test_arrays_of_other_kinds_are_refused_with_their_type_and_shape():
    for array in (np.zeros((9, 9), np.float32), np.zeros((9, 9, 2), np.uint8), np.zeros(9, np.uint8)):
        with pytest.raises(PictureError, match=rf"{array.dtype} \(9,.*expected uint8"):
            open_picture(array)
    with pytest.raises(PictureError, match="no pixels"):
        open_picture(np.zeros((0, 9, 3), np.uint8))


def test_a_panel_is_the_whole_picture_squashed(photo, photo_bytes):
    panel = panel_pixels(photo_bytes(4, (150, 50)), 40)
    assert (panel.dtype, panel.shape, panel.flags.writeable) == (np.uint8, (40, 40, 3), True)
    left_red = np.zeros((60, 200, 3), np.uint8)
    left_red[:, :100, 0] = 255
    panel = panel_pixels(left_red, 20)
    assert panel[:, :9, 0].min() > 245
    assert panel[:, 11:].max() < 10


def test_a_jpeg_may_come_smaller_with_at_least_so_many_pixels_a_side_and_others_come_whole(photo):
    large = photo(6, (1600, 1200))
    small = open_picture(encoded(large, "JPEG", quality=92), least=190)
    assert small.size == (400, 300)
    whole = open_picture(encoded(large, "JPEG", quality=92)).resize(small.size, Image.Resampling.BOX)
    assert np.abs(np.asarray(small, int) - np.asarray(whole, int)).mean() < 2
    assert open_picture(encoded(large, "PNG"), least=190).size == open_picture(large, least=190).size == large.size
