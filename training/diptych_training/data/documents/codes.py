"""Codes for machines: squares of modules like QR codes, and bars."""

import numpy as np
from PIL import Image

from diptych_training.data.documents.sheet import Colour, Sheet
from diptych_training.data.documents.words import draw_title


def draw_qr(sheet: Sheet) -> None:
    """A code like QR: three finder patterns and random modules, in some with a line of text below."""
    theme = sheet.theme(dark=0.0)
    modules = 17 + 4 * sheet.count(1, 8)
    dark: Colour = theme.accents[0] if sheet.chance(0.25) else (0, 0, 0) if sheet.chance(0.5) else theme.ink
    width, height = sheet.open(sheet.uniform(0.75, 1.3), theme.ground)
    side = min(sheet.uniform(0.45, 0.98) * width, 0.86 * height)
    scale = max(1, int(side / modules))
    colours = np.array([theme.ground, dark], np.uint8)
    code = Image.fromarray(colours[_draw_modules(sheet, modules)])
    code = code.resize((modules * scale, modules * scale), Image.Resampling.NEAREST)
    left, top = (width - code.width) // 2, round(0.4 * (height - code.height))
    sheet.image.paste(code, (left, top))
    if sheet.chance(0.5):
        sheet.text(width / 2, top + code.height + 4, draw_title(sheet.item(), 24), 0.05 * height, theme.ink, align=0.5)


def _draw_modules(sheet: Sheet, modules: int) -> np.ndarray:
    """Return the modules, 1 where dark, int (modules, modules)."""
    grid = np.stack([sheet.item().integers(0, 2, modules) for _ in range(modules)])
    ring = np.zeros((8, 8), int)
    ring[:7, :7] = 1
    ring[1:6, 1:6] = 0
    ring[2:5, 2:5] = 1
    grid[6, ::2], grid[6, 1::2], grid[::2, 6], grid[1::2, 6] = 1, 0, 1, 0
    grid[:8, :8], grid[:8, -8:], grid[-8:, :8] = ring, ring[:, ::-1], ring[::-1]
    if modules > 21:
        grid[-9:-4, -9:-4] = 1
        grid[-8:-5, -8:-5] = 0
        grid[-7, -7] = 1
    return grid


def draw_barcode(sheet: Sheet) -> None:
    """A barcode with its digits, in some with a line of text above."""
    theme = sheet.theme(dark=0.0)
    width, height = sheet.open(sheet.uniform(1.2, 2.6), theme.ground)
    left, right = sheet.uniform(0.03, 0.18) * width, sheet.uniform(0.82, 0.97) * width
    top, bottom = sheet.uniform(0.05, 0.3) * height, sheet.uniform(0.6, 0.82) * height
    if top > 0.15 * height:
        sheet.text(left, 0.2 * top, draw_title(sheet.item(), 24), 0.5 * top, theme.ink, bold=sheet.chance(0.5))
    fill_barcode(
        sheet, (round(left), round(top), round(right), round(bottom)), sheet.count(8, 16), theme.ground, theme.ink
    )


def fill_barcode(sheet: Sheet, box: tuple[int, int, int, int], digits: int, ground: Colour, ink: Colour) -> None:
    """Draw a barcode into a box and its digits below, each digit an item."""
    left, top, right, bottom = box
    modules, shown = [1, 0, 1], []
    for _ in range(digits):
        rng = sheet.item()
        widths = rng.integers(1, 4, 4).tolist()
        modules += [i % 2 for i, run in enumerate(widths) for _ in range(run)]
        shown.append(str(int(rng.integers(10))))
    line = np.array([ground, ink], np.uint8)[[*modules, 1, 0, 1]][None]
    sheet.image.paste(Image.fromarray(line).resize((right - left, bottom - top), Image.Resampling.NEAREST), (left, top))
    size = min(0.25 * (bottom - top), 1.2 * (right - left) / digits)
    for i, digit in enumerate(shown):
        sheet.text(left + (i + 0.3) * (right - left) / digits, bottom + 0.1 * size, digit, size, ink)
