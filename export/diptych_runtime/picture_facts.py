"""The facts of a picture file that its structure tells before a pixel is decoded: frames, damage, bits and more."""

from __future__ import annotations

import re
import struct
import zlib
from itertools import pairwise
from typing import Any, NamedTuple

from PIL.ImageFile import ImageFile

from diptych_runtime import png_chunks


class PictureFacts(NamedTuple):
    """The facts of a file: its frames, pages or pictures (`frames`), bytes behind its image data (`trailing`), whether
    it is cut short or corrupt though it can be read (`is_damaged`), bits of a sample, whether it has transparency, and
    whether its coding loses nothing.

    Previews, masks, depth and gain maps are no frames, and padding is nothing that trails. A palette of 2^n colours
    counts as n / 3 bits, as the n bits are of three samples; one of greys as n.
    """

    frames: int = 1
    trailing: int = 0
    is_damaged: bool = False
    bits: int = 8
    has_alpha: bool = False
    is_lossless: bool = False


def read_picture_facts(data: bytes, header: ImageFile) -> PictureFacts:
    """The facts of a file's bytes, whose header was read. What its structure does not say is as in most files."""
    read_facts = _FACT_READERS[header.format or ""]
    try:
        return read_facts(data, header)
    except (IndexError, KeyError, ValueError, struct.error):  # of bytes that a decoder makes more of
        return PictureFacts(is_damaged=True)


def tiff_pages(data: bytes) -> list[int]:
    """The numbers of a TIFF's directories that are pages: no previews and no masks."""
    return [number for number, tags in enumerate(_tiff_directories(data)) if not tags.get(_SUBFILE, 0) & 5]


def mpo_frames(data: bytes) -> list[tuple[int, int]]:
    """The places, start and end, of the pictures in a JPEG file: of one, and of what follows by its index (CIPA
    DC-007). Each ends where the next one begins, as not all programs write their sizes right.

    What is smaller, grey beside colour, or says that it is a map, is none.
    """
    main = _JpegFile(data)
    places = [(0, main.end)]
    starts = sorted(start for start in set(main.index) if main.end <= start < len(data))
    for start, end in pairwise([*starts, len(data)]):
        try:
            other = _JpegFile(data[start:end])
        except (IndexError, struct.error):
            continue
        if other.frame == main.frame and not other.is_map:
            places.append((start, end))
    return places


def _jpeg_facts(data: bytes, header: ImageFile) -> PictureFacts:
    file = _JpegFile(data)
    trailing = _trailing_bytes(data[file.end :])
    frames = len(mpo_frames(data)) if file.index and trailing else 1
    return PictureFacts(frames, trailing, file.is_damaged, file.frame[0])


# A marker other than those of a restart; fill bytes may stand before it.
_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_EOI, _SOS, _DHT, _APP1, _APP2 = 0xD9, 0xDA, 0xC4, 0xE1, 0xE2
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {_DHT, 0xC8, 0xCC})
_BETWEEN_SCANS = frozenset({_EOI, _SOS, _DHT, 0xDB, 0xDC, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_MAPS = (b"hdrgm", b"hdrgainmap", b"HDRGainMap", b"21496:-1", b"GDepth", b":aux:depth", b":aux:disparity", b"depthmap")
# So many bytes of zeros stand in no scan but where zeros are the code of an empty block.
_HOLE = bytes(256)
_MOST_SEGMENTS = 100_000  # of a file; in sound ones there are fewer by far


class _JpegFile:
    """The segments of a JPEG from its start to its end: `end` is where the bytes behind it begin.

    `frame` is (bits, height, width, components), and `index` lists where further pictures begin.
    """

    def __init__(self, data: bytes) -> None:
        self.frame, self.index, self.is_map, self.is_damaged = (8, 0, 0, 0), [], False, False
        self._zero_symbols: dict[int, int] = {}  # of each Huffman table, what a code of zeros alone means
        position, self.end = 2, len(data)
        for _ in range(_MOST_SEGMENTS):
            marker = _MARKER.search(data, position)
            if marker is None or marker.start() + 4 > len(data):
                self.is_damaged |= marker is None or data[marker.start() + 1] != _EOI
                break
            position, kind = marker.start() + 2, data[marker.start() + 1]
            if kind == _EOI:
                self.end = position
                break
            length = int.from_bytes(data[position : position + 2])
            segment = data[position + 2 : position + length]
            if kind in _FRAMES:
                self.frame = struct.unpack(">BHHB", segment[:6])
            elif kind == _DHT:
                self._read_tables(segment)
            elif kind in (_APP1, _APP2):
                self.is_map |= any(mark in segment for mark in _MAPS)
                if segment.startswith(b"MPF\0"):
                    self.index = _mpo_index(segment[4:], position + 6)
            position += length
            if kind == _SOS:
                self._read_scan(data, segment, position)

    def _read_tables(self, segment: bytes) -> None:
        while len(segment) > 17:
            count = sum(segment[1:17])
            self._zero_symbols[segment[0]] = segment[17] if count else 0
            segment = segment[17 + count :]

    def _read_scan(self, data: bytes, segment: bytes, start: int) -> None:
        """Note damage in the coded data: a marker that cannot stand there, or a hole of zeros."""
        marker = _MARKER.search(data, start)
        end = marker.start() if marker else len(data)
        if marker is not None and data[end + 1] not in _BETWEEN_SCANS:
            self.is_damaged = True
        components = segment[0]
        tables = [segment[2 + 2 * number] for number in range(components)]
        first, last, approximation = segment[1 + 2 * components : 4 + 2 * components]
        if first == 0 and approximation >> 4:
            return  # one bit of each block, and zeros mean what they say
        codes = [table >> 4 for table in tables] if first == 0 else []
        codes += [0x10 | table & 15 for table in tables] if last else []
        if any(self._zero_symbols.get(code, 0) for code in codes) and data.find(_HOLE, start, end) >= 0:
            self.is_damaged = True


def _mpo_index(segment: bytes, base: int) -> list[int]:
    """The offsets in the file of the pictures behind the first, by the index in a JPEG, which counts from `base`."""
    order = "<" if segment[:2] == b"II" else ">"
    (start,) = struct.unpack_from(f"{order}I", segment, 4)
    (count,) = struct.unpack_from(f"{order}H", segment, start)
    for place in range(start + 2, start + 2 + 12 * count, 12):
        tag, _, size, offset = struct.unpack_from(f"{order}HHII", segment, place)
        if tag == 0xB002:
            entries = [struct.unpack_from(f"{order}III", segment, offset + 16 * n) for n in range(min(size // 16, 999))]
            # 0x01: a preview of class 1 (CIPA DC-007, 5.2.3.3.1); 0x020002 is a disparity map.
            return [base + at for kind, _, at in entries[1:] if kind >> 16 & 15 != 1 and kind & 0xFFFFFF != 0x020002]
    return []


def _png_facts(data: bytes, header: ImageFile) -> PictureFacts:
    depth, colours = data[24], data[25]
    alpha, damaged, end, animated, shown, still = colours in (4, 6), True, len(data), 0, 0, False
    for name, start, stop in png_chunks.read_chunks(data):
        if name == b"acTL":
            animated = int.from_bytes(data[start : start + 4])
        elif name == b"fcTL":
            shown += 1
        elif name == b"IDAT":
            still |= not shown  # one that no frame shows, in front of them
            if zlib.crc32(memoryview(data)[start - 4 : stop]) != int.from_bytes(data[stop : stop + 4]):
                break
        elif name == b"PLTE" and colours == 3:
            depth = _palette_bits(data[start:stop])
        elif name == b"tRNS":
            alpha = True
        elif name == b"IEND":
            damaged, end = False, stop + 4
    frames = min(animated, shown) + still
    return PictureFacts(max(frames, 1), _trailing_bytes(data[end:]), damaged, depth, alpha, True)


def _palette_bits(palette: bytes) -> int:
    """The bits of a sample that a palette (RGBRGB...) amounts to."""
    bits = max((len(palette) // 3 - 1).bit_length(), 1)
    is_grey = palette[::3] == palette[1::3] == palette[2::3]
    return bits if is_grey else max(bits // 3, 1)


def _gif_facts(data: bytes, header: ImageFile) -> PictureFacts:
    position, frames, alpha, palette = 13, 0, False, b""
    if data[10] & 0x80:
        palette = data[13 : 13 + 3 * (2 << (data[10] & 7))]
        position += len(palette)
    damaged = True
    while position < len(data):
        kind = data[position]
        if kind == 0x3B:
            damaged, position = False, position + 1
            break
        if kind == 0x2C:
            flags = data[position + 9]
            position += 10
            if flags & 0x80:
                local = data[position : position + 3 * (2 << (flags & 7))]
                palette, position = palette or local, position + len(local)
            frames, position = frames + 1, position + 1
        elif kind == 0x21:
            alpha |= data[position + 1] == 0xF9 and bool(data[position + 3] & 1)
            position += 2
        else:
            break
        while length := data[position]:
            position += length + 1
        position += 1
    return PictureFacts(max(frames, 1), _trailing_bytes(data[position:]), damaged, _palette_bits(palette), alpha, True)


def _webp_facts(data: bytes, header: ImageFile) -> PictureFacts:
    end = 8 + int.from_bytes(data[4:8], "little")
    frames, alpha, codings, places = 0, False, set(), [(12, min(end, len(data)))]
    while places:
        position, stop = places.pop()
        while position + 8 <= stop:
            name, length = struct.unpack_from("<4sI", data, position)
            body = position + 8
            if name == b"ANMF":
                frames += 1
                places.append((body + 16, min(body + length, stop)))
            elif name in (b"VP8 ", b"VP8L"):
                codings.add(name)
                alpha |= name == b"VP8L" and bool(data[body + 4] & 0x10)
            elif name == b"VP8X":
                alpha |= bool(data[body] & 0x10)
            position = body + length + length % 2
    return PictureFacts(
        max(frames, 1), _trailing_bytes(data[end:]), end > len(data) + 1, 8, alpha, codings == {b"VP8L"}
    )


def _bmp_facts(data: bytes, header: ImageFile) -> PictureFacts:
    size, start, header_size = struct.unpack_from("<I4xII", data, 2)
    (depth,) = struct.unpack_from("<H", data, 24 if header_size == 12 else 28)
    palette = data[14 + header_size : start] if depth <= 8 else b""
    if palette and header_size != 12:
        palette = b"".join(palette[n : n + 3] for n in range(0, len(palette), 4))
    bits = _palette_bits(palette) if palette else {16: 5}.get(depth, 8)
    return PictureFacts(
        1, _trailing_bytes(data[size:]) if size > start else 0, False, bits, header.mode == "RGBA", True
    )


_SUBFILE, _BITS, _COMPRESSION, _PHOTOMETRIC, _PALETTE, _EXTRA = 254, 258, 259, 262, 320, 338
_LOSSY = frozenset({6, 7, 34712, 34892, 50001, 50002})  # JPEG, JPEG 2000, lossy DNG, WebP, JPEG XL
_SHORT = 3
_MOST_TAGS = 200_000  # of all directories together


def _tiff_directories(data: bytes) -> list[dict[int, int]]:
    """The first values of each directory's tags, as far as they are integers."""
    order = "<" if data[:2] == b"II" else ">"
    is_big = 43 in data[2:4]
    word, wide = ("Q", 20) if is_big else ("I", 12)
    (place,) = struct.unpack_from(f"{order}{word}", data, 8 if is_big else 4)
    found, met, left = [], set(), _MOST_TAGS
    while place and place not in met and left > 0:
        met.add(place)
        try:
            (count,) = struct.unpack_from(f"{order}{'Q' if is_big else 'H'}", data, place)
            start = place + (8 if is_big else 2)
            tags = {}
            left -= 1 + count
            for at in range(start, start + wide * min(count, 1 + max(left, 0)), wide):
                tag, kind, size, value = struct.unpack_from(f"{order}HH{word}{word}", data, at)
                if kind == _SHORT:
                    at = at + wide - struct.calcsize(word) if 2 * size <= struct.calcsize(f"={word}") else value
                    (value,) = struct.unpack_from(f"{order}H", data, at)
                tags[tag] = size if tag == _PALETTE else value
            (place,) = struct.unpack_from(f"{order}{word}", data, start + wide * count)
        except struct.error:
            break
        found.append(tags)
    return found


def _tiff_facts(data: bytes, header: ImageFile) -> PictureFacts:
    directories = _tiff_directories(data)
    first = directories[0]
    bits, alpha = first.get(_BITS, 1), first.get(_EXTRA, 0) in (1, 2)
    if first.get(_PHOTOMETRIC) == 3:
        bits = max(bits // 3, 1)
    return PictureFacts(max(len(tiff_pages(data)), 1), 0, False, bits, alpha, first.get(_COMPRESSION, 1) not in _LOSSY)


_BOXES = frozenset(b"ftyp meta mdat moov free skip uuid styp sidx moof mfra pnot wide".split())


def _iso_facts(data: bytes, header: ImageFile) -> PictureFacts:
    """The facts of AVIF and HEIF (ISO 14496-12): boxes that these do not know are such as films of motion photos."""
    position, trailing = 0, 0
    while position + 8 <= len(data):
        length, name = struct.unpack_from(">I4s", data, position)
        if length == 1:
            (length,) = struct.unpack_from(">Q", data, position + 8)
        length = length or len(data) - position
        if name not in _BOXES:
            trailing = _trailing_bytes(data[position:])
            break
        if length < 8:
            break
        position += length
    depth = data.find(b"pixi", 0, 1 << 16)
    bits = data[depth + 9] if depth >= 0 else 8
    frames = int(getattr(header, "n_frames", 1))
    return PictureFacts(frames, trailing, position > len(data), bits, header.mode.endswith("A"), False)


def _trailing_bytes(rest: bytes) -> int:
    """The number of bytes behind the image of a file, 0 for padding."""
    return len(rest) if rest.strip(b"\0\xff\r\n ") else 0


_FACT_READERS: dict[str, Any] = {
    "JPEG": _jpeg_facts,
    "PNG": _png_facts,
    "GIF": _gif_facts,
    "WEBP": _webp_facts,
    "BMP": _bmp_facts,
    "TIFF": _tiff_facts,
    "AVIF": _iso_facts,
    "HEIF": _iso_facts,
}
