import struct
from io import BytesIO
from typing import Literal

import numpy as np
import pytest
from PIL import Image, ImageCms

from diptych_runtime.decoder import open_picture, panel_pixels

# Chromaticities as XYZ columns under D50: of sRGB, and with red and green swapped, which no eye would miss.
RED, GREEN, BLUE = (0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)


def profile(gamma: float = 2.2, colours=(RED, GREEN, BLUE), space: bytes = b"RGB ") -> bytes:
    """An ICC profile, version 2, of a display whose curves are a power."""
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(gamma * 256)) + bytes(2)
    xyz = [b"XYZ " + bytes(4) + struct.pack(">3i", *(round(v * 65536) for v in one)) for one in colours]
    text = b"desc" + bytes(4) + struct.pack(">I", 5) + b"test\0" + bytes(78 + 3)
    white = b"XYZ " + bytes(4) + struct.pack(">3i", 63190, 65536, 54061)
    tags = {b"desc": text, b"wtpt": white}
    if space == b"RGB ":
        tags |= {b"rXYZ": xyz[0], b"gXYZ": xyz[1], b"bXYZ": xyz[2], b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    else:
        tags |= {b"kTRC": curve}
    place = 128 + 4 + 12 * len(tags)
    table, body = struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        data += bytes(-len(data) % 4)
        table += name + struct.pack(">2I", place + len(body), len(data))
        body += data
    head = struct.pack(">I4sI4s4s4s", 128 + len(table + body), bytes(4), 0x02400000, b"mntr", space, b"XYZ ")
    head += bytes(12) + b"acsp" + bytes(28) + struct.pack(">3i", 63190, 65536, 54061)
    return head + bytes(128 - len(head)) + table + body


def built(space: Literal["LAB", "sRGB"]) -> bytes:
    """One of LittleCMS' own."""
    return ImageCms.ImageCmsProfile(ImageCms.createProfile(space)).tobytes()


SWAPPED = profile(colours=(GREEN, RED, BLUE))


def file(picture: Image.Image, format: str, icc: bytes | None, **options: object) -> bytes:
    buffer = BytesIO()
    picture.save(buffer, format, icc_profile=icc, **options)
    return buffer.getvalue()


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP", "TIFF", "AVIF", "HEIF"])
def test_colours_are_what_the_profile_of_the_file_says(format):
    """Where the profile's red is green, what the file calls red is green."""
    red = Image.new("RGB", (64, 64), (200, 40, 40))
    options = {"lossless": True} if format == "WEBP" else {}
    plain, said = (open_picture(file(red, format, icc, **options)) for icc in (None, SWAPPED))
    assert plain.getpixel((32, 32)) == pytest.approx((200, 40, 40), abs=3)
    assert said.getpixel((32, 32)) == pytest.approx((40, 200, 40), abs=6)
    panel = panel_pixels(file(red, format, SWAPPED, **options), 16)
    assert tuple(panel[8, 8].tolist()) == pytest.approx((40, 200, 40), abs=6)


def test_a_gamma_is_undone_by_its_formula():
    """value' = sRGB curve of (value/255) ** gamma, by IEC 61966-2-1."""
    greys = np.arange(0, 256, 5, dtype=np.uint8)
    picture = Image.fromarray(np.broadcast_to(greys[:, None, None], (len(greys), 8, 3)).copy())
    light = (greys / 255) ** 1.8
    expected = 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    got = np.asarray(open_picture(file(picture, "PNG", profile(gamma=1.8))))[:, 0]
    assert np.abs(got - expected[:, None]).max() <= 1.5
    grey = Image.fromarray(np.broadcast_to(greys[:, None], (len(greys), 8)).copy())
    alone = np.asarray(open_picture(file(grey, "PNG", profile(gamma=1.8, space=b"GRAY"))))[:, 0]
    assert np.abs(alone - expected[:, None]).max() <= 1.5


def test_transparency_palettes_and_orientation_are_as_without_a_profile():
    picture = Image.new("RGBA", (20, 10), (200, 40, 40, 255))
    picture.paste((0, 0, 0, 0), (0, 0, 10, 10))
    seen = open_picture(file(picture, "PNG", SWAPPED))
    assert (seen.getpixel((2, 5)), seen.getpixel((15, 5))) == ((255, 255, 255), pytest.approx((40, 200, 40), abs=6))
    # Its transparency is in bytes, one for each of its colours.
    seen = open_picture(file(picture.quantize(4), "PNG", SWAPPED))
    assert (seen.getpixel((2, 5)), seen.getpixel((15, 5))) == ((255, 255, 255), pytest.approx((40, 200, 40), abs=6))
    palette = Image.new("RGB", (20, 10), (200, 40, 40)).quantize(4)
    assert open_picture(file(palette, "PNG", SWAPPED)).getpixel((5, 5)) == pytest.approx((40, 200, 40), abs=6)
    exif = Image.Exif()
    exif[0x0112] = 6
    upright = open_picture(file(picture.convert("RGB"), "JPEG", SWAPPED, exif=exif))
    assert upright.size == (10, 20)


@pytest.mark.parametrize(
    "icc",
    [
        b"not a profile",
        SWAPPED[:150],
        profile(space=b"GRAY"),
        built("LAB"),
    ],
    ids=["text", "cut", "grey", "lab"],
)
def test_a_profile_that_is_damaged_or_for_other_pixels_is_passed_over(icc):
    red = Image.new("RGB", (16, 16), (200, 40, 40))
    assert open_picture(file(red, "PNG", icc)).getpixel((5, 5)) == (200, 40, 40)


def test_a_profile_that_no_device_would_have_is_not_even_read():
    red, padded = Image.new("RGB", (16, 16), (200, 40, 40)), [SWAPPED + bytes(size * 2**20) for size in (3, 5)]
    seen = [open_picture(file(red, "TIFF", icc)).getpixel((5, 5)) for icc in padded]
    assert seen == [pytest.approx((40, 200, 40), abs=6), (200, 40, 40)]
