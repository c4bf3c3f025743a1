"""Captions and screenshots, drawn once as RGBA pictures that edits lay over views."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

WIDTH, STRIP = 240, 60  # pixels of a screenshot's side, and of a strip's height
TEXT = (
    "the when you your me not that this is was what nobody everyone monday finally just one does how why so they like "
    "best never always day sale new today only free follow share photo garden home made with love good morning happy "
    "birthday no yes wait look top 10 2024 50% www .com @user #tbt copy sample preview stock image watch more"
)


class Layers(NamedTuple):
    """Drawn layers, RGBA uint8, and each screenshot's window as (left, top, right, bottom) in [-1, 1], float (n, 4).

    `bars` are opaque strips with text, `titles` outlined text alone, `marks` plain text alone: (n, 4, 60, 240).
    """

    bars: Tensor
    titles: Tensor
    marks: Tensor
    screenshots: Tensor
    windows: Tensor

    def to(self, device: torch.device | str) -> "Layers":
        """The same layers on a device."""
        return Layers(*(layer.to(device) for layer in self))


def draw_layers(count: int, seed: int) -> Layers:
    """Draw `count` layers of each sort."""
    rng = np.random.default_rng(seed)
    bars, titles, marks = (_stack([_strip(rng, sort) for _ in range(count)]) for sort in ("bar", "title", "mark"))
    drawn = [_web_page(rng) if rng.random() < 0.5 else _phone(rng) for _ in range(count)]
    windows = torch.tensor([window for _, window in drawn], dtype=torch.float32) * (2 / WIDTH) - 1
    return Layers(bars, titles, marks, _stack([picture for picture, _ in drawn]), windows)


@lru_cache(maxsize=2)
def standard_layers(device: str) -> Layers:
    """The layers of edits that are given none: 64 of each sort, from seed 0, drawn once."""
    return draw_layers(64, 0).to(device)


def _stack(pictures: list[Image.Image]) -> Tensor:
    return torch.from_numpy(np.stack([np.asarray(picture) for picture in pictures])).permute(0, 3, 1, 2).contiguous()


def _colour(rng: np.random.Generator) -> tuple[int, int, int]:
    red, green, blue = rng.integers(0, 256, 3).tolist()
    return red, green, blue


def _text(rng: np.random.Generator, words: int) -> str:
    text = " ".join(rng.choice(TEXT.split(), words).tolist())
    return [text.upper(), text.capitalize(), text][rng.integers(3)]


def _strip(rng: np.random.Generator, sort: str) -> Image.Image:
    ground: tuple[int, ...] = (0, 0, 0, 0)
    ink, stroke, outline = (255, 255, 255), 0, (0, 0, 0)
    if sort == "bar":
        ground, ink = [((255,) * 3, (0,) * 3), ((0,) * 3, (255,) * 3), (_colour(rng), (255,) * 3)][rng.integers(3)]
    elif sort == "title":
        stroke = int(rng.integers(1, 4))
        if rng.random() < 0.4:
            ink = _colour(rng)
    else:
        ink = [(255, 255, 255), (0, 0, 0), (200, 200, 200), _colour(rng)][rng.integers(4)]
    picture = Image.new("RGBA", (WIDTH, STRIP), ground if len(ground) == 4 else (*ground, 255))
    draw = ImageDraw.Draw(picture)
    lines = int(rng.integers(1, 3)) if sort != "mark" else 1
    height = STRIP / lines
    for line in range(lines):
        size = height * float(rng.uniform(0.5, 0.8))
        text = _text(rng, int(rng.integers(2, 7)))
        font = ImageFont.load_default(size)
        # Text that does not fit is set smaller, down to where it is still text, and else runs off the edge.
        size = max(size * min(1.0, WIDTH * 0.95 / max(font.getlength(text), 1)), 12)
        font = ImageFont.load_default(size)
        middle = (WIDTH / 2, height * (line + 0.5))
        draw.text(middle, text, ink, font, anchor="mm", stroke_width=stroke, stroke_fill=outline)
    return picture


def _page(rng: np.random.Generator) -> tuple[Image.Image, ImageDraw.ImageDraw, tuple[int, ...], tuple[int, ...]]:
    dark = rng.random() < 0.35
    ground, ink = ((18, 18, 20), (225, 225, 225)) if dark else ((250, 250, 250), (40, 40, 40))
    picture = Image.new("RGBA", (WIDTH, WIDTH), (*ground, 255))
    return picture, ImageDraw.Draw(picture), ground, ink


def _lines(
    draw: ImageDraw.ImageDraw, rng: np.random.Generator, box: tuple[int, int, int, int], ink: tuple[int, ...]
) -> None:
    """Lines of text, from the top of a box to its bottom."""
    left, top, right, bottom = box
    size = int(rng.integers(7, 12))
    font = ImageFont.load_default(size)
    for y in range(top + 2, bottom - size, size + 4):
        text = _text(rng, int(rng.integers(2, 9)))
        while text and font.getlength(text) > right - left:
            text = text[:-3]
        draw.text((left, y), text, ink, font)


def _tiles(draw: ImageDraw.ImageDraw, rng: np.random.Generator, box: tuple[int, int, int, int]) -> None:
    """A row of coloured tiles, as pages show other pictures."""
    left, top, right, bottom = box
    count = int(rng.integers(2, 5))
    step = (right - left) / count
    for tile in range(count):
        corner = left + step * tile
        draw.rounded_rectangle((corner + 2, top + 2, corner + step - 2, bottom - 2), 4, fill=_colour(rng))


def _phone(rng: np.random.Generator) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """A phone's app around a picture of the screen's full width; the screen is squashed to a square, as panels are."""
    picture, draw, _, ink = _page(rng)
    tint = _colour(rng)
    draw.text((8, 2), f"{rng.integers(24)}:{rng.integers(10, 60)}", ink, ImageFont.load_default(8))
    draw.rectangle((WIDTH - 24, 4, WIDTH - 10, 9), fill=ink)
    top, height = int(rng.integers(14, 60)), int(rng.integers(90, 170))
    bottom = min(top + height, WIDTH - 20)
    draw.ellipse((8, top - 12, 18, top - 3), fill=tint)
    _lines(draw, rng, (24, max(12, top - 16), WIDTH - 40, top), ink)
    for button in range(3):
        draw.ellipse((10 + button * 24, bottom + 5, 22 + button * 24, bottom + 13), outline=ink, width=2)
    _lines(draw, rng, (10, bottom + 15, WIDTH - 20, WIDTH - 12), ink)
    draw.rectangle((0, WIDTH - 12, WIDTH, WIDTH), fill=tint if rng.random() < 0.4 else None)
    inset = int(rng.choice([0, 0, 8]))
    return picture, (inset, top, WIDTH - inset, bottom)


def _web_page(rng: np.random.Generator) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """A browser's window with a picture in a page."""
    picture, draw, _, ink = _page(rng)
    draw.rectangle((0, 0, WIDTH, 20), fill=(210, 214, 220) if rng.random() < 0.6 else _colour(rng))
    for button, fill in enumerate(((240, 90, 80), (240, 190, 60), (90, 200, 90))):
        draw.ellipse((5 + button * 9, 4, 11 + button * 9, 10), fill=fill)
    draw.rounded_rectangle((40, 5, WIDTH - 20, 15), 4, fill=(255, 255, 255))
    draw.text((46, 5), "www." + str(rng.choice(TEXT.split())) + ".com", (60, 60, 60), ImageFont.load_default(7))
    width, height = int(rng.integers(110, 220)), int(rng.integers(100, 190))
    left, top = int(rng.integers(8, WIDTH - width - 6)), int(rng.integers(24, WIDTH - height - 4))
    right, bottom = left + width, top + height
    _lines(draw, rng, (left, 22, WIDTH - 4, top), ink)
    for side in ((4, top, left - 4, bottom), (right + 6, top, WIDTH - 4, bottom)):
        if side[2] - side[0] > 24:
            _lines(draw, rng, side, ink)
    if WIDTH - bottom > 40 and rng.random() < 0.6:
        _tiles(draw, rng, (6, bottom + 4, WIDTH - 6, WIDTH - 4))
    else:
        _lines(draw, rng, (left, bottom + 3, WIDTH - 4, WIDTH), ink)
    return picture, (left, top, right, bottom)
