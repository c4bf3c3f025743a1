"""Edits that take detail away or make it up: blur, blocks, noise, compression."""

import io
import math

import numpy as np
from PIL import Image, ImageFilter


def pixelate(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Show blocks, 36 to 72 along the shorter side."""
    block = max(2.0, min(picture.size) / rng.uniform(36, 72))
    small = picture.resize([max(1, round(side / block)) for side in picture.size], Image.Resampling.BOX)
    return small.resize(picture.size, Image.Resampling.NEAREST)


def sharpen(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Sharpen by 150 to 450 %, as often as not far too much."""
    return picture.filter(ImageFilter.UnsharpMask(rng.uniform(0.8, 2.5), int(rng.integers(150, 451)), 0))


def blur(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Blur by a Gaussian of 0.6 to 1.5 % of the shorter side; one time in four, smooth away detail by a median."""
    if rng.random() < 0.25:
        return picture.filter(ImageFilter.MedianFilter(5 if rng.random() < 0.5 and min(picture.size) > 150 else 3))
    return picture.filter(ImageFilter.GaussianBlur(max(0.8, rng.uniform(0.006, 0.015) * min(picture.size))))


def motion_blur(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Blur along a line of 3 to 8 % of the shorter side, as a moved camera does."""
    length = max(3, round(rng.uniform(0.03, 0.08) * min(picture.size)))
    angle = rng.uniform(0, math.pi)
    reach = length // 2 + 1
    padded = np.pad(np.asarray(picture, np.uint16), ((reach, reach), (reach, reach), (0, 0)), "edge")
    total = np.zeros((picture.height, picture.width, 3), np.uint32)
    for step in np.linspace(-length / 2, length / 2, length):
        y, x = reach + round(step * math.sin(angle)), reach + round(step * math.cos(angle))
        total += padded[y : y + picture.height, x : x + picture.width]
    return Image.fromarray((total // length).astype(np.uint8))


def noise(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Add coloured or grey noise with a deviation of 15 to 50, or salt and pepper on 2 to 12 % of the pixels."""
    pixels = np.array(picture)
    if rng.random() < 0.4:
        share, chance = rng.uniform(0.02, 0.12), rng.random(pixels.shape[:2], dtype=np.float32)
        pixels[chance < share / 2] = 0
        pixels[chance > 1 - share / 2] = 255
        return Image.fromarray(pixels)
    shape = pixels.shape if rng.random() < 0.6 else (*pixels.shape[:2], 1)
    grain = rng.standard_normal(shape, dtype=np.float32) * rng.uniform(15, 50)
    return Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8))


def jpeg_twice(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Save at quality 15 to 50, cut a few pixels off so that the blocks lie elsewhere, and save once more."""
    once = compressed(picture, int(rng.integers(15, 51)))
    x, y = (int(rng.integers(1, 8)) if side > 32 else 0 for side in picture.size)
    return compressed(once.crop((x, y, *once.size)), int(rng.integers(15, 51)))


def jpeg_blocks(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Save at quality 4 to 9: the blocks are seen."""
    return compressed(picture, int(rng.integers(4, 10)))


def compressed(picture: Image.Image, quality: int) -> Image.Image:
    """Return the picture as JPEG of this quality keeps it."""
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")
