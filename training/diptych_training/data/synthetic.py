"""Pictures drawn by a program: a free and endless source for the copy task, and look-alikes that are not copies.

They come in families: one palette, ground and stock of shapes, of which every member shows others at other places.
"""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

MEMBERS = 5


def draw_pictures(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Draw pictures, uint8 (count, size, size, 3), each five in a row a family; the same seed, the same pictures."""
    return np.stack([_draw_picture(seed, *divmod(i, MEMBERS), size) for i in range(count)])


def _draw_picture(seed: int, family: int, member: int, size: int) -> np.ndarray:
    stock, own = np.random.default_rng((seed, family)), np.random.default_rng((seed, family, member))
    palette = [tuple(int(c) for c in colour) for colour in stock.integers(0, 256, (int(stock.integers(3, 7)), 3))]
    picture = _draw_ground(stock, palette, size)
    draw = ImageDraw.Draw(picture)
    kinds = [int(kind) for kind in stock.integers(0, 5, int(stock.integers(2, 5)))]
    scale = stock.uniform(0.05, 0.3)
    for _ in range(int(own.integers(4, 24))):
        _draw_shape(draw, own, kinds[own.integers(len(kinds))], palette[own.integers(len(palette))], scale, size)
    if stock.random() < 0.4:
        picture = picture.filter(ImageFilter.GaussianBlur(float(stock.uniform(0.3, 1.5))))
    pixels = np.asarray(picture, np.float32) + own.normal(0, stock.uniform(0, 10), (size, size, 1))
    return pixels.clip(0, 255).astype(np.uint8)


def _draw_ground(rng: np.random.Generator, palette: list[tuple[int, ...]], size: int) -> Image.Image:
    """A gradient between two colours, or a coarse cloud of them."""
    one, other = (np.array(palette[rng.integers(len(palette))], np.float32) for _ in range(2))
    if rng.random() < 0.5:
        angle, line = rng.uniform(0, 2 * math.pi), np.linspace(-0.5, 0.5, size)
        share = 0.5 + line[None, :] * math.cos(angle) + line[:, None] * math.sin(angle)
    else:
        coarse = rng.random((int(rng.integers(2, 9)),) * 2).astype(np.float32)
        share = np.asarray(Image.fromarray(coarse, "F").resize((size, size), Image.Resampling.BICUBIC))
    share = share.clip(0, 1)[..., None]
    return Image.fromarray((one * share + other * (1 - share)).astype(np.uint8))


def _draw_shape(
    draw: ImageDraw.ImageDraw, rng: np.random.Generator, kind: int, colour: tuple[int, ...], scale: float, size: int
) -> None:
    x, y = rng.uniform(-0.1, 1.1, 2) * size
    reach = scale * size * rng.uniform(0.4, 1.6)
    angle = rng.uniform(0, 2 * math.pi)
    match kind:
        case 0:
            flat = reach * rng.uniform(0.4, 1)
            draw.ellipse((x - reach, y - flat, x + reach, y + flat), fill=colour)
        case 1 | 2:
            corners = int(rng.integers(3, 8))
            turns = [angle + 2 * math.pi * i / corners for i in range(corners)]
            radii = reach * (rng.uniform(0.4, 1, corners) if kind == 2 else np.ones(corners))
            points = [(x + r * math.cos(t), y + r * math.sin(t)) for r, t in zip(radii, turns, strict=True)]
            draw.polygon(points, fill=colour)
        case 3:
            end = (x + 3 * reach * math.cos(angle), y + 3 * reach * math.sin(angle))
            draw.line(((x, y), end), fill=colour, width=max(1, round(reach * 0.15)))
        case _:
            letters = "".join(chr(c) for c in rng.integers(97, 123, int(rng.integers(2, 7))))
            draw.text((x, y), letters, fill=colour, font=ImageFont.load_default(max(6.0, float(reach) * 0.6)))
