"""Edits of shape: what of the picture is seen, and where."""

import math

import numpy as np
from PIL import Image, ImageFilter, ImageOps, ImageStat

from diptych_training.data.canvas import SMALLEST, Colour, resize_by


def small_crop(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Keep 5 to 25 % of the area and enlarge that 1.5 to 2.5 times.

    Of four places drawn, the one with most edges: people cut out what there is to see.
    """
    share, stretch = rng.uniform(0.05, 0.25), math.exp(rng.uniform(-0.3, 0.3))
    width = max(1, round(picture.width * min(1.0, math.sqrt(share * stretch))))
    height = max(1, round(picture.height * min(1.0, math.sqrt(share / stretch))))
    places = rng.random((4, 2)) * (picture.width - width + 1, picture.height - height + 1)
    parts = [picture.crop((x, y, x + width, y + height)) for x, y in places.astype(int).tolist()]
    return resize_by(max(parts, key=_measure_edges), rng.uniform(1.5, 2.5))


def _measure_edges(picture: Image.Image) -> float:
    return ImageStat.Stat(picture.convert("L").filter(ImageFilter.FIND_EDGES)).mean[0]


def stretch(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Change the ratio of the sides to 0.5 to 2 times its value, by at least a tenth."""
    ratio = math.exp(rng.choice([-1, 1]) * rng.uniform(0.1, math.log(2)))
    return resize_by(picture, math.sqrt(ratio), 1 / math.sqrt(ratio))


def square(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Pad to a square, and up to 10 % more, in black, white or the picture itself, enlarged and blurred."""
    more = max(0.0, rng.uniform(-0.1, 0.1))
    side = round(max(max(picture.size) * (1 + more), min(picture.size) * 1.05))  # a square one gets a rim
    kind = rng.integers(3)
    if kind < 2:
        canvas = Image.new("RGB", (side, side), (0, 0, 0) if kind == 0 else (255, 255, 255))
    else:
        # Blurred small, which looks the same as blurred large and takes a tenth of the time.
        behind = ImageOps.fit(picture, (64, 64)).filter(ImageFilter.GaussianBlur(rng.uniform(2, 5)))
        canvas = behind.resize((side, side), Image.Resampling.BICUBIC).point(lambda value: value * 0.8)
    canvas.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
    return canvas


def turn(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Turn by any angle; the canvas grows, one time in three only the middle is kept so that no corner shows."""
    angle = rng.uniform(5, 355)
    if rng.random() < 1 / 3:
        cosine, sine = abs(math.cos(math.radians(angle))), abs(math.sin(math.radians(angle)))
        width, height = picture.size
        scale = min(
            width / (width * cosine + height * sine), height / (width * sine + height * cosine)
        )  # of the largest rectangle of this shape that fits in the turned one
        turned = picture.rotate(angle, Image.Resampling.BICUBIC)
        wide, high = max(SMALLEST, width * scale), max(SMALLEST, height * scale)
        x, y = max(0, round((width - wide) / 2)), max(0, round((height - high) / 2))
        return turned.crop((x, y, width - x, height - y))
    return picture.rotate(angle, Image.Resampling.BICUBIC, expand=True, fillcolor=draw_ground(rng))


def perspective(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """See it from an angle, each corner moved inwards by up to 25 % of the side; one time in three, shear it."""
    width, height = picture.size
    if rng.random() < 1 / 3:
        shift = rng.choice([-1, 1]) * rng.uniform(0.1, 0.45)
        if rng.random() < 0.5:
            size = (round(width + abs(shift) * height), height)
            slant = (1, -shift, min(0.0, shift) * height, 0, 1, 0)
        else:
            size = (width, round(height + abs(shift) * width))
            slant = (1, 0, 0, -shift, 1, min(0.0, shift) * width)
        return picture.transform(
            size, Image.Transform.AFFINE, slant, Image.Resampling.BICUBIC, fillcolor=draw_ground(rng)
        )
    inwards = rng.uniform(0, 0.25, (4, 2))
    return warp_into(picture, inwards, picture.size, draw_ground(rng))


def mirror_tile(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Set mirror images beside, below, or beside and below it."""
    across, down = [(2, 1), (1, 2), (2, 2)][rng.integers(3)]
    width, height = picture.size
    canvas = Image.new("RGB", (width * across, height * down))
    canvas.paste(picture, (0, 0))
    if across == 2:
        canvas.paste(ImageOps.mirror(picture), (width, 0))
    if down == 2:
        canvas.paste(ImageOps.flip(canvas.crop((0, 0, canvas.width, height))), (0, height))
    return canvas


def warp_into(picture: Image.Image, inwards: np.ndarray, size: tuple[int, int], fill: Colour) -> Image.Image:
    """Draw the picture into a quadrangle on a canvas of `size`.

    `inwards` (4, 2) says how far, as a share of the sides, its corners lie from those of the canvas: top left, top
    right, bottom right, bottom left.
    """
    width, height = size
    signs = np.array([(1, 1), (-1, 1), (-1, -1), (1, -1)])
    corners = np.array([(0, 0), (width, 0), (width, height), (0, height)]) + signs * inwards * (width, height)
    w, h = picture.size
    source = ((0, 0), (w, 0), (w, h), (0, h))
    rows, values = [], []
    for (x, y), (u, v) in zip(corners.tolist(), source, strict=True):
        rows += [(x, y, 1, 0, 0, 0, -u * x, -u * y), (0, 0, 0, x, y, 1, -v * x, -v * y)]
        values += [u, v]
    inverse = np.linalg.solve(np.array(rows, float), np.array(values, float)).tolist()
    return picture.transform(size, Image.Transform.PERSPECTIVE, inverse, Image.Resampling.BICUBIC, fillcolor=fill)


def draw_ground(rng: np.random.Generator) -> Colour:
    """The colour of an empty canvas: black or white mostly, otherwise any."""
    kind = rng.random()
    if kind < 0.35:
        return (0, 0, 0)
    return (255, 255, 255) if kind < 0.75 else draw_colour(rng)


def draw_colour(rng: np.random.Generator, least: int = 0, most: int = 255) -> Colour:
    """A colour with red, green and blue each from `least` to `most`."""
    red, green, blue = rng.integers(least, most + 1, 3).tolist()
    return red, green, blue
