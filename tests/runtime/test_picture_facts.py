import struct
import zlib
from io import BytesIO
from time import process_time

import numpy as np
import pytest
from PIL import Image, features

from diptych_runtime.decoder import read_header
from diptych_runtime.picture_facts import PictureFacts, read_picture_facts


def noise(seed=0, size=(96, 64)) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    return Image.fromarray(pixels)


def saved(kind, picture=None, frames=1, **options) -> bytes:
    buffer = BytesIO()
    if frames > 1:
        options |= {"save_all": True, "append_images": [noise(seed) for seed in range(1, frames)]}
    (picture or noise()).save(buffer, kind, **options)
    return buffer.getvalue()


def facts(data: bytes) -> PictureFacts:
    with read_header(data, "it") as header:
        return read_picture_facts(data, header)


AVIF = pytest.param("AVIF", marks=pytest.mark.skipif(not features.check("avif"), reason="built without"))


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", AVIF])
@pytest.mark.parametrize("frames", [1, 2, 5])
def test_frames_and_pages_are_counted(kind, frames):
    found = facts(saved(kind, frames=frames))
    assert (found.frames, found.trailing, found.is_damaged) == (frames, 0, False)


def test_a_still_that_no_frame_of_an_animated_png_shows_is_one_more():
    assert facts(saved("PNG", frames=3, default_image=True)).frames == 3


def test_pictures_of_a_burst_count_and_previews_and_maps_do_not():
    burst = facts(saved("MPO", frames=3))
    assert (burst.frames, burst.trailing > 0) == (3, True)
    for other in (noise(1, (48, 32)), noise(1).convert("L")):
        assert facts(saved("MPO", save_all=True, append_images=[other])).frames == 1


def test_frames_that_are_only_claimed_do_not_count():
    for frames, claimed in ((1, 1000), (3, 1000), (3, 2)):
        data = saved("PNG", frames=frames)
        if frames == 1:
            data = data[:33] + chunk(b"acTL", struct.pack(">II", claimed, 0)) + data[33:]
        else:
            place = data.index(b"acTL")
            data = data[: place + 4] + struct.pack(">I", claimed) + data[place + 8 :]
        with read_header(saved("PNG"), "it") as header:
            assert read_picture_facts(data, header).frames == min(frames, claimed)
    burst = saved("MPO", frames=3)
    place = burst.index(b"MPF\0")
    last = struct.pack("<I", burst.rindex(b"\xff\xd8\xff") - place - 4)
    assert last in burst
    first = struct.pack("<I", burst.index(b"\xff\xd8\xff", place) - place - 4)
    assert facts(burst.replace(last, first)).frames == 2, "the same picture twice"


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xd8" + b"\xff\xe0\0\x02" * 4_000_000,
        b"II*\0\x08\0\0\0" + (b"\xff\xff" + bytes(12 * 65_535) + b"\x08\0\0\0") * 10,
    ],
)
def test_what_a_stranger_wrote_does_not_take_long(data, monkeypatch):
    kind = "JPEG" if data[:2] == b"\xff\xd8" else "TIFF"
    with read_header(saved(kind), "it") as header:
        began = process_time()
        read_picture_facts(data, header)
    assert process_time() - began < 2


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def test_pages_of_a_tiff_and_pictures_of_a_heic_are_counted_without_previews_and_masks():
    pages = []
    for kind in (0, 1, 4, 2):
        page = noise(kind)
        page.encoderinfo = {"tiffinfo": {254: kind}}
        pages.append(page)
    data = saved("TIFF", pages[0], save_all=True, append_images=pages[1:])
    assert facts(data).frames == 2
    heif = pytest.importorskip("pillow_heif")
    file = heif.from_pillow(noise())
    file.add_from_pillow(noise(1))
    buffer = BytesIO()
    file.save(buffer, thumbnails=[32])
    assert (facts(buffer.getvalue()).frames, facts(buffer.getvalue()).bits) == (2, 8)
    film = struct.pack(">I4s", 808, b"mpvd") + b"film" * 200
    assert facts(buffer.getvalue() + film).trailing == len(film)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", AVIF])
def test_bytes_behind_the_picture_are_counted_and_padding_is_not(kind):
    data = saved(kind)
    assert facts(data + bytes(4096)).trailing == 0
    film = struct.pack(">I4s", 5000, b"mpvd") + b"film" * 1248
    assert facts(data + film).trailing == len(film)
    assert not facts(data + film).is_damaged


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"progressive": True}, {"restart_marker_blocks": 3}])
def test_a_jpeg_with_a_hole_or_without_its_end_is_damaged_and_a_sound_one_is_not(options):
    data = saved("JPEG", noise(size=(400, 300)), quality=90, **options)
    assert not facts(data).is_damaged
    assert facts(data[:-2]).is_damaged, "without the marker of its end"
    assert facts(data[: len(data) // 2] + bytes(len(data) - len(data) // 2)).is_damaged
    begin = len(data) // 2
    assert facts(data[:begin] + bytes(4096) + data[begin + 4096 :]).is_damaged
    rubbish = np.random.default_rng(5).bytes(4096)
    assert facts(data[:begin] + rubbish + data[begin + 4096 :]).is_damaged


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"progressive": True}, {"quality": 100}])
@pytest.mark.parametrize("colour", ["white", "black", "grey", (0, 0, 254)])
def test_a_plain_jpeg_has_no_hole(options, colour):
    assert not facts(saved("JPEG", Image.new("RGB", (3000, 2000), colour), **options)).is_damaged
    assert not facts(saved("JPEG", Image.new("L", (3000, 2000), 200), **options)).is_damaged


def test_a_png_whose_pixels_are_not_what_was_written_or_a_gif_without_its_end_is_damaged():
    assert facts(saved("GIF")[:-1]).is_damaged
    data = saved("PNG")
    assert facts(data[:-12]).is_damaged
    place = data.index(b"IDAT") + 2000
    assert facts(data[:place] + bytes(64) + data[place + 64 :]).is_damaged


def test_bits_of_a_sample_are_those_of_the_file():
    grey = Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16)
    for kind in ("PNG", "TIFF"):
        assert facts(saved(kind, grey)).bits == 16
        assert facts(saved(kind, noise().convert("1"))).bits == 1
        assert facts(saved(kind, noise().quantize(256))).bits == 2, "8 bits are of three samples"
    assert facts(saved("GIF")).bits == facts(saved("PNG", noise().quantize(256))).bits
    assert facts(saved("GIF", noise().convert("L"))).bits == 8, "256 greys are all there are"
    assert facts(saved("BMP", noise().convert("1"))).bits == 1
    assert {facts(saved(kind)).bits for kind in ("JPEG", "PNG", "BMP", "TIFF", "WEBP")} == {8}


def test_transparency_is_known_for_each_of_its_ways():
    clear = noise().convert("RGBA")
    clear.putalpha(100)
    for kind in ("PNG", "WEBP", "TIFF"):
        assert facts(saved(kind, clear)).has_alpha
        assert not facts(saved(kind)).has_alpha
    assert facts(saved("WEBP", clear, lossless=True)).has_alpha
    assert facts(saved("PNG", noise().quantize(9), transparency=2)).has_alpha
    assert facts(saved("GIF", noise().quantize(9), transparency=2)).has_alpha


def test_lossless_is_what_the_coding_is_and_not_the_ending():
    assert all(facts(saved(kind)).is_lossless for kind in ("PNG", "BMP", "GIF", "TIFF"))
    assert facts(saved("WEBP", lossless=True)).is_lossless
    assert not facts(saved("JPEG")).is_lossless
    assert not facts(saved("WEBP")).is_lossless
    assert not facts(saved("TIFF", compression="jpeg")).is_lossless
    assert facts(saved("WEBP", frames=3, lossless=True)).is_lossless
    assert not facts(saved("WEBP", frames=3, lossless=False)).is_lossless


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF"])
def test_no_bytes_behind_a_readable_header_are_an_error(kind):
    data, draw = bytearray(saved(kind, frames=1 if kind in ("JPEG", "BMP") else 3)), np.random.default_rng(0)
    with read_header(bytes(data), "it") as header:
        for _ in range(200):
            spoilt = bytearray(data[: draw.integers(1, len(data))])
            spoilt[draw.integers(len(spoilt))] = draw.integers(256)
            assert read_picture_facts(bytes(spoilt), header).frames >= 1
