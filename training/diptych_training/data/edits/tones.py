"""Edits of colour and light: every pixel stays where it is."""

import numpy as np
from PIL import Image, ImageOps

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
