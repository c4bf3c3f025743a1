"""Charts: bars, curves, pies and clouds of points."""

import math

import numpy as np

from diptych_training.data.documents.sheet import Box, Sheet, Theme
from diptych_training.data.documents.words import draw_name, draw_number, draw_title


def draw_bars(sheet: Sheet) -> None:
    """A chart of upright bars in one to three colours."""
    theme = sheet.theme()
    left, top, right, bottom = _draw_frame(sheet, theme)
    groups, colours = sheet.count(3, 12), sheet.count(1, 3)
    step = (right - left) / groups
    wide, size = step * sheet.uniform(0.5, 0.9) / colours, min(0.3 * step, 0.05 * (bottom - top) + 4)
    tops = sheet.chance(0.3)
    for group in range(groups):
        x, rng = left + (group + 0.08) * step, sheet.item()
        sheet.text(x, bottom + 0.4 * size, draw_name(rng)[:5], size, theme.ink)
        for i, value in enumerate(rng.uniform(0.05, 0.95, colours).tolist()):
            y = bottom - value * (bottom - top)
            sheet.draw.rectangle((x + i * wide, y, x + (i + 0.9) * wide, bottom), fill=theme.accents[i])
            if tops:
                sheet.text(x + i * wide, y - 1.3 * size, str(round(100 * value)), size, theme.ink)


def draw_curves(sheet: Sheet) -> None:
    """A chart of one to four curves."""
    theme = sheet.theme()
    left, top, right, bottom = _draw_frame(sheet, theme)
    points, thick, rough = sheet.count(6, 60), sheet.count(2, 5), sheet.uniform(0.2, 1.5)
    x, filled = np.linspace(left, right, points), sheet.chance(0.3)
    for i in range(sheet.count(1, 4)):
        walk = sheet.item().normal(0, rough / points**0.5, points).cumsum()
        y = bottom - (bottom - top) * (0.5 + 0.45 * np.tanh(walk + float(sheet.item().normal(0, 0.6))))
        line = list(zip(x.tolist(), y.tolist(), strict=True))
        if filled and i == 0:
            sheet.draw.polygon([(left, bottom), *line, (right, bottom)], fill=theme.panel)
        sheet.draw.line(line, fill=theme.accents[i], width=thick)


def draw_scatter(sheet: Sheet) -> None:
    """A chart of points in one to three clouds."""
    theme = sheet.theme()
    left, top, right, bottom = _draw_frame(sheet, theme)
    radius, points, spread = sheet.uniform(1.5, 6), sheet.count(15, 120), sheet.uniform(0.05, 0.2)
    for i in range(sheet.count(1, 3)):
        rng = sheet.item()
        middle, tilt = rng.uniform(0.25, 0.75, 2), rng.normal(0, 1, (2, 2))
        places = (middle + spread * rng.normal(0, 1, (points, 2)) @ tilt).clip(0.02, 0.98)
        for a, b in places.tolist():
            x, y = left + a * (right - left), top + b * (bottom - top)
            sheet.draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=theme.accents[i])


def draw_pie(sheet: Sheet) -> None:
    """A pie or a ring with its legend."""
    theme = sheet.theme()
    width, height = sheet.open(sheet.uniform(1, 1.7), theme.ground)
    parts, size = sheet.count(3, 6), sheet.uniform(0.035, 0.06) * height
    _write_heading(sheet, theme, width, size)
    values = sheet.item().dirichlet(np.full(parts, 2.0))
    radius = min(sheet.uniform(0.25, 0.38) * height, 0.27 * width)
    x, y = sheet.uniform(0.3, 0.36) * width, 0.56 * height
    box, angle = (x - radius, y - radius, x + radius, y + radius), sheet.uniform(0, 360)
    legend, top = x + 1.2 * radius, y - 0.8 * size * parts
    for i, value in enumerate(values.tolist()):
        sheet.draw.pieslice(box, angle, angle + 360 * value, fill=theme.accents[i], outline=theme.ground)
        angle += 360 * value
        line = top + 1.6 * size * i
        sheet.draw.rectangle((legend, line, legend + size, line + size), fill=theme.accents[i])
        sheet.text(legend + 1.4 * size, line, f"{draw_name(sheet.item())[:7]} {100 * value:.0f}%", size, theme.ink)
    if sheet.chance(0.4):
        hole = radius * sheet.uniform(0.4, 0.7)
        sheet.draw.ellipse((x - hole, y - hole, x + hole, y + hole), fill=theme.ground)


def _write_heading(sheet: Sheet, theme: Theme, width: int, size: float) -> None:
    line = draw_title(sheet.item(), int(width / size / 1.1))
    sheet.text(width / 2, 0.6 * size, line, 1.5 * size, theme.ink, align=0.5, bold=sheet.chance(0.5))


def _draw_frame(sheet: Sheet, theme: Theme) -> Box:
    """Open a canvas with a title, axes and numbers along them; return the box for the values."""
    width, height = sheet.open(sheet.uniform(0.95, 1.8), theme.ground)
    size = sheet.uniform(0.03, 0.05) * height
    _write_heading(sheet, theme, width, size)
    left, top = sheet.uniform(0.08, 0.16) * width, 3.5 * size
    right, bottom = sheet.uniform(0.9, 0.98) * width, height - sheet.uniform(2, 4.5) * size
    lines, unit = sheet.count(3, 8), 10.0 ** int(sheet.item().integers(-1, 4))
    grid, zero = sheet.chance(0.6), int(sheet.item().integers(0, 60))
    if sheet.chance(0.3):
        sheet.draw.rectangle((left, top, right, bottom), fill=theme.panel)
    for i in range(lines + 1):
        y = bottom - i * (bottom - top) / lines
        sheet.draw.line((left if grid else left - 0.4 * size, y, right if grid else left, y), fill=theme.soft)
        sheet.text(left - 0.5 * size, y - 0.5 * size, f"{unit * (zero + i):g}", 0.9 * size, theme.ink, align=1)
    sheet.draw.line((left, top, left, bottom, right, bottom), fill=theme.ink, width=2)
    if sheet.chance(0.4):
        sheet.text((left + right) / 2, height - 1.4 * size, draw_title(sheet.item(), 18), size, theme.ink, align=0.5)
    if sheet.chance(0.3):
        sheet.text(right, top, draw_number(sheet.item(), math.floor(size) % 6), size, theme.accents[5], align=1)
    return left, top, right, bottom
