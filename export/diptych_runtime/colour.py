"""Colour management: an ICC profile defines the colours of a picture's pixels, and all that Diptych sees is sRGB."""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from typing import Any

from PIL import Image, ImageCms

_SPACES = {"RGB": "RGB", "GRAY": "L", "CMYK": "CMYK"}  # of profiles, and the mode of the pixels they are about
_MOST = 4 * 1024 * 1024  # bytes of a profile; those of presses have up to 3 MB


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
    known = isinstance(profile, bytes) and 0 < len(profile) <= _MOST
    transform = _transform(profile, pixels.mode) if known else None
    if transform is not None:
        return ImageCms.applyTransform(pixels, transform) or pixels
    return pixels if pixels.mode == "RGB" and pixels is not picture else pixels.convert("RGB")


@lru_cache(maxsize=8)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """The transform of a mode's pixels to sRGB; None if they are sRGB already, or if the profile is unreadable or of
    another mode.
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


_SRGB = ImageCms.createProfile("sRGB")
_STEPS = (0, 16, 48, 96, 144, 192, 240, 255)
_ROUNDING = 2
