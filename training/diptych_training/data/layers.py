"""Drawings that training lays over pictures: stickers, and strips of text. No torch."""

import numpy as np
from PIL import Image, ImageDraw

from diptych_training.data.canvas import Colour, fit_text, load_font
from diptych_training.data.documents.words import draw_title, draw_words

WIDTH, STRIP = 240, 60  # pixels of a strip of text
STRIPS = ("bar", "title", "mark")  # opaque with text, outlined text alone, plain text alone
WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def draw_colour(rng: np.random.Generator) -> Colour:
    """Any colour."""
    red, green, blue = rng.integers(0, 256, 3).tolist()
    return red, green, blue


def draw_line(rng: np.random.Generator, letters: int) -> str:
    """A line of made-up words, at most so many letters, in capitals, with one, or in small letters."""
    return [draw_words(rng, letters).upper(), draw_title(rng, letters), draw_words(rng, letters)][rng.integers(3)]


def draw_sticker(rng: np.random.Generator, size: int) -> Image.Image:
    """Letters, a face, a shape or a bar with a word, RGBA (size, size)."""
    picture = Image.new("RGBA", (size, size))
    draw = ImageDraw.Draw(picture)
    colour, second = draw_colour(rng), draw_colour(rng)
    ink = [WHITE, BLACK, colour][rng.integers(3)]
    match rng.integers(5):
        case 0 | 1:
            typeface = load_font(int(rng.integers(10, 30)))
            letters = "".join(chr(c) for c in rng.choice([*range(48, 58), *range(65, 91), *range(97, 123)], 12))
            for line in range(rng.integers(1, 4)):
                draw.text((2, 2 + line * 20), letters[line * 4 : line * 4 + 8], font=typeface, fill=ink)
        case 2:
            draw.ellipse((2, 2, size - 3, size - 3), fill=colour, outline=second, width=2)
            for eye in (0.33, 0.66):
                draw.ellipse((size * eye - 5, 18, size * eye + 5, 30), fill=second)
            draw.arc((16, 20, size - 16, size - 12), 20, 160, fill=second, width=4)
        case 3:
            corners = [tuple(point) for point in rng.uniform(0, size, (int(rng.integers(3, 8)), 2)).tolist()]
            draw.polygon(corners, fill=colour, outline=second)
        case _:
            height = int(rng.integers(size // 6, size))
            draw.rectangle((0, 0, size, height), fill=colour)
            draw.text((4, height / 3), "".join(chr(c) for c in rng.integers(65, 91, 6)), fill=ink)
    return picture


def draw_strip(rng: np.random.Generator, sort: str) -> Image.Image:
    """One of the `STRIPS`, RGBA (60, 240): one or two lines of text."""
    own = draw_colour(rng)
    ground, ink = [(WHITE, BLACK), (BLACK, WHITE), (own, WHITE)][rng.integers(3)]
    if sort != "bar":
        ink = [WHITE, WHITE, BLACK if sort == "mark" else WHITE, own][rng.integers(4)]
    picture = Image.new("RGBA", (WIDTH, STRIP), (*ground, 255) if sort == "bar" else (0, 0, 0, 0))
    draw, lines = ImageDraw.Draw(picture), int(rng.integers(1, 3)) if sort != "mark" else 1
    rim = int(rng.integers(1, 4)) if sort == "title" else 0
    height = STRIP / lines
    for line in range(lines):
        text = draw_line(rng, int(rng.integers(8, 32)))
        # Text that does not fit is set smaller, down to where it is still text, and else runs off the edge.
        size = fit_text(text, WIDTH * 0.95, height * float(rng.uniform(0.5, 0.8)), 12)
        middle = (WIDTH / 2, height * (line + 0.5))
        draw.text(middle, text, ink, load_font(size), "mm", stroke_width=rim, stroke_fill=BLACK)
    return picture
