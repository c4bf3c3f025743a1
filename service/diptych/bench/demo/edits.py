"""Edits of pictures that are passed on: cropped, turned, recoloured, written over, saved small."""

import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

WORDS = ["for sale", "look at this", "2019", "draft", "the view", "SAMPLE", "so calm", "no. 7", "wish you were here"]


def edit_copy(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A copy with one to three different edits, saved once more as a small JPEG."""
    names = [str(name) for name in rng.choice(list(EDITS), int(rng.integers(1, 4)), replace=False)]
    for name in names:
        picture = EDITS[name](picture, rng)
    return picture if "jpeg" in names else _compress_jpeg(picture, rng, quality=88)


def _crop_picture(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    share = rng.uniform(0.6, 0.85)
    width, height = round(picture.width * share), round(picture.height * share)
    left, top = int(rng.integers(picture.width - width + 1)), int(rng.integers(picture.height - height + 1))
    return picture.crop((left, top, left + width, top + height))


def _flip_picture(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    return ImageOps.mirror(picture)


def _rotate_picture(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    if rng.uniform() < 0.3:
        return picture.transpose(Image.Transpose.ROTATE_90)
    return picture.rotate(float(rng.uniform(-14, 14)), Image.Resampling.BICUBIC, expand=True, fillcolor=(255, 255, 255))


def _change_colours(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    if rng.uniform() < 0.25:
        return ImageOps.grayscale(picture).convert("RGB")
    for enhance in (ImageEnhance.Color, ImageEnhance.Brightness, ImageEnhance.Contrast):
        picture = enhance(picture).enhance(float(rng.uniform(0.65, 1.4)))
    return picture


def _compress_jpeg(picture: Image.Image, rng: np.random.Generator, quality: int | None = None) -> Image.Image:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=int(rng.integers(12, 35)) if quality is None else quality)
    return Image.open(file).convert("RGB")


def _draw_text(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    picture = picture.copy()
    draw, size = ImageDraw.Draw(picture), picture.height / rng.uniform(6, 11)
    at = (picture.width * rng.uniform(0.05, 0.3), picture.height * rng.uniform(0.05, 0.8))
    ink = (255, 255, 255) if rng.uniform() < 0.7 else (250, 210, 60)
    draw.text(at, str(rng.choice(WORDS)), ink, ImageFont.load_default(size), stroke_width=2, stroke_fill=(20, 20, 20))
    return picture


def _add_border(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    fill = [(255, 255, 255), (12, 12, 12), (232, 214, 186)][int(rng.integers(3))]
    return ImageOps.expand(picture, round(picture.height * rng.uniform(0.04, 0.14)), fill)


def _blur_picture(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    share = rng.uniform(0.3, 0.5)
    small = picture.resize((round(picture.width * share), round(picture.height * share)), Image.Resampling.BILINEAR)
    return small.resize(picture.size, Image.Resampling.BILINEAR)


EDITS: dict[str, Callable[[Image.Image, np.random.Generator], Image.Image]] = {
    "crop": _crop_picture,
    "flip": _flip_picture,
    "rotate": _rotate_picture,
    "colour": _change_colours,
    "jpeg": _compress_jpeg,
    "text": _draw_text,
    "border": _add_border,
    "blur": _blur_picture,
}
