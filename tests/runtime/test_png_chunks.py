import struct
import tracemalloc
import zlib
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageCms

from diptych_runtime import png_chunks
from diptych_runtime.decoder import open_picture, read_header
from diptych_runtime.png_chunks import read_texts, skip_text

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 60, 3), np.uint8)
LONG = bytes(range(256)) * 12_000  # three times as much as Pillow reads


def png(**options) -> bytes:
    buffer = BytesIO()
    Image.fromarray(PIXELS).save(buffer, "PNG", **options)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def before(*more: bytes) -> bytes:
    return png()[:33] + b"".join(more) + png()[33:]


def after(*more: bytes) -> bytes:
    return png()[:-12] + b"".join(more) + png()[-12:]


PACKED = chunk(b"zTXt", b"workflow\0\0" + zlib.compress(LONG))
UNICODE = chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(LONG))
MANY = [chunk(b"zTXt", b"part %d\0\0" % n + zlib.compress(bytes(1_000_000))) for n in range(300)]


@pytest.mark.parametrize(
    "data",
    [
        before(PACKED),
        after(UNICODE),
        before(chunk(b"tEXt", b"workflow\0" + LONG)),
        before(*MANY),
        after(*MANY),
        before(*[UNICODE] * 100),
        before(chunk(b"iCCP", b"large\0\0" + zlib.compress(bytes(9_000_000)))),
        before(chunk(b"tEXt", b"Comment\0of a wrong checksum")[:-1] + b"?"),
        before(chunk(b"zTXt", b"Comment\0\7of an unknown compression")),
    ],
)
def test_a_sound_picture_is_read_whatever_is_written_in_it(data):
    assert np.array_equal(np.asarray(open_picture(data)), PIXELS)


def test_what_is_skipped_is_not_unpacked():
    data = before(*MANY, chunk(b"iCCP", b"bomb\0\0" + zlib.compress(bytes(30_000_000))))
    tracemalloc.start()
    with read_header(data, "it"):
        peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16_000_000


def test_the_texts_that_are_read_are_bounded():
    texts = [(key, len(text)) for key, text in read_texts(before(*MANY, chunk(b"tEXt", b"Title\0plain")))]
    assert sum(length for _, length in texts) <= 9 * 1024 * 1024
    assert texts[:2] == [("part 0", 1_000_000), ("part 1", 1_000_000)]
    assert texts[-2:] == [("part 299", 0), ("Title", 5)]


def test_how_a_picture_lies_is_read_from_its_text():
    words = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="6"/></x:xmpmeta>'
    for packing, text in ((b"\0\0", words), (b"\1\0", zlib.compress(words))):
        data = before(chunk(b"iTXt", b"XML:com.adobe.xmp\0" + packing + b"\0\0" + text), PACKED)
        assert open_picture(data).size == (40, 60)


@pytest.mark.parametrize("padding", [0, 2_000_000])
def test_a_profile_counts_also_where_pillow_alone_would_refuse_it(padding):
    profile = swapped_profile() + bytes(padding)
    profile = struct.pack(">I", len(profile)) + profile[4:]
    data = before(chunk(b"iCCP", b"swapped\0\0" + zlib.compress(profile)))
    got = np.asarray(open_picture(data)).astype(int)
    assert np.abs(got - PIXELS[:, :, ::-1]).mean() < 3


def test_of_many_profiles_only_the_first_is_unpacked(monkeypatch):
    unpacked = []
    monkeypatch.setattr(png_chunks, "_unpack_bytes", lambda packed, most: unpacked.append(packed) or b"a profile")
    first = chunk(b"iCCP", b"first\0\0" + zlib.compress(b"1"))
    data, profile = skip_text(before(first, *[chunk(b"iCCP", b"more\0\0" + zlib.compress(b"2"))] * 99))
    assert (data, profile) == (before(first), None)
    assert unpacked == [zlib.compress(b"1")]


def swapped_profile() -> bytes:
    """The profile of sRGB with the primaries of red and blue exchanged."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return profile.replace(b"rXYZ", b"????").replace(b"bXYZ", b"rXYZ").replace(b"????", b"bXYZ")
