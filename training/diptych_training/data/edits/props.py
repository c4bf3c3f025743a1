"""Props that edits put beside and upon a picture: other photos, stickers, words. Drawn here where none are given."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from diptych_runtime.decoder import open_picture
from diptych_training.data.canvas import load_font
from diptych_training.data.edits.geometry import draw_colour

PHRASES = (
    "when it is finally friday",
    "me explaining it for the third time",
    "nobody asked, but here it is",
    "one does not simply",
    "that moment when",
    "wait for it",
    "best day ever",
    "not what I ordered",
    "new in the shop",
    "look what I found",
    "still waiting",
    "tag a friend",
    "would you believe it",
    "how it started",
    "link in bio",
    "only this weekend",
    "50 % off everything",
    "sold out again",
    "made with love",
    "greetings from here",
)
WORDS = ("photo", "posted", "today", "the", "more", "about", "new", "summer", "shop", "great", "read", "with", "from")
NAMES = ("mira.k", "jonas_84", "the_daily", "lena", "photo-club", "oskar.b", "garden_girl", "market24")
STICKER = 128  # pixels a side


@dataclass(frozen=True)
class Props:
    """Photos to paste on and to lay beside (`backgrounds`, files), and stickers as PNG files (`stickers`, bytes).

    Where there are none, photos and stickers are drawn.
    """

    backgrounds: Sequence[Path] = ()
    stickers: Sequence[bytes] = ()

    def photo(self, rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
        """One of the backgrounds, cut to `size`."""
        if not self.backgrounds:
            return draw_photo(rng, size)
        path = self.backgrounds[int(rng.integers(len(self.backgrounds)))]
        return ImageOps.fit(open_picture(path, least=max(size)), size)

    def sticker(self, rng: np.random.Generator) -> Image.Image:
        """One of the stickers, RGBA."""
        if not self.stickers:
            return draw_sticker(rng)
        return Image.open(io.BytesIO(self.stickers[int(rng.integers(len(self.stickers)))])).convert("RGBA")


def draw_photo(rng: np.random.Generator, size: tuple[int, int]) -> Image.Image:
    """A scene of a graded ground, soft shapes and grain."""
    width, height = size
    top, bottom = rng.uniform(30, 240, (2, 3))
    rows = np.linspace(0, 1, height)[:, None, None]
    ground = np.broadcast_to(top * (1 - rows) + bottom * rows, (height, width, 3))
    scene = Image.fromarray(ground.astype(np.uint8))
    draw = ImageDraw.Draw(scene)
    for _ in range(int(rng.integers(6, 16))):
        x, y, reach = rng.uniform(0, width), rng.uniform(0, height), rng.uniform(0.05, 0.35) * min(size)
        tall = reach * rng.uniform(0.4, 2)
        shape = draw.ellipse if rng.random() < 0.5 else draw.rectangle
        shape((x - reach, y - tall, x + reach, y + tall), fill=draw_colour(rng, 20, 235))
    scene = scene.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 2.5)))
    grain = rng.standard_normal((height, width, 1), dtype=np.float32) * 6
    return Image.fromarray(np.clip(np.asarray(scene) + grain, 0, 255).astype(np.uint8))


def draw_sticker(rng: np.random.Generator) -> Image.Image:
    """A face, a heart, a star, a ring, a tick or a speech bubble, RGBA."""
    sticker = Image.new("RGBA", (STICKER, STICKER))
    draw = ImageDraw.Draw(sticker)
    strong = draw_colour(rng, 60, 255)
    kind = rng.integers(6)
    if kind == 0:
        _draw_face(draw, rng)
    elif kind == 1:
        angles = np.linspace(0, 2 * math.pi, 48)
        x = 64 + 3.6 * 16 * np.sin(angles) ** 3
        y = 58 - 3.6 * (13 * np.cos(angles) - 5 * np.cos(2 * angles) - 2 * np.cos(3 * angles) - np.cos(4 * angles))
        draw.polygon(list(zip(x.tolist(), y.tolist(), strict=True)), fill=(225, int(rng.integers(20, 90)), 70))
    elif kind == 2:
        angles, reach = np.arange(10) * math.pi / 5, np.array([62, 26] * 5)
        x, y = 64 + reach * np.sin(angles), 64 - reach * np.cos(angles)
        draw.polygon(list(zip(x.tolist(), y.tolist(), strict=True)), fill=(250, 200, 40))
    elif kind == 3:
        draw.ellipse((6, 6, 122, 122), outline=strong, width=14)
        if rng.random() < 0.5:
            draw.line((24, 24, 104, 104), fill=strong, width=14)
    elif kind == 4:
        draw.rounded_rectangle((6, 6, 122, 122), 22, fill=(40, 170, 80))
        draw.line([(30, 66), (54, 92), (98, 38)], fill=(255, 255, 255), width=14, joint="curve")
    else:
        draw.rounded_rectangle((4, 10, 124, 92), 30, fill=(255, 255, 255), outline=(40, 40, 40), width=4)
        draw.polygon([(34, 88), (60, 88), (30, 122)], fill=(255, 255, 255))
        draw.text((64, 50), ("wow", "lol", "hey!", "?!")[rng.integers(4)], (30, 30, 30), load_font(36), "mm")
    return sticker


def _draw_face(draw: ImageDraw.ImageDraw, rng: np.random.Generator) -> None:
    draw.ellipse((4, 4, 124, 124), fill=(255, 205, 50), outline=(225, 160, 20), width=3)
    if rng.random() < 0.3:
        draw.rectangle((18, 42, 110, 48), fill=(20, 20, 20))
        for x in (38, 90):
            draw.ellipse((x - 20, 40, x + 20, 72), fill=(20, 20, 20))
    else:
        for x in (44, 84):
            draw.ellipse((x - 8, 40, x + 8, 62), fill=(70, 45, 10))
    if rng.random() < 0.5:
        draw.chord((32, 54, 96, 106), 10, 170, fill=(110, 40, 20))
    else:
        draw.arc((36, 50, 92, 100), 20, 160, fill=(110, 60, 10), width=6)


def draw_phrase(rng: np.random.Generator) -> str:
    """A line as people write it on pictures."""
    return PHRASES[rng.integers(len(PHRASES))]


def draw_words(rng: np.random.Generator, count: int) -> str:
    """Running text of so many words."""
    return " ".join(WORDS[i] for i in rng.integers(len(WORDS), size=count))
