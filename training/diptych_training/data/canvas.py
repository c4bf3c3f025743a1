"""Neutral means that all edits of pictures draw with: sizes, files, type.

`edits` measures, `augment` and `losses.versions` train, and neither imports the other: what both may use stands here,
where nothing is left to chance and no edit has its range.
"""

import io
from functools import cache

from PIL import Image, ImageFont

SMALLEST = 16  # pixels of a side
Colour = tuple[int, int, int]
Typeface = ImageFont.FreeTypeFont | ImageFont.ImageFont


def save_as(picture: Image.Image, quality: int, form: str = "JPEG") -> Image.Image:
    """Return the picture as a file of this form and quality keeps it."""
    file = io.BytesIO()
    picture.save(file, form, quality=quality)
    return Image.open(file).convert("RGB")


def resize_by(picture: Image.Image, scale: float, scale_y: float | None = None) -> Image.Image:
    """Scale a picture, to no less than 16 pixels a side."""
    factors = (scale, scale if scale_y is None else scale_y)
    sides = [max(SMALLEST, round(side * factor)) for side, factor in zip(picture.size, factors, strict=True)]
    return picture.resize((sides[0], sides[1]), Image.Resampling.BICUBIC)


def bound_sides(picture: Image.Image, least: int, most: int) -> Image.Image:
    """Scale a picture so that its longer side has at most `most` pixels, and its shorter one at least `least`."""
    scale = min(most / max(picture.size), max(1.0, least / min(picture.size)))
    width, height = (min(most, max(least, round(side * scale))) for side in picture.size)
    return picture if (width, height) == picture.size else picture.resize((width, height), Image.Resampling.BICUBIC)


@cache
def load_font(size: int) -> Typeface:
    """Pillow's own typeface, the same on every machine."""
    return ImageFont.load_default(float(size))


def fit_text(text: str, width: float, most: float, least: float = 7) -> int:
    """The size of type, from `least` to `most`, in which the text is no wider than `width`."""
    return max(1, round(max(least, min(most, 100 * width / max(1.0, load_font(100).getlength(text))))))
