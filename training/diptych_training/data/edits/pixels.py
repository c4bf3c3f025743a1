"""Edits of colour, light and detail: every pixel stays where it is, or nearly."""

import math

import numpy as np
from PIL import Image, ImageFilter, ImageOps

from diptych_training.data.canvas import save_as

# Rows of a colour matrix, red, green and blue, as Pillow takes them.
FILTERS = {
    "sepia": (0.393, 0.769, 0.189, 0, 0.349, 0.686, 0.168, 0, 0.272, 0.534, 0.131, 0),
    "warm": (1.15, 0.05, 0, 8, 0, 1.0, 0, 4, 0, 0, 0.75, 0),
    "cool": (0.8, 0, 0, 0, 0, 0.97, 0.03, 2, 0, 0.08, 1.15, 10),
    "faded": (0.7, 0.05, 0.05, 45, 0.05, 0.68, 0.05, 45, 0.05, 0.05, 0.62, 55),
    "crossed": (1.25, -0.1, 0, -12, 0, 1.05, 0, 0, 0.1, 0.1, 0.6, 35),
    "noir": (0.42, 0.83, 0.15, -40, 0.42, 0.83, 0.15, -40, 0.42, 0.83, 0.15, -40),
}


def invert(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Turn the picture into its negative; one time in four, into a grey one."""
    return ImageOps.invert(picture if rng.random() >= 0.25 else ImageOps.grayscale(picture).convert("RGB"))


def posterise(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Keep 2 to 4 bits of each colour, of a picture whose range is stretched first."""
    return ImageOps.posterize(ImageOps.autocontrast(picture, cutoff=1), int(rng.integers(2, 5)))


def solarise(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Invert values above a threshold of 80 to 200."""
    return ImageOps.solarize(picture, int(rng.integers(80, 201)))


def channels(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Exchange red, green and blue."""
    order = [(2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1)][rng.integers(5)]
    bands = picture.split()
    return Image.merge("RGB", [bands[i] for i in order])


def duotone(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Print in two inks, a dark and a light one; one time in three, show one channel in grey."""
    if rng.random() < 1 / 3:
        return ImageOps.autocontrast(picture.getchannel(int(rng.integers(3))), cutoff=1).convert("RGB")
    dark, light = rng.integers(0, 90, 3), rng.integers(165, 256, 3)
    grey = ImageOps.autocontrast(ImageOps.grayscale(picture), cutoff=1)
    return ImageOps.colorize(grey, tuple(dark.tolist()), tuple(light.tolist()))


def vignette(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Darken the corners by 40 to 90 %."""
    x = np.linspace(-1, 1, picture.width, dtype=np.float32)
    y = np.linspace(-1, 1, picture.height, dtype=np.float32)[:, None]
    far = np.clip((x * x + y * y) / 2, 0, 1) ** rng.uniform(0.8, 1.6)
    light = 1 - rng.uniform(0.4, 0.9) * far
    return Image.fromarray((np.asarray(picture) * light[..., None]).astype(np.uint8))


def colour_filter(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Lay one of the filters of photo apps over it (sepia, warm, cool, faded, crossed, noir), 60 to 100 % strong."""
    matrix = list(FILTERS.values())[rng.integers(len(FILTERS))]
    return Image.blend(picture, picture.convert("RGB", matrix), rng.uniform(0.6, 1.0))


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
    once = save_as(picture, int(rng.integers(15, 51)))
    x, y = (int(rng.integers(1, 8)) if side > 32 else 0 for side in picture.size)
    return save_as(once.crop((x, y, *once.size)), int(rng.integers(15, 51)))


def jpeg_blocks(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Save at quality 4 to 9: the blocks are seen."""
    return save_as(picture, int(rng.integers(4, 10)))
