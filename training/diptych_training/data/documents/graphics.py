"""Logos, maps and music, and pictures without things: smooth gradients and noise."""

import math

import numpy as np
from PIL import Image

from diptych_training.data.documents.sheet import Colour, Sheet, Theme, convert_hsv
from diptych_training.data.documents.words import draw_name, draw_title, make_vocabulary


def draw_map(sheet: Sheet) -> None:
    """A map of streets with water, parks and names."""
    theme = sheet.theme(dark=0.15)
    width, height = sheet.open(sheet.uniform(0.6, 1.8), theme.panel)
    reach, streets = math.hypot(width, height), sheet.count(10, 40)
    parks, water, thick = sheet.count(0, 6), sheet.chance(0.6), sheet.uniform(0.006, 0.016) * reach
    for _ in range(parks):
        _draw_blob(sheet, reach * sheet.uniform(0.05, 0.15), theme.accents[0])
    if water:
        rng = sheet.item()
        line = (rng.normal(0, 0.5, (9, 2)) + rng.normal(0, 1, 2)).cumsum(0) * 0.15 * reach + rng.uniform(
            0, reach / 2, 2
        )
        points = [(float(a), float(b)) for a, b in line]
        sheet.draw.line(points, fill=theme.accents[1], width=round(thick * sheet.uniform(3, 8)), joint="curve")
    turn, straight = float(sheet.item().uniform(0, math.pi / 2)), sheet.chance(0.6)
    fill: Colour = theme.soft if theme.dark else (255, 255, 255)
    roads = []
    for i in range(streets):
        rng = sheet.item()
        angle = turn + (i % 2) * math.pi / 2 + float(rng.normal(0, 0.02 if straight else 0.25))
        x, y = float(rng.uniform(0, width)), float(rng.uniform(0, height))
        dx, dy = (reach * float(rng.uniform(0.2, 1)) * f(angle) for f in (math.cos, math.sin))
        roads.append(((x - dx, y - dy, x + dx, y + dy), thick * (2 if i % 9 == 0 else 1)))
    for ends, wide in roads:
        sheet.draw.line(ends, fill=theme.soft, width=round(wide) + 2)
    for i, (ends, wide) in enumerate(roads):
        sheet.draw.line(ends, fill=theme.accents[2] if i % 9 == 0 else fill, width=round(wide))
    _write_places(sheet, theme, width, height)


def _draw_blob(sheet: Sheet, radius: float, fill: Colour) -> None:
    rng = sheet.item()
    x, y = rng.uniform(0, 1, 2) * sheet.image.size
    turns = [math.pi * i / 4 for i in range(8)]
    radii = (radius * rng.uniform(0.5, 1.3, 8)).tolist()
    points = [(float(x) + r * math.cos(t), float(y) + r * math.sin(t)) for r, t in zip(radii, turns, strict=True)]
    sheet.draw.polygon(points, fill=fill)


def _write_places(sheet: Sheet, theme: Theme, width: int, height: int) -> None:
    """Write names over a map, some with a pin."""
    size, pins = sheet.uniform(0.02, 0.04) * height, sheet.chance(0.5)
    for _ in range(sheet.count(3, 14)):
        rng = sheet.item()
        x, y = float(rng.uniform(0, 0.85)) * width, float(rng.uniform(0, 0.95)) * height
        if pins:
            sheet.draw.ellipse((x - size, y, x - 0.2 * size, y + 0.8 * size), fill=theme.accents[4])
        sheet.text(x, y, draw_title(rng, 14), size, theme.ink)


def draw_logo(sheet: Sheet) -> None:
    """A logo: a few flat shapes, letters on them, in some a name below."""
    theme = sheet.theme(dark=0.35)
    ground = theme.accents[5] if sheet.chance(0.35) else theme.ground
    width, height = sheet.open(sheet.uniform(0.8, 1.5), ground)
    radius = sheet.uniform(0.2, 0.36) * min(width, height)
    x, y = 0.5 * width, sheet.uniform(0.38, 0.5) * height
    shape, letters, free = sheet.count(0, 4), sheet.count(0, 3), sheet.chance(0.7)
    for i in range(sheet.count(1, 4)):
        rng, corners = sheet.item(), sheet.count(3, 7)
        angle = float(rng.uniform(0, 2 * math.pi))
        dx, dy = (rng.normal(0, 0.35, 2) * radius * free * (i > 0)).tolist()
        r = radius * float(rng.uniform(0.55, 1.1)) * 0.8**i
        box = (x + dx - r, y + dy - r, x + dx + r, y + dy + r)
        match (shape + i) % 5:
            case 0:
                sheet.draw.ellipse(box, fill=theme.accents[i])
            case 1:
                sheet.draw.rounded_rectangle(box, r / 3, fill=theme.accents[i])
            case 2:
                sheet.draw.regular_polygon((x + dx, y + dy, r), corners, math.degrees(angle), fill=theme.accents[i])
            case 3:
                start = math.degrees(angle)
                sheet.draw.arc(box, start, start + float(rng.uniform(90, 300)), theme.accents[i], round(r / 3))
            case _:
                sheet.draw.pieslice(box, math.degrees(angle), math.degrees(angle) + 220, fill=theme.accents[i])
    if letters:
        word = draw_name(sheet.item())[:letters].upper()
        sheet.text(x, y - 0.5 * radius, word, radius / (0.5 + 0.4 * letters), theme.ground, align=0.5, bold=True)
    if sheet.chance(0.6) or not letters:
        size, rng = sheet.uniform(0.07, 0.13) * height, sheet.item()
        word = make_vocabulary()[int(rng.integers(150, len(make_vocabulary())))]
        ink = theme.ink if ground == theme.ground else theme.ground
        word = word.upper() if sheet.chance(0.4) else word
        sheet.text(x, 0.8 * height, word, size, ink, align=0.5, bold=sheet.chance(0.5))


def draw_music(sheet: Sheet) -> None:
    """Sheet music: staves with bar lines and notes."""
    theme = sheet.theme(dark=0.05)
    width, height = sheet.open(sheet.uniform(0.65, 1.4), theme.ground)
    staves, left, top = sheet.count(3, 10), sheet.uniform(0.04, 0.1) * width, sheet.uniform(0.08, 0.16) * height
    step = (0.97 * height - top) / staves
    gap, notes, spots = sheet.uniform(0.08, 0.12) * step, sheet.count(8, 22), sheet.chance(0.4)
    sheet.text(width / 2, 0.2 * top, draw_title(sheet.item(), 26), 0.45 * top, theme.ink, align=0.5, bold=spots)
    for stave in range(staves):
        y = top + stave * step
        for i in range(5):
            sheet.draw.line((left, y + i * gap, width - left, y + i * gap), fill=theme.soft if spots else theme.ink)
        for i in range(5):
            x = left + i * (width - 2 * left) / 4
            sheet.draw.line((x, y, x, y + 4 * gap), fill=theme.ink)
        sheet.draw.arc((left + gap, y - gap, left + 3 * gap, y + 4 * gap), 30, 330, theme.ink, max(1, round(gap / 3)))
        _draw_notes(sheet, theme, (left + 4 * gap, y, width - left), gap, notes)


def _draw_notes(sheet: Sheet, theme: Theme, place: tuple[float, float, float], gap: float, notes: int) -> None:
    """Draw notes along a stave from (x, y) to `right`; neighbours are joined by a beam in some."""
    left, y, right = place
    rng = sheet.item()
    high, open_, beams = (rng.integers(low, up, notes).tolist() for low, up in ((-1, 9), (0, 4), (0, 4)))
    step = (right - left) / notes
    for i in range(notes):
        x, head, stem = left + (i + 0.2) * step, y + (high[i] - 1) * gap / 2, (-3 if high[i] > 3 else 3) * gap
        fill = theme.ground if open_[i] == 0 else theme.ink
        sheet.draw.ellipse((x, head, x + 1.3 * gap, head + gap), fill=fill, outline=theme.ink)
        edge = x + (1.3 * gap if stem < 0 else 0)
        sheet.draw.line((edge, head + gap / 2, edge, head + gap / 2 + stem), fill=theme.ink, width=2)
        if beams[i] == 0 and i + 1 < notes:
            end = head + gap / 2 + stem
            sheet.draw.line((edge, end, edge + step, end), fill=theme.ink, width=max(2, round(gap / 2)))


def draw_gradient(sheet: Sheet) -> None:
    """A gradient between two or three colours near the family's own, along a line or around a point."""
    sheet.open(sheet.uniform(0.6, 1.7), (0, 0, 0))
    round_, colours, angle = sheet.chance(0.35), sheet.count(2, 3), sheet.uniform(0, 2 * math.pi)
    stops = []
    for _ in range(colours):
        hue, strong, value, rng = sheet.uniform(0, 1), sheet.uniform(0, 0.9), sheet.uniform(0.1, 1), sheet.item()
        drift = rng.normal(0, 0.2, 3).tolist()
        stops.append(convert_hsv(hue + drift[0], strong + drift[1], value + drift[2]))
    rng = sheet.item()
    angle += float(rng.uniform(0, 2 * math.pi))
    x, y = (np.linspace(-0.5, 0.5, side, dtype=np.float32) for side in sheet.image.size)
    if round_:
        a, b = rng.uniform(-0.3, 0.3, 2).tolist()
        share = np.hypot(x[None, :] - a, y[:, None] - b) / 0.8
    else:
        share = 0.5 + 0.7 * (x[None, :] * math.cos(angle) + y[:, None] * math.sin(angle))
    levels = np.linspace(0, 1, colours)
    table = np.stack([np.interp(np.linspace(0, 1, 1024), levels, channel) for channel in zip(*stops, strict=True)], -1)
    sheet.show(Image.fromarray(table.astype(np.uint8)[(share.clip(0, 1) * 1023).astype(np.int16)]))


def draw_noise(sheet: Sheet) -> None:
    """A texture between two colours of the family: grain, clouds, blots, stripes or mosaic."""
    width, height = sheet.open(sheet.uniform(0.7, 1.4), (0, 0, 0))
    kind, cells, rng = sheet.count(0, 5), sheet.count(4, 40), sheet.item()
    one, other = (np.array(sheet.theme().accents[i], np.float32) for i in range(2))
    strength = sheet.uniform(0.5, 1)
    match kind:
        case 0:
            share = _draw_cloud(rng, width // 4, width, height)
        case 1:
            share = sum(_draw_cloud(rng, cells * 2**i, width, height) / 2**i for i in range(3)) / 1.75
        case 2:
            share = (_draw_cloud(rng, cells, width, height) > 0.5).astype(np.float32)
        case 3:
            share = np.repeat(_draw_cloud(rng, 2 * cells, width, 1), height, 0)
        case 4:
            share = np.repeat(_draw_cloud(rng, cells, 1, height), width, 1)
        case _:
            mosaic = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
            share = np.asarray(mosaic.resize((width, height), Image.Resampling.NEAREST))
    share = 0.5 + strength * (np.asarray(share, np.float32) - 0.5)
    table = np.linspace(one, other, 256).astype(np.uint8)
    sheet.show(Image.fromarray(table[(share.clip(0, 1) * 255).astype(np.uint8)]))


def _draw_cloud(rng: np.random.Generator, cells: int, width: int, height: int) -> np.ndarray:
    """Return random values on a coarse grid drawn large, float32 (height, width)."""
    coarse = Image.fromarray(rng.random((cells, cells), dtype=np.float32))
    return np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC))
