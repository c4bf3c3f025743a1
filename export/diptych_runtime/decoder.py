"""The one decoder: from bytes, a file, a Pillow image or an array to the pixels every part of Diptych sees."""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageCms, features
from PIL.AvifImagePlugin import AvifImageFile
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from diptych_runtime.crops import crop_boxes
from diptych_runtime.errors import PictureError, TooLargeError
from diptych_runtime.picture_facts import mpo_frames, tiff_pages
from diptych_runtime.png_chunks import skip_text
from diptych_runtime.unread_formats import OTHER_FORMATS

try:
    from pillow_heif import HeifImageFile
except ImportError:  # the extra `heif` brings it
    HeifImageFile = None

PictureSource = bytes | str | os.PathLike[str] | Image.Image | np.ndarray

# HEIF too where it cannot be read: who has such files is told what to install, and not that there are none.
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".heic", ".heif"}
)

_READERS: dict[str, type[ImageFile]] = {
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "WEBP": WebPImageFile,
    "GIF": GifImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
}
if features.check("avif"):  # Pillow can be built without
    _READERS["AVIF"] = AvifImageFile
if HeifImageFile is not None:
    _READERS["HEIF"] = HeifImageFile
FORMATS = tuple(_READERS)
_ANY = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"

_SIGNATURES = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
)
# Of ISO 23008-12 (HEIF), annex B, and of AVIF; further names in these files say only that one of these follows.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs"), "HEIF"),
}
_MOST_BRANDS = 256  # bytes
_NEAR_WHITE = [0] * 240 + [255] * 16  # by brightness
_HIDDEN = 0.95  # of what is opaque: so much that is hidden on white leaves nothing to be recognised
# An ICC profile defines the colours of a picture's pixels, and all that Diptych sees is sRGB.
_SPACES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}  # of profiles, and the mode of the pixels they are about
_MOST_PROFILE = 4 * 1024 * 1024  # bytes; the profiles of presses have up to 3 MB
_SRGB = ImageCms.createProfile("sRGB")
_STEPS = (0, 16, 48, 96, 144, 192, 240, 255)
_ROUNDING = 2
_ORIENTATION_TAG = 0x0112
_ORIENTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@dataclass(frozen=True)
class PictureLimits:
    """The limits of pictures that are read: at most `bytes` of file, at most `pixels` in the header, no side shorter
    than `side`.
    """

    bytes: int = 32 * 1024 * 1024
    pixels: int = 64_000_000
    side: int = 8

    def check_bytes(self, size: int, label: str) -> None:
        """Raise TooLargeError for a file of more bytes."""
        if size > self.bytes:
            raise TooLargeError(
                f"{label} has {size:,} bytes, more than the {self.bytes:,} that are allowed (DIPTYCH_PICTURE_BYTES)"
            )


_DEFAULT_LIMITS = PictureLimits()


def open_picture(
    source: PictureSource,
    limits: PictureLimits = _DEFAULT_LIMITS,
    *,
    name: str | None = None,
    least: int | None = None,
) -> Image.Image:
    """Decode a picture to RGB: `open_picture("cat.jpg").size`.

    A string or path is a file. The first frame of an animation counts; the EXIF orientation is applied, colours with an
    ICC profile become sRGB, transparency is laid on white, or on black where white would hide what is drawn, and 16-bit
    grey is scaled to 8 bits. `name` stands in error texts in place of the path. With `least` a JPEG may come smaller
    than it is, with at least so many pixels on each side, which is several times faster. Raises PictureError for
    everything that cannot be read as a picture within the limits.
    """
    return _decode_source(source, limits, name, least)


def open_frames(data: bytes, limits: PictureLimits = _DEFAULT_LIMITS) -> Iterator[Image.Image]:
    """Decode the frames of an animation, the pages of a TIFF, or the pictures of a burst to RGB, the first one first.

    Together they have no more pixels than one picture may have. Raises PictureError where they have, and for a frame
    that cannot be read.
    """
    label, pixels = "a frame of the picture", 0
    with read_header(data, label) as picture:
        is_jpeg = picture.format == "JPEG"
        for place in mpo_frames(data) if is_jpeg else _frame_numbers(picture, data):
            if isinstance(place, int):
                frame = picture
                with _explain_decoder_errors(label):
                    picture.seek(place)
            else:
                frame = read_header(data[slice(*place)], label)
            pixels += frame.width * frame.height
            if pixels > limits.pixels:
                raise PictureError(f"all frames together have more than {limits.pixels / 1e6:,.1f} megapixels")
            yield _load_upright(frame, label)


def _frame_numbers(picture: ImageFile, data: bytes) -> list[int]:
    if picture.format == "TIFF":
        return tiff_pages(data)
    count, first = getattr(picture, "n_frames", 1), picture.tell()
    return [first, *(place for place in range(count) if place != first)]


def panel_pixels(
    source: PictureSource, size: int, limits: PictureLimits = _DEFAULT_LIMITS, *, name: str | None = None
) -> np.ndarray:
    """The picture as the network sees it: uint8 (size, size, 3), squashed to a square, nothing cropped.

    JPEGs are decoded at a reduced scale where that is enough, so this is several times faster than `open_picture`.
    Raises PictureError like `open_picture`.
    """
    return _squash_picture(_decode_source(source, limits, name, size), size)


def query_pixels(
    source: PictureSource,
    size: int,
    crops: float,
    limits: PictureLimits = _DEFAULT_LIMITS,
    *,
    name: str | None = None,
) -> np.ndarray:
    """A query as the network sees it: uint8 (V, size, size, 3), the whole picture, as in `panel_pixels`, and then its
    crops of that share of its sides (see `crops`); V is 1 where that is 0.

    Raises PictureError like `open_picture`.
    """
    picture = _decode_source(source, limits, name, size)
    views = [_squash_picture(picture, size)]
    if crops:
        if min(picture.size) < (finer := math.ceil(size / crops)):  # a JPEG may have more to give
            picture = _decode_source(source, limits, name, finer)
        width, height = picture.size
        for left, top, right, bottom in crop_boxes(crops):
            box = (int(left * width), int(top * height), math.ceil(right * width), math.ceil(bottom * height))
            views.append(_squash_picture(picture.crop(box), size))
    return np.stack(views)


def _squash_picture(picture: Image.Image, size: int) -> np.ndarray:
    return np.array(picture.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=2.0))


def _decode_source(source: PictureSource, limits: PictureLimits, name: str | None, least: int | None) -> Image.Image:
    label = name or _source_label(source)
    if isinstance(source, Image.Image | np.ndarray):
        picture = source if isinstance(source, Image.Image) else _from_array(source, label)
        _check_size(picture, limits, label)
        return _load_upright(picture, label)
    data = _bytes_of(source, limits, label)
    with read_header(data, label) as picture:
        _check_size(picture, limits, label)
        if least is not None and picture.format == "JPEG":
            # A factor is taken only if both sides stay at least as long as asked. (HEIF would give the small picture
            # that was put beside the large one, and who knows what that shows.)
            picture.draft("RGB", (least, least))
        return _load_upright(picture, label)


def file_bytes(source: PictureSource, limits: PictureLimits = _DEFAULT_LIMITS) -> bytes | None:
    """The bytes of a picture's file; None of pixels in memory, which have none. Raises PictureError."""
    if isinstance(source, Image.Image | np.ndarray):
        return None
    return _bytes_of(source, limits, _source_label(source))


def _bytes_of(source: bytes | str | os.PathLike[str], limits: PictureLimits, label: str) -> bytes:
    data = (
        bytes(source) if isinstance(source, bytes | bytearray | memoryview) else _read_file(Path(source), limits, label)
    )
    if not data:
        raise PictureError(f"{label} is empty (0 bytes); expected a picture ({_ANY})")
    limits.check_bytes(len(data), label)
    return data


def _source_label(source: PictureSource) -> str:
    if isinstance(source, Image.Image | np.ndarray):
        return f"the {type(source).__name__}"
    if isinstance(source, bytes | bytearray | memoryview):
        return "the picture"
    if isinstance(source, str | os.PathLike):
        return os.fspath(source) or "''"
    raise PictureError(f"expected bytes, a path, a Pillow image or a NumPy array, got {type(source).__name__}")


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise PictureError for a path that is no file, or not in a format that can be read, by its first bytes alone.

    For errors that need not wait until a model is loaded.
    """
    label = os.fspath(path) or "''"
    with _explain_file_errors(label):
        _file_status(Path(path), label)
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BRANDS)
    if data:  # of an empty file `open_picture` says more
        _readable_format(data, label)


def _read_file(path: Path, limits: PictureLimits, label: str) -> bytes:
    with _explain_file_errors(label):
        limits.check_bytes(_file_status(path, label).st_size, label)
        return path.read_bytes()


def _file_status(path: Path, label: str) -> os.stat_result:
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise PictureError(f"{label} is a folder; expected a picture file")
    if not stat.S_ISREG(status.st_mode):
        raise PictureError(f"{label} is not a regular file; expected a picture file")
    return status


@contextmanager
def _explain_file_errors(label: str) -> Iterator[None]:
    """Raise a PictureError for an error of the system about a file."""
    try:
        yield
    except FileNotFoundError:
        hint = "; a web address must be downloaded first" if "://" in str(label) else ""
        raise PictureError(f"{label} does not exist{hint}") from None
    except (OSError, ValueError) as error:
        if isinstance(error, PictureError):
            raise
        reason = getattr(error, "strerror", None) or error
        raise PictureError(f"{label} cannot be read: {reason}") from None


def read_header(data: bytes, label: str) -> ImageFile:
    """The file's reader, with its header read and no pixel decoded. Raises PictureError.

    The readers are called by class and not through `Image.open`: that one knows further formats, and meets a
    decompression bomb with a process-wide warning filter, which threads cannot change safely.
    """
    kind = _readable_format(data, label)
    try:
        if kind != "PNG":
            return _READERS[kind](BytesIO(data), label)
        pixels, profile = skip_text(data)
        picture = PngImageFile(BytesIO(pixels), label)
        if profile is not None:
            picture.info["icc_profile"] = profile
        return picture
    except MemoryError:
        raise
    except Exception as error:  # as in `_explain_decoder_errors`
        raise PictureError(f"{label} is damaged: its {kind} header cannot be read ({_error_text(error)})") from None


def _readable_format(data: bytes, label: str) -> str:
    """The format by a file's first bytes. Raises PictureError for one that cannot be read here."""
    kind = picture_format(data)
    if kind is None:
        # By its ending: a file that begins as none of ours may be anything.
        known = OTHER_FORMATS.get(os.path.splitext(label)[1].lower())  # noqa: PTH122 - it may be no path
        raise PictureError(
            f"{label} is {known}" if known else f"{label} is not in a format that can be read; expected {_ANY}"
        )
    if kind not in _READERS:
        way = "`pip install 'diptych[heif]'`" if kind == "HEIF" else "a Pillow that was built with libavif"
        raise PictureError(f"{label} is {kind}, which cannot be read here: that needs {way}; or save it as JPEG")
    return kind


def picture_format(data: bytes) -> str | None:
    """The format by a file's first bytes, readable here or not; None if unknown."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp":
        end = min(int.from_bytes(data[:4]), _MOST_BRANDS)
        brands = (data[start : start + 4] for start in (8, *range(16, end, 4)))
        return next((_BRANDS[brand] for brand in brands if brand in _BRANDS), None)
    return next((kind for signature, kind in _SIGNATURES if data.startswith(signature)), None)


def _check_size(picture: Image.Image, limits: PictureLimits, label: str) -> None:
    width, height = picture.size
    if width * height > limits.pixels:
        raise PictureError(
            f"{label} is {width}x{height}, {width * height / 1e6:,.1f} megapixels; "
            f"at most {limits.pixels / 1e6:,.1f} are allowed (DIPTYCH_PICTURE_PIXELS): scale it down first"
        )
    if min(width, height) < limits.side:
        raise PictureError(f"{label} is {width}x{height}; each side must have at least {limits.side} pixels")


def _load_upright(picture: Image.Image, label: str) -> Image.Image:
    """The picture decoded, upright and in RGB, always as a new image."""
    with _explain_decoder_errors(label):
        picture.load()
        if picture.mode not in ("I", "F"):
            return _turn_upright(_to_rgb(picture), picture)
    raise PictureError(
        f"{label} has 32-bit pixels (mode {picture.mode}), which have no agreed white; save it with 8 or 16 bits"
    )


@contextmanager
def _explain_decoder_errors(label: str) -> Iterator[None]:
    """Raise a PictureError for an error of a decoder, which is in no enumerable set on damaged bytes."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        raise PictureError(f"{label} is damaged or cut short: {_error_text(error)}") from None


def _to_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16"):
        # Pillow would clip at 255. 257 = 65535 / 255; half of it is added to round.
        grey = (np.asarray(picture).astype(np.uint32) + 128) // 257
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if picture.has_transparency_data:
        opacity = (picture if picture.mode == "RGBA" else picture.convert("RGBA")).getchannel("A")
        colours = to_srgb(picture)
        ground = Image.new("RGB", picture.size, _background_colour(colours, opacity))
        ground.paste(colours, mask=opacity)
        return ground
    return to_srgb(picture)


def _background_colour(colours: Image.Image, opacity: Image.Image) -> str:
    """The background of a picture with transparency: white, or black if the picture itself is nearly all white."""
    if opacity.getextrema()[0] == 255:
        return "white"
    near_white = colours.convert("L").point(_NEAR_WHITE)
    seen, unseen = (
        sum(value * count for value, count in enumerate(opacity.histogram(mask))) for mask in (None, near_white)
    )
    return "black" if unseen > _HIDDEN * seen else "white"


def _turn_upright(rgb: Image.Image, original: Image.Image) -> Image.Image:
    try:
        method = _ORIENTATIONS.get(original.getexif().get(_ORIENTATION_TAG, 1))
    except Exception:  # a broken EXIF block does not spoil the pixels
        method = None
    return rgb if method is None else rgb.transpose(method)


def _from_array(array: np.ndarray, label: str) -> Image.Image:
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    grey = array.ndim == 2 and array.dtype in (np.uint8, np.uint16)
    colour = array.ndim == 3 and array.shape[2] in (3, 4) and array.dtype == np.uint8
    if not (grey or colour):
        raise PictureError(
            f"{label} is {array.dtype} {array.shape}; expected uint8 (height, width, 3 or 4), or grey as "
            "uint8 or uint16 (height, width)"
        )
    if 0 in array.shape:
        raise PictureError(f"{label} has the shape {array.shape} and no pixels")
    return Image.fromarray(array)


def _error_text(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def to_srgb(picture: Image.Image) -> Image.Image:
    """A picture of 8 bits with its colours as they are in sRGB, as RGB; the profile is that of its file.

    Without a profile, with a damaged one, and with one that is for other pixels, colours are taken as they are, as web
    browsers do. Transparency is lost.
    """
    profile, pixels = picture.info.get("icc_profile"), picture
    if pixels.mode == "P":
        pixels = pixels.convert("RGBA")  # to RGB, Pillow would warn of what is transparent
    if pixels.mode not in _SPACES.values():
        pixels = pixels.convert("L" if pixels.mode in ("1", "LA") else "RGB")
    known = isinstance(profile, bytes) and 0 < len(profile) <= _MOST_PROFILE
    transform = _srgb_transform(profile, pixels.mode) if known else None
    if transform is not None:
        return ImageCms.applyTransform(pixels, transform) or pixels
    return pixels if pixels.mode == "RGB" and pixels is not picture else pixels.convert("RGB")


@lru_cache(maxsize=8)
def _srgb_transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """The transform of a mode's pixels to sRGB; None where there is nothing to transform.

    That is if they are sRGB already, or if the profile is unreadable or of another mode.
    """
    try:
        read = ImageCms.ImageCmsProfile(BytesIO(profile))
        core: Any = read.profile
        if _SPACES.get(core.xcolor_space.strip()) != mode:
            return None
        transform = ImageCms.buildTransform(read, _SRGB, mode, "RGB")
    except (OSError, ImageCms.PyCMSError):
        return None
    return None if mode == "RGB" and _changes_nothing(transform) else transform


def _changes_nothing(transform: ImageCms.ImageCmsTransform) -> bool:
    """True if the profile is one of the many of sRGB, which differ in rounding."""
    colours = bytes(value for r in _STEPS for g in _STEPS for b in _STEPS for value in (r, g, b))
    before = Image.frombytes("RGB", (len(colours) // 3, 1), colours)
    after = ImageCms.applyTransform(before, transform) or before
    return all(abs(a - b) <= _ROUNDING for a, b in zip(colours, after.tobytes(), strict=True))
