import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO

import pytest
from PIL import ExifTags, Image
from PIL.PngImagePlugin import PngInfo

from diptych.pictures.file_info import picture_of, read_facts, read_file
from diptych_runtime.decoder import PictureLimits
from diptych_runtime.errors import PictureError


def jpeg(size=(70, 50), **entries) -> bytes:
    buffer, exif = BytesIO(), Image.Exif()
    for name, value in entries.items():
        if name == "DateTimeOriginal":
            exif.get_ifd(ExifTags.IFD.Exif)[ExifTags.Base.DateTimeOriginal] = value
        else:
            exif[ExifTags.Base[name]] = value
    Image.new("RGB", size).save(buffer, "JPEG", exif=exif)
    return buffer.getvalue()


def test_the_header_says_size_format_exif_and_when_it_was_taken():
    facts = read_facts(jpeg(Make="Maker", DateTimeOriginal="2011:05:07 01:02:03"), "a.jpg")
    taken = datetime(2011, 5, 7, 1, 2, 3, tzinfo=UTC).timestamp()
    assert (facts.width, facts.height, facts.format, facts.taken) == (70, 50, "JPEG", taken)
    assert facts.exif > read_facts(jpeg(Make="Maker"), "b.jpg").exif > read_facts(jpeg(), "c.jpg").exif == 0
    assert read_facts(jpeg(Orientation=6), "a.jpg")[:2] == (50, 70), "the size that one sees"
    whole = jpeg(Make="Maker")
    broken = whole.replace(b"Exif\0\0", b"Exif\0\0" + b"\xff" * 4, 1)[: len(whole)]
    assert read_facts(broken, "a.jpg")[:3] == (70, 50, "JPEG"), "a broken block does not spoil it"
    with pytest.raises(PictureError, match=r"notes\.jpg is not in a format that can be read"):
        read_facts(b"shopping list", "notes.jpg")


def test_only_entries_of_camera_date_and_place_are_counted():
    assert read_facts(jpeg(Orientation=6, Software="an editor", Artist="someone"), "a.jpg").exif == 0
    assert read_facts(jpeg(Make="Maker", Model="One", DateTimeOriginal="2011:05:07 01:02:03"), "a.jpg").exif == 3
    buffer, exif = BytesIO(), Image.Exif()
    exif.get_ifd(ExifTags.IFD.GPSInfo)[ExifTags.GPS.GPSLatitude] = (1.0, 2.0, 3.0)
    Image.new("RGB", (70, 50)).save(buffer, "JPEG", exif=exif)
    assert read_facts(buffer.getvalue(), "a.jpg").exif == 1
    xmp = b'<x:xmpmeta><rdf:Description exif:GPSLatitude="52,1N" exif:GPSLongitude="4,2E"/></x:xmpmeta>'
    text = PngInfo()
    text.add_itxt("XML:com.adobe.xmp", xmp.decode())
    for kind, how in (("JPEG", {"xmp": xmp}), ("WEBP", {"xmp": xmp}), ("PNG", {"pnginfo": text})):
        Image.new("RGB", (70, 50)).save(buffer := BytesIO(), kind, **how)
        assert read_facts(buffer.getvalue(), "a").exif == 2, f"{kind} has a place that only XMP says"
    buffer = BytesIO()
    Image.new("RGB", (70, 50)).save(buffer, "TIFF")
    assert read_facts(buffer.getvalue(), "a.tif").exif == 0, "how a TIFF is built tells nothing of its picture"


@pytest.mark.parametrize("date", ["0000:00:00 00:00:00", "yesterday", "", "1801:01:01 00:00:00", "2999:01:01 00:00:00"])
def test_a_date_that_is_none_is_no_date(date):
    assert read_facts(jpeg(DateTimeOriginal=date), "a.jpg").taken is None


@pytest.mark.parametrize("seconds", [-6.2e10, 0, 4e9, 2.5e11])
def test_a_time_of_a_file_that_cannot_be_is_unknown_and_fits_into_a_database(seconds, tmp_path):
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg())
    os.utime(path, (seconds, seconds))
    found = read_picture(path)
    assert abs(found.modified) < 2**63
    assert (found.changed, found.time) == (None, None)
    now = time.time()
    os.utime(path, (now, now))
    assert read_picture(path).time == pytest.approx(now)
    assert replace(read_picture(path), taken=3.0).time == 3


def read_picture(path):
    status, data = read_file(path, PictureLimits())
    return picture_of("0" * 32, path, status, data)
