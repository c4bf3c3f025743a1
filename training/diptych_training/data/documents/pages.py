"""Documents of text: pages, tables, slides and pages that are almost blank."""

import numpy as np

from diptych_training.data.documents.sheet import Box, Sheet, Theme
from diptych_training.data.documents.words import draw_number, draw_title, draw_words

LETTER = 0.52  # the width of a letter in font sizes, on average


def draw_page(sheet: Sheet) -> None:
    """A page in one to three columns, with headings, in some a picture, a number at its foot."""
    theme = sheet.theme(dark=0.08)
    width, height = sheet.open(sheet.uniform(0.62, 0.85), theme.ground)
    size = sheet.uniform(0.013, 0.032) * height
    margin, top = sheet.uniform(0.05, 0.15) * width, sheet.uniform(0.04, 0.1) * height
    columns = 1 + int(sheet.chance(0.45)) + int(size < 0.018 * height and sheet.chance(0.3))
    if sheet.chance(0.5):
        large = size * sheet.uniform(1.6, 3)
        middle = sheet.chance(0.5)
        line = draw_title(sheet.item(), int((width - 2 * margin) / large / 0.6))
        sheet.text(width / 2 if middle else margin, top, line, large, theme.ink, align=middle / 2, bold=True)
        top += 1.8 * large
    gap = 0.04 * width
    wide = (width - 2 * margin - (columns - 1) * gap) / columns
    picture = sheet.count(0, columns - 1) if sheet.chance(0.4) else -1
    leading, heads = size * sheet.uniform(1.2, 1.7), sheet.uniform(0, 0.35)
    foot = height - sheet.uniform(0.05, 0.1) * height
    for column in range(columns):
        left, start = margin + column * (wide + gap), top
        if column == picture:
            deep = sheet.uniform(0.12, 0.35) * height
            sheet.picture((left, start, left + wide, start + deep), sheet.item())
            start += deep + leading
        _write_column(sheet, theme, (left, start, left + wide, foot), size, leading, heads)
    if sheet.chance(0.6):
        sheet.text(width / 2, foot + leading, str(int(sheet.item().integers(1, 900))), size, theme.ink, align=0.5)


def _write_column(sheet: Sheet, theme: Theme, box: Box, size: float, leading: float, heads: float) -> None:
    """Fill a box with paragraphs, a share of them under a heading."""
    left, y, right, bottom = box
    letters = int((right - left) / size / LETTER)
    plan, heading = sheet.plan(), theme.accents[0] if sheet.chance(0.4) else theme.ink
    while y < bottom - leading:
        if plan.random() < heads:
            sheet.text(left, y, draw_title(sheet.item(), letters // 2), 1.3 * size, heading, bold=True)
            y += 1.3 * leading
        lines = int(plan.integers(2, 12))
        for line in range(lines):
            if y > bottom - leading:
                return
            last = line == lines - 1
            sheet.text(left, y, draw_words(sheet.item(), letters // 2 if last else letters), size, theme.ink)
            y += leading
        y += 0.6 * leading


def draw_table(sheet: Sheet) -> None:
    """A table or spreadsheet of numbers with names at the left and above."""
    theme = sheet.theme()
    width, height = sheet.open(sheet.uniform(0.7, 1.8), theme.ground)
    columns, rows = sheet.count(3, 8), sheet.count(8, 24)
    left, top = sheet.uniform(0, 0.06) * width, sheet.uniform(0, 0.14) * height
    first = sheet.uniform(0.12, 0.3) * width
    wide, high = (width - 2 * left - first) / (columns - 1), (height - top - left) / (rows + 1)
    size = min(0.62 * high, wide / 5)
    forms, zebra, grid = [sheet.count(0, 5) for _ in range(columns)], sheet.chance(0.5), sheet.chance(0.5)
    if top > 2 * size:
        sheet.text(left, 0.3 * top, draw_title(sheet.item(), 30), min(0.4 * top, 2 * size), theme.ink, bold=True)
    sheet.draw.rectangle((left, top, width - left, top + high), fill=theme.accents[0] if zebra else theme.panel)
    stops = [left, *(left + first + i * wide for i in range(columns))]
    for row in range(rows + 1):
        y = top + row * high
        if zebra and row and row % 2 == 0:
            sheet.draw.rectangle((left, y, width - left, y + high), fill=theme.panel)
        elif not zebra or grid:
            sheet.draw.line((left, y, width - left, y), fill=theme.soft)
        for column in range(columns):
            words_here = column == 0 or row == 0
            rng = sheet.item()
            line = draw_title(rng, int(wide / size / 0.7)) if words_here else draw_number(rng, forms[column])
            x = stops[column] + 0.3 * size if column == 0 else stops[column + 1] - 0.4 * size
            sheet.text(x, y + 0.15 * high, line, size, theme.ink, align=float(column > 0), bold=row == 0)
    for x in stops if grid else ():
        sheet.draw.line((x, top, x, top + (rows + 1) * high), fill=theme.soft)


def draw_slide(sheet: Sheet) -> None:
    """A slide with a title, bullets, in some a picture at one side."""
    theme = sheet.theme(dark=0.4)
    width, height = sheet.open(16 / 9 if sheet.chance(0.7) else 4 / 3, theme.ground)
    large, size = sheet.uniform(0.07, 0.12) * height, sheet.uniform(0.035, 0.06) * height
    left, right = sheet.uniform(0.04, 0.12) * width, 0.95 * width
    banner, middle, picture = sheet.chance(0.4), sheet.chance(0.25), sheet.count(0, 3)
    if banner:
        sheet.draw.rectangle((0, 0, width, 2.2 * large), fill=theme.accents[0])
    else:
        sheet.draw.rectangle(
            (left, 2.1 * large, left + sheet.uniform(0.1, 1) * (right - left), 2.2 * large), fill=theme.accents[0]
        )
    fill = (255, 255, 255) if banner else theme.accents[1] if sheet.chance(0.3) else theme.ink
    line = draw_title(sheet.item(), int(0.9 * width / large / 0.62))
    sheet.text(width / 2 if middle else left, 0.5 * large, line, large, fill, align=middle / 2, bold=True)
    if picture == 1:
        sheet.picture((0.58 * width, 3 * large, right, 0.85 * height), sheet.item())
        right = 0.55 * width
    elif picture == 2:
        sheet.picture((left, 3 * large, left + 0.36 * width, 0.85 * height), sheet.item())
        left += 0.4 * width
    y, leading, plan = 2.9 * large, size * sheet.uniform(1.6, 2.3), sheet.plan()
    while y < 0.85 * height:
        sub = plan.random() < 0.3
        x, letter = left + (1.5 * size if sub else 0), size * (0.8 if sub else 1)
        sheet.draw.ellipse((x, y + 0.45 * size, x + 0.35 * size, y + 0.8 * size), fill=theme.accents[0])
        sheet.text(x + size, y, draw_title(sheet.item(), int((right - x - size) / letter / 0.6)), letter, theme.ink)
        y += leading
    sheet.text(0.97 * width, 0.93 * height, str(int(sheet.item().integers(1, 99))), 0.04 * height, theme.soft, align=1)


def draw_blank(sheet: Sheet) -> None:
    """A page that is almost blank: a few words, strokes or spots."""
    theme = sheet.theme(dark=0.15)
    width, height = sheet.open(sheet.uniform(0.6, 1.7), theme.ground)
    if sheet.chance(0.3):
        edge = sheet.uniform(0.02, 0.06) * width
        sheet.draw.rectangle((edge, edge, width - edge, height - edge), outline=theme.soft, width=2)
    size = sheet.uniform(0.02, 0.06) * height
    for _ in range(sheet.count(1, 4)):
        mark, colour, rng = sheet.count(0, 3), theme.accents[0] if sheet.chance(0.3) else theme.ink, sheet.item()
        x, y = float(rng.uniform(0.1, 0.7)) * width, float(rng.uniform(0.1, 0.85)) * height
        if mark < 2:
            sheet.text(x, y, draw_title(rng, sheet.count(5, 30)), size, colour)
        elif mark == 2:
            steps = rng.normal(0, 0.6 * size, (10, 2)).cumsum(0) + np.array([x, y])
            sheet.draw.line([(float(a), float(b)) for a, b in steps], fill=colour, width=2)
        else:
            radius = size * float(rng.uniform(0.2, 1))
            sheet.draw.ellipse((x - radius, y - radius, x + radius, y + radius), outline=colour, width=3)
