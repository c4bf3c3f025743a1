"""Edits that write and draw on a picture, or on a bar beside it."""

import numpy as np
from PIL import Image, ImageDraw

from diptych_training.data.canvas import fit_text, load_font
from diptych_training.data.edits.geometry import draw_colour
from diptych_training.data.edits.props import Props, draw_phrase, draw_words


def caption(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Set one or two lines of dark text on a white bar above or below; one time in four, light on black."""
    lines = [draw_phrase(rng) for _ in range(rng.integers(1, 3))]
    size = min(fit_text(line, 0.94 * picture.width, 0.14 * picture.height) for line in lines)
    bar = round(size * (1.25 * len(lines) + 0.5))
    paper, ink = ((255, 255, 255), (20, 20, 20)) if rng.random() < 0.75 else ((10, 10, 10), (245, 245, 245))
    canvas = Image.new("RGB", (picture.width, picture.height + bar), paper)
    above = rng.random() < 0.65
    canvas.paste(picture, (0, bar if above else 0))
    draw = ImageDraw.Draw(canvas)
    for i, line in enumerate(lines):
        y = size * (0.25 + 1.25 * i) + (0 if above else picture.height)
        draw.text((0.03 * picture.width, y), line, ink, load_font(size))
    return canvas


def meme(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Write white capitals with a black rim along the top, the bottom or both."""
    picture = picture.copy()
    draw = ImageDraw.Draw(picture)
    top, bottom = [(True, True), (True, False), (False, True)][rng.integers(3)]
    for wanted, y, anchor in ((top, 0.03, "ma"), (bottom, 0.97, "md")):
        if wanted:
            line = draw_phrase(rng).upper()
            size = fit_text(line, 0.9 * picture.width, 0.2 * picture.height)
            rim = max(1, size // 10)
            place = (picture.width / 2, y * picture.height)
            draw.text(place, line, (255, 255, 255), load_font(size), anchor, stroke_width=rim, stroke_fill=(0, 0, 0))
    return picture


def stickers(picture: Image.Image, rng: np.random.Generator, props: Props) -> Image.Image:
    """Stick on one to four stickers, each of 15 to 40 % of the shorter side, turned a little."""
    picture = picture.copy()
    for _ in range(rng.integers(1, 5)):
        side = max(8, round(rng.uniform(0.15, 0.4) * min(picture.size)))
        sticker = props.sticker(rng).resize((side, side), Image.Resampling.BILINEAR)
        if rng.random() < 0.6:
            sticker = sticker.rotate(rng.uniform(-40, 40), Image.Resampling.BILINEAR, expand=True)
        x, y = (round(rng.uniform(-0.1, 0.95) * length) for length in picture.size)
        picture.paste(sticker, (x, y), sticker)
    return picture


def stripes(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Rule lines, level, upright or both, over up to a third of the picture."""
    layer = picture.copy()
    draw = ImageDraw.Draw(layer)
    level, upright = [(True, False), (False, True), (True, True)][rng.integers(3)]
    gap = max(4.0, rng.uniform(0.05, 0.2) * min(picture.size))
    width = max(1, round(gap * rng.uniform(0.06, 0.17 if level and upright else 0.33)))
    ink = draw_colour(rng)
    for at in np.arange(rng.uniform(0, gap), max(picture.size), gap).tolist():
        if level:
            draw.line((0, at, picture.width, at), ink, width)
        if upright:
            draw.line((at, 0, at, picture.height), ink, width)
    return Image.blend(picture, layer, rng.uniform(0.6, 1.0))


def watermark(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """Repeat a word, slanting and half transparent, over all of it."""
    text = ("SAMPLE", "stock photo", "PREVIEW", "(c) studio", "do not copy")[rng.integers(5)]
    size = max(7, round(rng.uniform(0.07, 0.14) * min(picture.size)))
    wide, high = round(load_font(size).getlength(text)) + 2 * size, round(size * rng.uniform(2.2, 4))
    reach = round(1.5 * max(picture.size))
    # A mask, so that turning it makes no rim of another colour.
    mask = Image.new("L", (reach, reach))
    draw = ImageDraw.Draw(mask)
    strength = int(rng.integers(70, 190))
    for row, y in enumerate(range(0, reach, high)):
        for x in range(-(row % 2) * wide // 2, reach, wide):
            draw.text((x, y), text, strength, load_font(size))
    mask = mask.rotate(rng.uniform(15, 50), Image.Resampling.BILINEAR)
    x, y = ((reach - side) // 2 for side in picture.size)
    ink = (255, 255, 255) if rng.random() < 0.7 else (20, 20, 20)
    picture = picture.copy()
    picture.paste(ink, (0, 0, *picture.size), mask.crop((x, y, x + picture.width, y + picture.height)))
    return picture


def write_page(
    draw: ImageDraw.ImageDraw,
    box: tuple[float, float, float, float],
    size: float,
    ink: tuple[int, int, int],
    rng: np.random.Generator,
) -> None:
    """Fill a box (left, top, right, bottom) with lines of running text."""
    left, top, right, bottom = box
    typeface = load_font(max(5, round(size)))
    for y in np.arange(top, bottom - size, size * 1.45).tolist():
        line = draw_words(rng, 14)
        share = min(1.0, (right - left) * rng.uniform(0.6, 1.0) / max(1.0, typeface.getlength(line)))
        draw.text((left, y), line[: int(len(line) * share)], ink, typeface)
