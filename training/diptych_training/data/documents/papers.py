"""Small papers with a fixed layout: forms, receipts, labels and calendars."""

import numpy as np

from diptych_training.data.documents.codes import fill_barcode
from diptych_training.data.documents.sheet import Sheet, Theme
from diptych_training.data.documents.words import draw_name, draw_number, draw_title, draw_words

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def draw_form(sheet: Sheet) -> None:
    """A form: fields with names, filled in with another colour, and boxes with ticks."""
    theme = sheet.theme(dark=0.1)
    width, height = sheet.open(sheet.uniform(0.65, 0.85) if sheet.chance(0.7) else 1.3, theme.ground)
    size, margin = sheet.uniform(0.016, 0.028) * height, sheet.uniform(0.05, 0.1) * width
    sheet.text(margin, margin, draw_title(sheet.style, 24), 2 * size, theme.ink, bold=True)
    pen, boxed, y = theme.accents[0], sheet.chance(0.6), margin + 4 * size
    while y < height - 4 * size:
        fields = sheet.count(1, 3)
        wide = (width - 2 * margin) / fields
        ticks = sheet.chance(0.2)
        if sheet.chance(0.12):
            sheet.draw.rectangle((margin, y, width - margin, y + 1.6 * size), fill=theme.panel)
            sheet.text(margin + size, y + 0.2 * size, draw_title(sheet.style, 20), size, theme.ink, bold=True)
            y += 2.4 * size
        for i in range(fields):
            _draw_field(sheet, theme, (margin + i * wide, y, 0.94 * wide), size, ticks, boxed)
        y += size * (2.2 if ticks else 4)
    rng = sheet.item()
    steps = rng.normal(0, size, (14, 2)) * (0.6, 0.3) + np.array([0.4 * size, 0])
    points = steps.cumsum(0) + np.array([0.6 * width, height - 2.5 * size])
    sheet.draw.line([(float(a), float(b)) for a, b in points], fill=pen, width=2)


def _draw_field(
    sheet: Sheet, theme: Theme, place: tuple[float, float, float], size: float, ticks: bool, boxed: bool
) -> None:
    """Draw a field at (x, y, width): its name with a box to tick, or over a line or box that is filled in."""
    x, y, wide = place
    label, form, rng = draw_name(sheet.style), sheet.count(-4, 5), sheet.item()
    if ticks:
        sheet.draw.rectangle((x, y, x + size, y + size), outline=theme.ink)
        sheet.text(x + 1.5 * size, y, label, size, theme.ink)
        if rng.random() < 0.5:
            sheet.draw.line((x, y, x + size, y + size, x + 1.6 * size, y - size), fill=theme.accents[0], width=2)
        return
    sheet.text(x, y, label, 0.8 * size, theme.soft if boxed else theme.ink)
    if boxed:
        sheet.draw.rectangle((x, y + 1.1 * size, x + wide, y + 2.9 * size), outline=theme.soft, fill=theme.panel)
    else:
        sheet.draw.line((x, y + 2.8 * size, x + wide, y + 2.8 * size), fill=theme.ink)
    line = draw_number(rng, form) if form >= 0 else draw_title(rng, int(wide / size / 0.65))
    sheet.text(x + 0.5 * size, y + 1.4 * size, line, 1.1 * size, theme.accents[0])


def draw_receipt(sheet: Sheet) -> None:
    """A receipt: a shop, its goods with prices, the sum, in some a barcode."""
    theme = sheet.theme(dark=0.0)
    width, height = sheet.open(sheet.uniform(0.35, 0.65), theme.ground)
    size, margin = sheet.uniform(0.042, 0.06) * width, sheet.uniform(0.04, 0.1) * width
    y, leading, shop = margin, size * sheet.uniform(1.25, 1.7), draw_title(sheet.style, 14)
    sheet.text(width / 2, y, shop, 1.9 * size, theme.ink, align=0.5, bold=True)
    y += 2.6 * size
    for line in (draw_words(sheet.style, 24), draw_number(sheet.item(), 3) + "  " + draw_number(sheet.item(), 4)):
        sheet.text(width / 2, y, line, size, theme.ink, align=0.5)
        y += leading
    coded, free = sheet.chance(0.5), sheet.uniform(0, 0.3)
    foot = height * (0.86 if coded else 0.94) - 3 * leading - free * height
    while y < foot:
        sheet.text(margin, y, draw_title(sheet.item(), 20), size, theme.ink)
        sheet.text(width - margin, y, draw_number(sheet.item(), 1), size, theme.ink, align=1)
        y += leading
    sheet.draw.line((margin, y + 0.4 * size, width - margin, y + 0.4 * size), fill=theme.ink, width=2)
    sheet.text(margin, y + size, draw_name(sheet.style), 1.5 * size, theme.ink, bold=True)
    sheet.text(width - margin, y + size, draw_number(sheet.item(), 1), 1.5 * size, theme.ink, align=1, bold=True)
    if coded:
        box = (round(3 * margin), round(0.88 * height), round(width - 3 * margin), round(0.95 * height))
        fill_barcode(sheet, box, 12, theme.ground, theme.ink)


def draw_label(sheet: Sheet) -> None:
    """A label of goods: the brand and what it frames are the family's, the sort and the weight the member's."""
    theme = sheet.theme(dark=0.2)
    width, height = sheet.open(sheet.uniform(0.6, 1.6), theme.accents[0] if sheet.chance(0.6) else theme.ground)
    edge, radius = sheet.uniform(0.02, 0.08) * height, sheet.uniform(0, 0.2) * height
    large, middle = sheet.uniform(0.11, 0.18) * min(width, height), sheet.chance(0.6)
    sheet.draw.rounded_rectangle(
        (edge, edge, width - edge, height - edge), radius, theme.ground, theme.accents[1], sheet.count(1, 8)
    )
    x = width / 2 if middle else 2.5 * edge
    sheet.text(x, 2 * edge, draw_name(sheet.style), large, theme.accents[2], align=middle / 2, bold=True)
    top, band = 2 * edge + 1.5 * large, sheet.uniform(0.12, 0.2) * height
    coloured, rng = sheet.chance(0.5), sheet.item()
    fill = theme.accents[int(rng.integers(2, 6)) if coloured else 3]
    sheet.draw.rectangle((edge, top, width - edge, top + band), fill=fill)
    sheet.text(x, top + 0.15 * band, draw_title(rng, 12), 0.6 * band, (255, 255, 255), align=middle / 2)
    fruit, count, rng = sheet.uniform(0.05, 0.12) * height, sheet.count(0, 5), sheet.item()
    for a, b in rng.uniform(0.15, 0.85, (count, 2)).tolist():
        y = top + band + fruit + b * max(1.0, 0.8 * height - top - band - fruit)
        sheet.draw.ellipse((a * width - fruit, y - fruit, a * width + fruit, y + fruit), fill=fill, outline=theme.ink)
    size = sheet.uniform(0.03, 0.05) * height
    for line in range(sheet.count(1, 4)):
        y = top + band + (1 + 1.4 * line) * size
        sheet.text(x, y, draw_words(sheet.item(), int(0.7 * width / size / 0.55)), size, theme.ink, align=middle / 2)
    weight = f"{int(sheet.item().integers(1, 200)) * 5} g"
    sheet.text(width - 3 * edge, height - 2 * edge - 2 * size, weight, 1.6 * size, theme.ink, align=1, bold=True)


def draw_calendar(sheet: Sheet) -> None:
    """A calendar: one month with its days, some of them marked."""
    theme = sheet.theme(dark=0.2)
    width, height = sheet.open(sheet.uniform(0.8, 1.6), theme.ground)
    top, left = sheet.uniform(0.14, 0.25) * height, sheet.uniform(0.01, 0.06) * width
    rng, banner, grid = sheet.item(), sheet.chance(0.5), sheet.chance(0.6)
    if banner:
        sheet.draw.rectangle((0, 0, width, top), fill=theme.accents[0])
    fill = (255, 255, 255) if banner else theme.ink
    head = f"{MONTHS[rng.integers(len(MONTHS))]} {int(rng.integers(1970, 2040))}"
    sheet.text(width / 2, 0.15 * top, head, 0.4 * top, fill, align=0.5, bold=True)
    wide, high = (width - 2 * left) / 7, (height - top - left) / 6
    size, place = sheet.uniform(0.22, 0.45) * min(wide, high), sheet.uniform(0.1, 0.4)
    for day in range(7):
        sheet.text(left + (day + 0.5) * wide, 0.72 * top, draw_name(sheet.style)[:2], 0.18 * top, fill, align=0.5)
    start, days, marks = int(rng.integers(7)), int(rng.integers(28, 32)), sheet.uniform(0.1, 0.5)
    for cell in range(42):
        x, y, own = left + cell % 7 * wide, top + cell // 7 * high, sheet.item()
        if grid:
            sheet.draw.rectangle((x, y, x + wide, y + high), outline=theme.soft)
        if not 0 <= cell - start < days:
            continue
        if own.random() < marks:
            colour = theme.accents[int(own.integers(1, 4))]
            sheet.draw.rectangle((x + 2, y + 0.6 * high, x + wide - 2, y + 0.9 * high), fill=colour)
            sheet.text(x + 4, y + 0.62 * high, draw_name(own)[:6], 0.22 * high, (255, 255, 255))
        ink = theme.accents[4] if cell % 7 > 4 else theme.ink
        sheet.text(x + place * wide, y + 0.08 * high, str(cell - start + 1), size, ink)
