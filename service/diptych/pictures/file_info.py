"""The facts of a picture file that are known without decoding a pixel, by which keepers are chosen."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from PIL import ExifTags, Image

from diptych.pictures.content import read_bytes, upright_size
from diptych.pictures.descriptions import read_descriptions
from diptych.pictures.walk import FoundFile
from diptych_runtime.decoder import PictureLimits, PictureSource, read_header
from diptych_runtime.errors import PictureError
from diptych_runtime.picture_facts import read_picture_facts

_CAMERA = (ExifTags.Base.Make, ExifTags.Base.Model)
# Entries that any program writes with the block, and that tell nothing of how a picture was taken.
_STRUCTURE = frozenset(
    {
        ExifTags.GPS.GPSVersionID,
        ExifTags.Base.ExifVersion,
        ExifTags.Base.ComponentsConfiguration,
        ExifTags.Base.UserComment,
        ExifTags.Base.FlashPixVersion,
        ExifTags.Base.ColorSpace,
        ExifTags.Base.ExifImageWidth,
        ExifTags.Base.ExifImageHeight,
        ExifTags.Base.ExifInteroperabilityOffset,
    }
)
# What XMP says of camera, date and place where EXIF does not.
_IN_XMP = re.compile(
    rb"(?:exif:GPSLatitude|exif:GPSLongitude|exif:DateTimeOriginal|photoshop:DateCreated|tiff:Make|tiff:Model)\b"
)
_FIRST_PHOTOGRAPH = datetime(1826, 1, 1, tzinfo=UTC)
_CLOCK = timedelta(days=2)  # by which the clock of a camera or another machine may be ahead
_NAMED = 5  # damaged files, at most


class Facts(NamedTuple):
    """The facts of a file: upright size, format ("JPEG"), and when it was taken, in seconds since 1970, or None.

    `exif` counts the entries that tell camera, date or place; `descriptions` has digests of what people wrote into it,
    and the others are those of `diptych_runtime.picture_facts.PictureFacts`.
    """

    width: int
    height: int
    format: str
    exif: int
    taken: float | None
    frames: int = 1
    trailing: int = 0
    is_damaged: bool = False
    bits: int = 8
    has_alpha: bool = False
    is_lossless: bool = False
    descriptions: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture file. Those with one `id` have the same bytes; `modified` is in nanoseconds since 1970.

    `root` is the number of the named folder in which it was found; in that of a `reference` nothing is changed.
    """

    id: str
    path: str
    bytes: int
    modified: int
    width: int
    height: int
    format: str
    exif: int = 0
    taken: float | None = None
    frames: int = 1
    trailing: int = 0
    is_damaged: bool = False
    bits: int = 8
    has_alpha: bool = False
    is_lossless: bool = False
    descriptions: str = ""
    root: int = 0
    reference: bool = False

    @property
    def changed(self) -> int | None:
        """When the file was last changed, in nanoseconds since 1970; None for 1970 itself and times to come."""
        return self.modified if 0 < self.modified / 1e9 <= time.time() + _CLOCK.total_seconds() else None

    @property
    def time(self) -> float | None:
        """When the picture was taken, or else when its file was changed, in seconds since 1970; None if unknown."""
        return self.changed and self.changed / 1e9 if self.taken is None else self.taken


def read_facts(data: bytes, name: str) -> Facts:
    """The facts of a picture file's bytes. Raises PictureError if there is no header to be read."""
    with read_header(data, name) as header:
        orientation, entries, taken = _read_exif(header)
        size = upright_size(header.size, orientation)
        structure = read_picture_facts(data, header)
        try:
            descriptions = read_descriptions(data, header)
        except Exception:  # what a decoder raises on damaged bytes is not an enumerable set
            descriptions = ""
        return Facts(*size, header.format or "", entries, taken, *structure, descriptions)


def is_damaged(source: PictureSource, limits: PictureLimits) -> bool:
    """True for a file that can be read and is damaged. Raises PictureError for one that cannot."""
    data = read_bytes(source, limits)
    with read_header(data, "the picture") as header:
        return read_picture_facts(data, header).is_damaged


def damage_text(names: Sequence[str]) -> str:
    """The remark on files that can be read and are damaged."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    be = "is" if len(names) == 1 else "are"
    return f"{', '.join(names[:_NAMED])}{more} {be} damaged: cut short or overwritten in part, though it can be read"


def read_file(path: Path, limits: PictureLimits) -> tuple[os.stat_result, bytes]:
    """A file's size and time from before it was read, and its bytes. Raises PictureError."""
    try:
        status = path.stat()
    except OSError as error:
        read_bytes(path, limits)  # says it better, if it cannot be read either
        raise PictureError(f"{path} cannot be read: {error.strerror}") from None
    return status, read_bytes(path, limits)


def picture_of(id: str, path: Path, status: os.stat_result, data: bytes) -> Picture:
    """A picture from the result of `read_file`. Raises PictureError if there is no header to be read."""
    stamp = FoundFile.of(status).stamp
    return Picture(id, str(path), stamp.bytes, stamp.modified, *read_facts(data, str(path)))


def _read_exif(header: Image.Image) -> tuple[int, int, float | None]:
    """(orientation, number of entries, seconds since 1970 or None); a broken block counts as none."""
    try:
        exif = header.getexif()
        details, place = exif.get_ifd(ExifTags.IFD.Exif), exif.get_ifd(ExifTags.IFD.GPSInfo)
        told = [exif.get(tag) for tag in _CAMERA]
        told += [value for part in (details, place) for tag, value in part.items() if tag not in _STRUCTURE]
        count = sum(value not in (None, "", b"") for value in told)
        xmp = header.info.get("xmp", b"")
        count += len(set(_IN_XMP.findall(xmp.encode() if isinstance(xmp, str) else xmp)))
        date = details.get(ExifTags.Base.DateTimeOriginal) or exif.get(ExifTags.Base.DateTime)
        return exif.get(ExifTags.Base.Orientation, 1), count, _exif_seconds(date)
    except Exception:  # what a decoder raises on damaged bytes is not an enumerable set
        return 1, 0, None


def _exif_seconds(date: object) -> float | None:
    """The time of an EXIF date; None for one before photography, and for one that is still to come."""
    try:
        taken = datetime.strptime(str(date).strip("\0 "), "%Y:%m:%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:  # no date, or zeros from a camera whose clock was never set
        return None
    return taken.timestamp() if _FIRST_PHOTOGRAPH <= taken <= datetime.now(UTC) + _CLOCK else None
