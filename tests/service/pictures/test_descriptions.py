import io
import zlib

import pytest
from PIL import ExifTags, Image
from PIL.PngImagePlugin import PngInfo

from diptych.pictures.file_info import read_facts

WORDS = "Ida and Jan, Ohrid"
LIST = "<dc:subject><rdf:Bag><rdf:li>{}</rdf:li></rdf:Bag></dc:subject>"


def save_and_describe(kind: str = "JPEG", **how) -> str:
    Image.new("RGB", (20, 10)).save(file := io.BytesIO(), kind, **how)
    return read_facts(file.getvalue(), "a").descriptions


def with_exif(entries: dict[int, object], ifd: int | None = None) -> str:
    exif = Image.Exif()
    (exif if ifd is None else exif.get_ifd(ifd)).update(entries)
    return save_and_describe(exif=exif)


def with_text(key: str, text: str) -> str:
    texts = PngInfo()
    texts.add_itxt(key, text)
    return save_and_describe("PNG", pnginfo=texts)


def with_xmp(inner: str) -> str:
    return save_and_describe(xmp=f"<x:xmpmeta><rdf:Description>{inner}</rdf:Description></x:xmpmeta>".encode())


def with_iptc(caption: str) -> str:
    data = caption.encode()
    record = b"\x1c\x02\x78" + len(data).to_bytes(2) + data
    block = b"Photoshop 3.0\x008BIM\x04\x04\0\0" + len(record).to_bytes(4) + record + b"\0" * (len(record) % 2)
    Image.new("RGB", (20, 10)).save(file := io.BytesIO(), "JPEG")
    plain = file.getvalue()
    return read_facts(plain[:2] + b"\xff\xed" + (len(block) + 2).to_bytes(2) + block + plain[2:], "a").descriptions


def with_place(latitude: tuple, longitude: tuple = (20.0, 48.0, 3.2)) -> str:
    return with_exif({1: "N", 2: latitude, 3: "E", 4: longitude}, ExifTags.IFD.GPSInfo)


def test_a_place_counts_where_a_device_knew_one():
    assert len(with_place((41.0, 6.0, 54.0))) == 8
    assert with_place((41.0, 6.0, 54.0)) == with_place((41.0, 6.9, 0.0)) != with_place((41.0, 7.9, 0.0))
    assert not with_place((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert not with_exif({1: "N", 2: (1.0,), 3: "E", 4: (1.0,)}, ExifTags.IFD.GPSInfo)


@pytest.mark.parametrize(
    "descriptions",
    [
        with_exif({ExifTags.Base.ImageDescription: WORDS}),
        with_exif({ExifTags.Base.XPTitle: WORDS.encode("utf-16le") + b"\0\0"}),
        with_exif({ExifTags.Base.UserComment: b"ASCII\0\0\0" + WORDS.encode()}, ExifTags.IFD.Exif),
        with_exif({ExifTags.Base.UserComment: b"UNICODE\0" + WORDS.encode("utf-16be")}, ExifTags.IFD.Exif),
        with_xmp(LIST.format("ida and  Jan,\nOhrid")),
        with_xmp(f'<rdf:li mwg-rs:Name="{WORDS}" mwg-rs:Type="Face"/>'),
        with_iptc(WORDS),
        save_and_describe(comment=WORDS.encode()),
        save_and_describe("GIF", comment=WORDS.encode()),
        save_and_describe("TIFF", description=WORDS),
        with_text("Description", WORDS),
    ],
)
def test_what_somebody_wrote_has_one_digest_wherever_it_stands(descriptions):
    assert descriptions == with_text("Title", WORDS)
    assert len(descriptions) == 8


def test_each_keyword_has_its_digest_and_so_has_a_rating():
    both = with_exif({ExifTags.Base.XPKeywords: "wedding;Ida".encode("utf-16le")}).split()
    assert both == [with_text("Title", "Wedding"), with_text("Title", "ida")]
    assert with_exif({0x4746: 5}) == with_xmp("<xmp:Rating>5</xmp:Rating>") == with_text("Title", "5")
    assert with_xmp(LIST.format("&lt;b&gt;")) == with_text("Title", "<b>")


@pytest.mark.parametrize(
    "descriptions",
    [
        save_and_describe(),
        save_and_describe(comment=b"CREATOR: gd-jpeg v1.0 (using IJG JPEG v62), quality = 82\n"),
        with_text("Software", "an editor"),
        with_text("date:create", "2019-05-04"),
        with_exif({0x4746: 0, ExifTags.Base.Software: "an editor", ExifTags.Base.Orientation: 6}),
        with_exif({ExifTags.Base.UserComment: b"ASCII\0\0\0" + bytes(200)}, ExifTags.IFD.Exif),
        with_xmp(LIST.format("xmp.did:0180117407206811")),
    ],
)
def test_what_programs_write_of_themselves_does_not_count(descriptions):
    assert not descriptions


def test_the_texts_of_a_file_are_bounded_and_a_broken_block_has_none():
    assert len(with_xmp("".join(LIST.format(f"word {number}") for number in range(500))).split()) == 64
    Image.new("RGB", (20, 10)).save(file := io.BytesIO(), "PNG")
    broken = b"zTXtTitle\0\0no packed text"
    chunk = (len(broken) - 4).to_bytes(4) + broken + zlib.crc32(broken).to_bytes(4)
    assert not read_facts(file.getvalue()[:33] + chunk + file.getvalue()[33:], "a").descriptions
