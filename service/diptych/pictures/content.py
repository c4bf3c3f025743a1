"""A picture on its way into a collection: its bytes, what they are, and the pixels the network sees."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import ExifTags, Image

from diptych_runtime.decoder import (
    PictureLimits,
    PictureSource,
    open_picture,
    panel_pixels,
    picture_format,
    read_header,
)
from diptych_runtime.errors import PictureError
from diptych_runtime.own_files import open_own
from diptych_runtime.picture_facts import read_picture_facts

_SIDEWAYS = frozenset({5, 6, 7, 8})
_PART = 2**20  # bytes of a file that are hashed at a time


@dataclass(frozen=True)
class Content:
    """A checked picture: `width` x `height` upright, `pixels` uint8 (S, S, 3), and its bytes if these are kept.

    One that a worker encoded has `features`: embedding and tokens as they are stored (`NewPicture`).
    """

    data: bytes | None
    sha256: str
    media_type: str
    width: int
    height: int
    frames: int
    is_damaged: bool
    pixels: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 3), np.uint8))
    features: tuple[bytes, bytes] | None = None

    @property
    def id(self) -> str:
        """The picture's name in every collection: the first 32 hex digits of the digest of its bytes."""
        return picture_id(self.sha256)


def picture_id(sha256: str) -> str:
    """The id of the content with this SHA-256 digest in hex."""
    return sha256[:32]


def file_id(path: str | os.PathLike[str]) -> str:
    """The id of the content of a file; its bytes are read. Raises OSError."""
    with open_own(path) as file:
        return picture_id(hash_file(file))


def hash_file(file: BinaryIO) -> str:
    """SHA-256 of an open file in hex, no further than its size: a file of the system may have no end."""
    left, found = os.fstat(file.fileno()).st_size, hashlib.sha256()
    while left > 0 and (part := file.read(min(left, _PART))):
        found.update(part)
        left -= len(part)
    return found.hexdigest()


def content_ids(sources: Sequence[PictureSource]) -> list[str | None]:
    """The ids of the contents of files; None for pixels in memory, and for a file of which none other has the size."""
    sizes = [_source_size(source) for source in sources]
    repeated = {size for size, count in Counter(sizes).items() if size is not None and count > 1}
    return [content_id(source) if size in repeated else None for source, size in zip(sources, sizes, strict=True)]


def _source_size(source: PictureSource) -> int | None:
    if isinstance(source, bytes | bytearray | memoryview):
        return len(bytes(source))
    try:
        return Path(source).stat().st_size if isinstance(source, str | os.PathLike) else None
    except OSError:
        return None


def content_id(source: PictureSource) -> str | None:
    """The id of the content of a file; None for pixels in memory."""
    if isinstance(source, bytes | bytearray | memoryview):
        return picture_id(hashlib.sha256(source).hexdigest())
    if not isinstance(source, str | os.PathLike):
        return None
    try:
        with Path(source).open("rb") as file:
            return picture_id(hash_file(file))
    except OSError:  # gone since it was decoded
        return None


def whole_file(path: Path, limits: PictureLimits, label: str) -> bytes | None:
    """The bytes of a file, None of one that grew while it was read. Raises TooLargeError and OSError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        limits.check_bytes(size, label)
        data = file.read(size + 1)
    return data if len(data) <= size else None


def read_bytes(source: PictureSource, limits: PictureLimits, *, name: str | None = None) -> bytes:
    """The bytes of a picture file, pixels as PNG. Raises PictureError, also above the limit, and then reads none."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if not isinstance(source, str | os.PathLike):
        buffer = BytesIO()
        open_picture(source, limits, name=name).save(buffer, "PNG")
        return buffer.getvalue()
    path = Path(source)
    try:
        if path.is_file():
            data = whole_file(path, limits, name or str(path))
            if data is not None:
                return data
        open_picture(source, limits, name=name)
        reason = "it changed while it was read"
    except OSError as error:
        reason = error.strerror or str(error)
    raise PictureError(f"{name or path} cannot be read: {reason}")


def describe(data: bytes, size: int, limits: PictureLimits, *, name: str | None = None) -> Content:
    """Decode and check the bytes of a picture file for panels of `size` pixels. Raises PictureError."""
    pixels = panel_pixels(data, size, limits, name=name)
    with read_header(data, name or "the picture") as header:
        try:
            orientation = header.getexif().get(ExifTags.Base.Orientation, 1)
        except Exception:  # a broken EXIF block does not spoil the picture; the decoder ignores it too
            orientation = 1
        width, height = upright_size(header.size, orientation)
        facts = read_picture_facts(data, header)
    digest = hashlib.sha256(data).hexdigest()
    return Content(None, digest, media_type(data), width, height, facts.frames, facts.is_damaged, pixels)


def media_type(data: bytes) -> str:
    """The media type of a picture file by its first bytes; application/octet-stream for what is no picture."""
    kind = picture_format(data)
    return Image.MIME.get(kind, f"image/{kind.lower()}") if kind else "application/octet-stream"


def upright_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """(width, height) as one sees it of pixels that lie by this EXIF orientation."""
    width, height = size
    return (height, width) if orientation in _SIDEWAYS else (width, height)


def make_thumbnail(data: bytes, side: int, limits: PictureLimits, *, name: str | None = None) -> bytes:
    """The picture as a JPEG whose longer side has at most `side` pixels. Raises PictureError."""
    picture = open_picture(data, limits, name=name)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = BytesIO()
    picture.save(buffer, "JPEG", quality=85)
    return buffer.getvalue()
