"""The chunks of a PNG (ISO 15948), and a PNG without those that its reader would refuse or hold for nothing."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

_TEXT = frozenset({b"tEXt", b"zTXt", b"iTXt"})
# What tells how a picture lies; all else that is written in a picture, such as the workflow that made it, is skipped.
_ORIENTING = frozenset({b"XML:com.adobe.xmp", b"Raw profile type exif", b"exif"})
_MOST_TEXT = 1024 * 1024  # bytes of one text, and of a profile, that Pillow reads
_MOST_PROFILE = 4 * 1024 * 1024
_MOST_TEXTS = 8 * 1024 * 1024  # bytes of packed texts of a file, beyond which no further one is unpacked


def read_chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The chunks of a PNG as (name, start and end of the content), up to the end of the file or of its image."""
    position = 8
    while position + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, position)
        yield name, position + 8, position + 8 + length
        if name == b"IEND":
            break
        position += length + 12


def skip_text(data: bytes) -> tuple[bytes, bytes | None]:
    """The bytes of a PNG without text that says nothing of its pixels, however much that is; and its ICC profile, where
    that is too large for Pillow.
    """
    kept, begin, met, profile, has_profile = [], 0, set[bytes](), None, False
    for name, start, end in read_chunks(data):
        if name in _TEXT:
            key, _, text = data[start:end].partition(b"\0")
            is_kept = key in _ORIENTING and key not in met and _is_short(name, text)
            met.add(key)
        elif name == b"iCCP":
            is_kept = False
            if not has_profile:  # a PNG has one; each further one would be unpacked too
                _, _, packed = data[start:end].partition(b"\0")
                found = _unpack_bytes(packed[1:], _MOST_PROFILE)
                is_kept = found is not None and len(found) <= _MOST_TEXT
                profile, has_profile = None if is_kept else found, True
        else:
            continue
        if not is_kept:
            kept.append(data[begin : start - 8])
            begin = end + 4
    return (b"".join([*kept, data[begin:]]) if kept else data), profile


def read_texts(data: bytes) -> Iterator[tuple[str, str]]:
    """The texts of a PNG with their keys, as far as they are read: of a packed one its first MiB, of all packed
    ones about 8 MiB. Raises `zlib.error` at a damaged one.
    """
    left = _MOST_TEXTS
    for name, start, end in read_chunks(data):
        if name in _TEXT:
            key, _, text = data[start:end].partition(b"\0")
            is_packed, text = _split_packed(name, text)
            if is_packed:
                text = zlib.decompressobj().decompress(text, _MOST_TEXT) if left > 0 else b""
                left -= len(text)
            yield key.decode("latin-1"), text.decode("utf-8" if name == b"iTXt" else "latin-1", "replace")


def _is_short(name: bytes, text: bytes) -> bool:
    """True for a text, as it stands behind the key in its chunk, that Pillow reads."""
    is_packed, packed = _split_packed(name, text)
    return not is_packed or not packed or _unpack_bytes(packed, _MOST_TEXT) is not None


def _split_packed(name: bytes, text: bytes) -> tuple[bool, bytes]:
    """Whether a text behind the key in its chunk is packed, and the text alone."""
    if name == b"iTXt":
        return text[:1] == b"\1", text[2:].split(b"\0", 2)[-1]
    return name == b"zTXt", text[1:] if name == b"zTXt" else text


def _unpack_bytes(packed: bytes, most: int) -> bytes | None:
    """The unpacked bytes (RFC 1950); None if they are damaged, or more than `most`, beyond which none is made."""
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(packed, most)
    except zlib.error:
        return None
    return None if unpacker.unconsumed_tail else found
