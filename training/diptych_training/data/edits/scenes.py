"""Edits that make the picture a part of another: a page, a phone, a screen that is photographed, a collage."""

import math

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageOps

from diptych_training.data.canvas import Colour, bound_sides, load_font, resize_by
from diptych_training.data.edits.geometry import draw_colour, warp_into
from diptych_training.data.edits.overlays import write_page
from diptych_training.data.edits.props import NAMES, Props, draw_phrase

# Paper, ink, pale ink.
LIGHT: tuple[Colour, Colour, Colour] = ((255, 255, 255), (25, 25, 28), (200, 202, 206))
DARK: tuple[Colour, Colour, Colour] = ((18, 18, 20), (235, 235, 238), (75, 76, 80))


def phone(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A screenshot of a phone that shows it: status bar, header, the picture, buttons, text, navigation."""
    paper, ink, pale = LIGHT if rng.random() < 0.6 else DARK
    width = min(360, max(180, picture.width))
    height, unit = round(width * rng.uniform(1.7, 2.17)), width / 100
    canvas = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(canvas)
    small, plain = load_font(round(4 * unit)), load_font(round(4.5 * unit))
    hour, minute = rng.integers(24), rng.integers(60)
    draw.text((4 * unit, 2 * unit), f"{hour}:{minute:02d}", ink, small)
    for i in range(4):
        draw.rectangle(((78 + 2 * i) * unit, (5 - i) * unit, (79 + 2 * i) * unit, 6 * unit), ink)
    draw.rounded_rectangle((88 * unit, 2.5 * unit, 96 * unit, 6 * unit), unit, outline=ink)
    draw.rectangle((89 * unit, 3.5 * unit, (90 + 5 * rng.random()) * unit, 5 * unit), ink)
    draw.ellipse((4 * unit, 11 * unit, 15 * unit, 22 * unit), draw_colour(rng, 60, 220))
    draw.text((18 * unit, 13 * unit), NAMES[rng.integers(len(NAMES))], ink, plain)
    for i in range(3):
        draw.ellipse(((90 + 2.5 * i) * unit, 16 * unit, (91.2 + 2.5 * i) * unit, 17.2 * unit), ink)
    margin = 0 if rng.random() < 0.6 else round(rng.uniform(2, 8) * unit)
    shown = ImageOps.contain(picture, (width - 2 * margin, round(0.62 * height)), Image.Resampling.BICUBIC)
    top = round(26 * unit)
    canvas.paste(shown, ((width - shown.width) // 2, top))
    y = top + shown.height + 3 * unit
    for i in range(3):
        box = ((4 + 11 * i) * unit, y, (11 + 11 * i) * unit, y + 7 * unit)
        (draw.ellipse if i % 2 else draw.rounded_rectangle)(box, outline=ink, width=max(1, round(unit)))
    draw.text((4 * unit, y + 10 * unit), f"{rng.integers(2, 4000):,} likes", ink, plain)
    foot = height - 14 * unit
    write_page(draw, (4 * unit, y + 17 * unit, 96 * unit, foot - unit), 4 * unit, ink, rng)
    draw.rectangle((0, foot, width, height), paper)
    draw.line((0, foot, width, foot), pale)
    for i in range(5):
        draw.ellipse(((7 + 20 * i) * unit, foot + 4 * unit, (13 + 20 * i) * unit, foot + 10 * unit), outline=ink)
    return canvas


def website(picture: Image.Image, rng: np.random.Generator, props: Props) -> Image.Image:
    """A screenshot of a web page that shows it: tabs and address, header, text, button, a row of other pictures."""
    paper, ink, pale = LIGHT if rng.random() < 0.8 else DARK
    shown = bound_sides(picture, 32, 280)
    width = round(max(shown.width / rng.uniform(0.42, 0.72), shown.height * 0.9))
    unit = width / 100
    top, row = round(17 * unit), round(18 * unit)
    height = top + shown.height + row + round(10 * unit)
    canvas = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((0, 0, width, 8 * unit), pale)
    for i, light in enumerate(((236, 95, 85), (240, 190, 70), (100, 195, 90))):
        draw.ellipse(((2 + 3 * i) * unit, 3 * unit, (4 + 3 * i) * unit, 5 * unit), light)
    draw.rounded_rectangle((14 * unit, 2 * unit, 92 * unit, 6 * unit), 2 * unit, paper)
    draw.text((16 * unit, 2.4 * unit), "www.example.com/item", ink, load_font(max(5, round(2.8 * unit))))
    accent = draw_colour(rng, 30, 200)
    if rng.random() < 0.5:
        draw.rectangle((0, 8 * unit, width, 14 * unit), accent)
    draw.text((3 * unit, 9 * unit), NAMES[rng.integers(len(NAMES))].upper(), ink, load_font(max(6, round(4 * unit))))
    for i in range(3):
        draw.rectangle(((60 + 13 * i) * unit, 10.5 * unit, (69 + 13 * i) * unit, 11.7 * unit), ink)
    right = rng.random() < 0.3
    left = width - shown.width - round(3 * unit) if right else round(3 * unit)
    canvas.paste(shown, (left, top))
    begin, end = (3 * unit, left - 3 * unit) if right else (left + shown.width + 3 * unit, 97 * unit)
    if end - begin > 8 * unit:
        draw.text(
            (begin, top),
            draw_phrase(rng)[: max(4, int((end - begin) / unit / 2))],
            ink,
            load_font(max(6, round(4 * unit))),
        )
        low = top + 0.6 * shown.height
        write_page(draw, (begin, top + 7 * unit, end, low), max(5.0, 2.6 * unit), ink, rng)
        draw.rounded_rectangle((begin, low + 2 * unit, min(end, begin + 24 * unit), low + 8 * unit), unit, accent)
    size = (round(21 * unit), row)
    for i in range(4):
        tile = props.photo(rng, size) if rng.random() < 0.6 else Image.new("RGB", size, pale)
        canvas.paste(tile, (round((3 + 24.3 * i) * unit), top + shown.height + round(5 * unit)))
    return canvas


def screen_photo(picture: Image.Image, rng: np.random.Generator) -> Image.Image:
    """A photograph of a screen that shows it: bezel, moire, glare, tilt, a little blur and the light of a room."""
    border = max(2, round(rng.uniform(0.02, 0.08) * max(picture.size)))
    dark = draw_colour(rng, 5, 35)
    framed = ImageOps.expand(picture, border, dark)
    size = framed.size
    room = draw_colour(rng, 15, 170)
    tilted = warp_into(framed, rng.uniform(0.0, 0.12, (4, 2)), size, room)
    x = np.arange(size[0], dtype=np.float32)
    y = np.arange(size[1], dtype=np.float32)[:, None]
    # The two grids, of the screen and of the sensor, beat in wide, slightly bent bands, differently in each colour.
    pixels = np.asarray(tilted, np.float32)
    angle, pitch = rng.uniform(0, math.pi), rng.uniform(5, 22)
    along = (x * math.cos(angle) + y * math.sin(angle)) / pitch
    bend = rng.uniform(-3, 3) * ((x / size[0] - 0.5) ** 2 + (y / size[1] - 0.5) ** 2)
    bands = [np.sin(2 * math.pi * (along * (1 + 0.04 * k) + bend) + k * rng.uniform(0, 2)) for k in range(3)]
    fringe = 1 + rng.uniform(0.03, 0.13) * np.stack(bands, 2)
    lines = 1 - rng.uniform(0, 0.12) * (np.arange(size[1]) % int(rng.integers(2, 4)) == 0)[:, None, None]
    turned = rng.uniform(0, 2 * math.pi)
    toward = (x / size[0] - 0.5) * math.cos(turned) + (y / size[1] - 0.5) * math.sin(turned)
    glare = rng.uniform(20, 120) * np.clip(toward + rng.uniform(-0.2, 0.4), 0, 1)[..., None]
    light = rng.uniform(0.85, 1.12, 3) * rng.uniform(0.75, 1.1)
    seen = np.clip(pixels * (fringe * lines * light).astype(np.float32) + glare, 0, 255).astype(np.uint8)
    return Image.fromarray(seen).filter(ImageFilter.GaussianBlur(rng.uniform(0.4, 1.0)))


def paste_in(picture: Image.Image, rng: np.random.Generator, props: Props) -> Image.Image:
    """Paste it into another photo, at 30 to 70 % of that one's side; sometimes tilted, or with a white rim."""
    share = rng.uniform(0.3, 0.7)
    small = bound_sides(picture, 16, 260)
    # The background is as large as the picture was, or so that the picture on it keeps 60 pixels.
    side = max(max(small.size), 60 / share * max(small.size) / min(small.size))
    side = min(420.0, side)
    shape = math.exp(rng.uniform(-0.35, 0.35))
    size = (round(side * max(1.0, shape)), round(side * max(1.0, 1 / shape)))
    small = resize_by(small, share * min(size[0] / small.width, size[1] / small.height))
    scene = props.photo(rng, size)
    if rng.random() < 0.25:
        small = ImageOps.expand(small, max(1, min(small.size) // 25), (250, 250, 248))
    mask = Image.new("L", small.size, 255)
    if rng.random() < 0.3:
        angle = rng.uniform(-20, 20)
        small, mask = (layer.rotate(angle, Image.Resampling.BICUBIC, expand=True) for layer in (small, mask))
    x, y = (int(rng.integers(0, max(1, whole - part + 1))) for whole, part in zip(size, small.size, strict=True))
    scene.paste(small, (x, y), mask)
    return scene


def collage(picture: Image.Image, rng: np.random.Generator, props: Props) -> Image.Image:
    """Lay it out with three other photos: two by two, large beside three, or a strip."""
    own = bound_sides(picture, 48, 240)
    width, height = own.size
    kind = rng.integers(3)
    if kind == 0:
        boxes = [(0, 0), (width, 0), (0, height), (width, height)]
        cells = [(x, y, width, height) for x, y in boxes]
    elif kind == 1:
        third, beside = height // 3, max(24, width // 2)
        cells = [(0, 0, width, height), *((width, i * third, beside, third) for i in range(3))]
    else:
        across = width < height
        cells = [(i * width * across, i * height * (not across), width, height) for i in range(4)]
    order = [0, *rng.permutation([1, 2, 3])] if kind == 1 else rng.permutation(4)
    gap = int(rng.integers(0, 7))
    size = (max(x + w for x, _, w, _ in cells) + gap, max(y + h for _, y, _, h in cells) + gap)
    canvas = Image.new("RGB", size, (255, 255, 255) if rng.random() < 0.7 else (0, 0, 0))
    for i, cell in enumerate(order):
        x, y, w, h = cells[cell]
        inner = (max(8, w - gap), max(8, h - gap))
        canvas.paste(ImageOps.fit(own, inner) if i == 0 else props.photo(rng, inner), (x + gap, y + gap))
    return canvas
