"""Drawings that training lays over pictures: stickers, strips of text, and screens with a window. No torch."""

import numpy as np
from PIL import Image, ImageDraw

from diptych_training.data.canvas import Colour, fit_text, font
from diptych_training.data.documents.words import title, words

WIDTH, STRIP = 240, 60  # pixels of a screen's side, and of a strip's height
STRIPS = ("bar", "title", "mark")  # opaque with text, outlined text alone, plain text alone
WHITE, BLACK = (255, 255, 255), (0, 0, 0)


def draw_colour(rng: np.random.Generator) -> Colour:
    """Any colour."""
    red, green, blue = rng.integers(0, 256, 3).tolist()
    return red, green, blue


def draw_line(rng: np.random.Generator, letters: int) -> str:
    """A line of made-up words, at most so many letters, in capitals, with one, or in small letters."""
    return [words(rng, letters).upper(), title(rng, letters), words(rng, letters)][rng.integers(3)]


def draw_sticker(rng: np.random.Generator, size: int) -> Image.Image:
    """Letters, a face, a shape or a bar with a word, RGBA (size, size)."""
    picture = Image.new("RGBA", (size, size))
    draw = ImageDraw.Draw(picture)
    colour, second = draw_colour(rng), draw_colour(rng)
    ink = [WHITE, BLACK, colour][rng.integers(3)]
    match rng.integers(5):
        case 0 | 1:
            typeface = font(int(rng.integers(10, 30)))
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
        draw.text(middle, text, ink, font(size), "mm", stroke_width=rim, stroke_fill=BLACK)
    return picture


def draw_screen(rng: np.random.Generator) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """A phone's app or a browser, RGBA (240, 240), and the window for a picture in it: left, top, right, bottom.

    A phone's screen is squashed to a square, as panels are, and its window is as wide as the screen, or nearly.
    """
    ground, ink = ((18, 18, 20), (225, 225, 225)) if rng.random() < 0.35 else ((250, 250, 250), (40, 40, 40))
    picture = Image.new("RGBA", (WIDTH, WIDTH), (*ground, 255))
    draw, is_phone = ImageDraw.Draw(picture), rng.random() < 0.5
    bar = (210, 214, 220) if rng.random() < 0.5 else draw_colour(rng)
    width = int(rng.choice([WIDTH, WIDTH, WIDTH - 16])) if is_phone else int(rng.integers(110, 220))
    height = int(rng.integers(90, 170))
    left = (WIDTH - width) // 2 if is_phone else int(rng.integers(8, WIDTH - width - 6))
    top = int(rng.integers(24, 60 if is_phone else WIDTH - height - 4))
    right, bottom = left + width, min(top + height, WIDTH - 20)
    draw.rectangle((0, 0, WIDTH, 12 if is_phone else 20), fill=bar)
    if is_phone:
        draw.text((8, 2), f"{rng.integers(24)}:{rng.integers(10, 60)}", ink, font(8))
        for button in range(3):
            draw.ellipse((10 + button * 24, bottom + 5, 22 + button * 24, bottom + 13), outline=ink, width=2)
    else:
        for button, fill in enumerate(((240, 90, 80), (240, 190, 60), (90, 200, 90))):
            draw.ellipse((5 + button * 9, 4, 11 + button * 9, 10), fill=fill)
        draw.rounded_rectangle((40, 5, WIDTH - 20, 15), 4, fill=WHITE)
        draw.text((46, 5), f"www.{words(rng, 8)}.com", (60, 60, 60), font(7))
    below = bottom + (15 if is_phone else 3)
    for box in ((left + 8, 22, WIDTH - 8, top), (4, top, left - 4, bottom), (right + 6, top, WIDTH - 4, bottom)):
        _write_lines(draw, rng, box, ink)
    if WIDTH - below > 40 and rng.random() < 0.4:
        step = WIDTH / int(rng.integers(2, 5))
        for corner in np.arange(0, WIDTH - 1, step).tolist():  # a row of tiles, as pages show other pictures
            draw.rounded_rectangle((corner + 2, below, corner + step - 2, WIDTH - 6), 4, fill=draw_colour(rng))
    else:
        _write_lines(draw, rng, (10, below, WIDTH - 8, WIDTH), ink)
    return picture, (left, top, right, bottom)


def _write_lines(
    draw: ImageDraw.ImageDraw, rng: np.random.Generator, box: tuple[int, int, int, int], ink: Colour
) -> None:
    """Lines of text, from the top of a box to its bottom; none in one that is too narrow."""
    left, top, right, bottom = box
    size = int(rng.integers(7, 12))
    letters = int((right - left) / size / 0.6)
    for y in range(top + 2, bottom - size, size + 4):
        if letters > 5:
            draw.text((left, y), draw_line(rng, letters), ink, font(size))
