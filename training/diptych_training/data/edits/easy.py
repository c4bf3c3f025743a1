"""The seven edits of the easy repertoire. Figures in the documentation were measured with them: their names and their
draws stay as they are.
"""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFont, ImageOps

from diptych_training.data.canvas import save_as
from diptych_training.data.edits.geometry import draw_colour


def crop(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Keep a rectangle of 25 to 80 % of the area."""
    area, stretch = rng.uniform(0.25, 0.8), math.exp(rng.uniform(-0.25, 0.25))
    width = round(picture.width * min(1.0, math.sqrt(area * stretch)))
    height = round(picture.height * min(1.0, math.sqrt(area / stretch)))
    x, y = int(rng.integers(0, picture.width - width + 1)), int(rng.integers(0, picture.height - height + 1))
    return picture.crop((x, y, x + width, y + height))


def flip(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Mirror left to right; one time in five, upside down."""
    return ImageOps.flip(picture) if rng.random() < 0.2 else ImageOps.mirror(picture)


def rotate(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Turn by up to 30 degrees, growing the canvas, or by a quarter."""
    if rng.random() < 0.3:
        return picture.transpose(Image.Transpose.ROTATE_90 if rng.random() < 0.5 else Image.Transpose.ROTATE_270)
    turned = rng.uniform(-30, 30)
    return picture.rotate(turned, Image.Resampling.BICUBIC, expand=True, fillcolor=draw_colour(rng))


def colour(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Change brightness, contrast and saturation by up to 1.8 times, and tint; one time in ten, grey."""
    for enhancer in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        picture = enhancer(picture).enhance(math.exp(rng.uniform(-0.55, 0.55)))
    if rng.random() < 0.1:
        return ImageOps.grayscale(picture).convert("RGB")
    tint = Image.new("RGB", picture.size, draw_colour(rng))
    return Image.blend(picture, tint, rng.uniform(0, 0.2))


def jpeg(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Shrink to 50 to 100 % and save at quality 8 to 30."""
    scale = rng.uniform(0.5, 1.0)
    small = picture.resize((max(16, round(picture.width * scale)), max(16, round(picture.height * scale))))
    return save_as(small, int(rng.integers(8, 31)))


def overlay(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Write a line of text across, or lay a bar or a disc over up to a fifth of the picture."""
    picture = picture.copy()
    draw = ImageDraw.Draw(picture, "RGBA")
    ink = (*draw_colour(rng), int(rng.integers(170, 256)))
    x, y = rng.uniform(0, 0.6) * picture.width, rng.uniform(0, 0.8) * picture.height
    side = rng.uniform(0.2, 0.45) * min(picture.size)
    kind = rng.integers(3)
    if kind == 0:
        words = rng.choice(["SALE", "new!", "sample", "look", "50 % off", "only today", "holiday", "proof"], 2)
        draw.text((x, y), " ".join(words), fill=ink, font=ImageFont.load_default(float(side * 0.6)))
    elif kind == 1:
        draw.rectangle((0, y, picture.width, y + side * 0.6), fill=ink)
    else:
        draw.ellipse((x, y, x + side, y + side), fill=ink)
    return picture


def border(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Frame the picture on a larger canvas of one colour, as a screenshot or a slide does."""
    wide, high = (round(rng.uniform(0.05, 0.35) * side) for side in picture.size)
    canvas = Image.new("RGB", (picture.width + 2 * wide, picture.height + 2 * high), draw_colour(rng))
    canvas.paste(picture, (int(rng.integers(0, 2 * wide + 1)), int(rng.integers(0, 2 * high + 1))))
    return canvas
