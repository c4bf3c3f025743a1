"""Pictures of screens: chats, code editors, terminals and apps."""

import numpy as np

from diptych_training.data.documents.sheet import Colour, Sheet, Theme, convert_hsv
from diptych_training.data.documents.words import draw_name, draw_number, draw_title, draw_words

WHITE: Colour = (255, 255, 255)


def draw_chat(sheet: Sheet) -> None:
    """A chat on a phone or in a window: bubbles at the left and the right under a bar with a name."""
    theme = sheet.theme(dark=0.35)
    phone = sheet.chance(0.75)
    width, height = sheet.open(sheet.uniform(0.45, 0.56) if phone else sheet.uniform(1, 1.6), theme.ground)
    size = sheet.uniform(0.034, 0.055) * (width if phone else 0.7 * height)
    y = _draw_bar(sheet, theme, width, size)
    theirs, mine = theme.panel, theme.accents[1]
    radius, gap, leading = sheet.uniform(0.1, 1.1) * size, sheet.uniform(0.4, 1.2) * size, 1.3 * size
    faces, times, plan = sheet.chance(0.4), sheet.chance(0.5), sheet.plan()
    face, edge = theme.accents[2], 0.6 * size + (2.4 * size if faces else 0)
    while y < height - 4 * size:
        right, lines = bool(plan.random() < 0.5), int(min(plan.integers(1, 6), plan.integers(1, 6)))
        letters = int(plan.integers(8, int(0.66 * width / size / 0.55)))
        wide, deep = (letters * 0.55 + 1.2) * size, lines * leading + 0.8 * size + times * size
        x = width - 0.6 * size - wide if right else edge
        sheet.draw.rounded_rectangle((x, y, x + wide, y + deep), radius, fill=mine if right else theirs)
        if faces and not right:
            sheet.draw.ellipse((0.5 * size, y, 2.5 * size, y + 2 * size), fill=face)
        rng = sheet.item()
        if lines > 3 and plan.random() < 0.3:
            sheet.picture((x + 0.3 * size, y + 0.3 * size, x + wide - 0.3 * size, y + lines * leading), rng)
        else:
            for line in range(lines):
                ink = WHITE if right else theme.ink
                sheet.text(x + 0.6 * size, y + 0.4 * size + line * leading, draw_words(rng, letters), size, ink)
        if times:
            sheet.text(x + wide - 0.5 * size, y + deep - size, draw_number(rng, 4), 0.7 * size, theme.soft, align=1)
        y += deep + gap
    sheet.draw.rectangle((0, height - 3 * size, width, height), fill=theme.panel)
    box = (size, height - 2.5 * size, width - 4 * size, height - 0.6 * size)
    sheet.draw.rounded_rectangle(box, size, fill=theme.ground)
    sheet.draw.ellipse((width - 3 * size, height - 2.5 * size, width - size, height - 0.5 * size), fill=mine)


def _draw_bar(sheet: Sheet, theme: Theme, width: int, size: float) -> float:
    """Draw the time and the bar with a name at the top of a screen; return where the screen goes on."""
    deep = size * sheet.uniform(3.6, 5)
    fill = theme.accents[0] if sheet.chance(0.5) else theme.panel
    ink = WHITE if fill == theme.accents[0] else theme.ink
    sheet.draw.rectangle((0, 0, width, deep), fill=fill)
    sheet.text(size, 0.2 * size, draw_number(sheet.item(), 4), 0.75 * size, ink)
    sheet.draw.rectangle((width - 2.4 * size, 0.35 * size, width - size, size), outline=ink)
    if sheet.chance(0.5):
        sheet.draw.ellipse((size, deep - 2.5 * size, 3 * size, deep - 0.5 * size), fill=theme.accents[3])
    sheet.text(3.6 * size, deep - 2.1 * size, draw_title(sheet.item(), 14), 1.25 * size, ink, bold=True)
    return deep + size


def draw_code(sheet: Sheet) -> None:
    """A code editor: coloured words in indented lines, with line numbers, in some a list of files."""
    theme = sheet.theme(dark=0.65)
    columns, rows, leading = sheet.count(46, 90), sheet.count(18, 46), sheet.count(12, 17)
    tabs, side = 16 * sheet.count(0, 1), 6 * sheet.count(14, 20) * sheet.count(0, 1)
    width, height = 6 * columns + 40 + side, leading * rows + tabs + 8
    sheet.side = (width * height) ** 0.5
    width, height = sheet.open(width / height, theme.ground)
    colours = [
        convert_hsv(turn, sheet.uniform(0.4, 0.9), 0.9 if theme.dark else 0.6) for turn in sheet.style.uniform(0, 1, 4)
    ]
    if side:
        sheet.draw.rectangle((0, 0, side, height), fill=theme.panel)
        for row in range(min(rows, 18)):
            sheet.mono(8 + 8 * (row % 3 > 0), tabs + 4 + leading * row, draw_name(sheet.item())[:10], theme.soft)
    if tabs:
        sheet.draw.rectangle((0, 0, width, tabs), fill=theme.panel)
        sheet.mono(side + 8, 2, draw_name(sheet.item()).lower() + ".py", theme.ink)
    first, plan, depth = int(sheet.item().integers(1, 800)), sheet.plan(), 0
    for row in range(rows):
        y = tabs + 4 + leading * row
        sheet.mono(side + 4, y, f"{first + row:4}", theme.soft)
        depth = int(np.clip(depth + plan.integers(-1, 2), 0, 5))
        if plan.random() > 0.12:
            _write_code_line(
                sheet, side + 36 + 24 * depth, y, int(plan.integers(10, max(11, columns - 4 * depth))), theme, colours
            )


def _write_code_line(sheet: Sheet, x: float, y: float, letters: int, theme: Theme, colours: list[Colour]) -> None:
    """Write a line of up to five coloured tokens."""
    rng = sheet.item()
    if rng.random() < 0.12:
        sheet.mono(x, y, "# " + draw_words(rng, letters), theme.soft)
        return
    tokens = draw_words(rng, letters).split(" ")
    joints = (" ", ".", "(", " = ", ", ", ") ", '"', ": ")
    for start in range(0, len(tokens), 2):
        part = joints[rng.integers(len(joints))].join(tokens[start : start + 2]) + joints[rng.integers(len(joints))]
        pick = int(rng.integers(6))
        x += sheet.mono(x, y, part, theme.ink if pick > 3 else colours[pick])


def draw_terminal(sheet: Sheet) -> None:
    """A terminal: prompts with commands, and what they printed."""
    theme = sheet.theme(dark=0.85)
    columns, rows, leading = sheet.count(44, 90), sheet.count(14, 40), sheet.count(11, 15)
    bar = 18 * sheet.count(0, 1)
    width, height = 6 * columns + 12, leading * rows + 12 + bar
    sheet.side = (width * height) ** 0.5
    width, height = sheet.open(width / height, (0, 0, 0) if theme.dark and sheet.chance(0.5) else theme.ground)
    if bar:
        sheet.draw.rectangle((0, 0, width, bar), fill=theme.soft)
        for i, colour in enumerate(theme.accents[:3]):
            sheet.draw.ellipse((6 + 14 * i, 5, 14 + 14 * i, 13), fill=colour)
    prompt, ink = draw_name(sheet.style).lower() + "$ ", theme.accents[1] if sheet.chance(0.3) else theme.ink
    bright, plan, left = convert_hsv(sheet.uniform(0, 1), 0.7, 0.9 if theme.dark else 0.5), sheet.plan(), 0
    filled = sheet.count(rows // 3, rows)
    for row in range(filled):
        y, rng = bar + 6 + leading * row, sheet.item()
        if left == 0:
            left = int(plan.integers(0, 9))
            sheet.mono(6, y, prompt, bright)
            sheet.mono(6 + 6 * len(prompt), y, draw_words(rng, int(plan.integers(8, columns - 14))), theme.ink)
            continue
        left -= 1
        line = f"{draw_number(rng, row % 6):>11} " if plan.random() < 0.4 else ""
        sheet.mono(6, y, line + draw_words(rng, int(plan.integers(4, columns - 12))), ink)


def draw_app(sheet: Sheet) -> None:
    """An app: a bar, cards or rows with pictures and text, icons below or at the side."""
    theme = sheet.theme(dark=0.35)
    phone = sheet.chance(0.65)
    width, height = sheet.open(sheet.uniform(0.45, 0.58) if phone else sheet.uniform(1.3, 1.8), theme.ground)
    size = sheet.uniform(0.036, 0.055) * (width if phone else 0.65 * height)
    top = _draw_bar(sheet, theme, width, size)
    side = 0.0 if phone else sheet.uniform(0.1, 0.24) * width
    bottom = height - (3.5 * size if phone else 0)
    across = sheet.count(1, 2) if phone else sheet.count(2, 4)
    gap, ratio, radius = sheet.uniform(0.3, 1) * size, sheet.uniform(0.25, 1.1), sheet.uniform(0, 0.8) * size
    wide = (width - side - gap * (across + 1)) / across
    deep, look = max(ratio * wide, 3.5 * size), sheet.count(0, 2)
    for i in range(across * (int((bottom - top) / (deep + gap)) + 1)):
        x, y = side + gap + (i % across) * (wide + gap), top + (i // across) * (deep + gap)
        sheet.draw.rounded_rectangle((x, y, x + wide, y + deep), radius, fill=theme.panel)
        _draw_card(sheet, theme, (x, y, wide, deep), size, look)
    _draw_icons(sheet, theme, (0, bottom, width, height) if phone else (0, top - size, side, height), size)


def _draw_card(sheet: Sheet, theme: Theme, place: tuple[float, float, float, float], size: float, look: int) -> None:
    """Fill a card at (x, y, width, height): a picture above, one at the left, or a large number."""
    x, y, wide, deep = place
    rng = sheet.item()
    letters = max(4, int(wide / size / 0.6) - 2)
    if look == 0:
        sheet.picture((x, y, x + wide, y + max(0, deep - 2.8 * size)), rng)
        y += max(0, deep - 2.9 * size)
    elif look == 1:
        part = min(deep, 0.4 * wide)
        sheet.picture((x + 0.3 * size, y + 0.3 * size, x + part, y + deep - 0.3 * size), rng)
        x, letters = x + part, max(4, int((wide - part) / size / 0.6) - 2)
    else:
        sheet.text(
            x + 0.5 * size, y + 2.9 * size, draw_number(rng, int(deep) % 6), min(2 * size, deep / 3), theme.accents[1]
        )
    sheet.text(x + 0.5 * size, y + 0.2 * size, draw_title(rng, letters), size, theme.ink, bold=True)
    sheet.text(x + 0.5 * size, y + 1.5 * size, draw_words(rng, letters), 0.8 * size, theme.soft)


def _draw_icons(sheet: Sheet, theme: Theme, box: tuple[float, float, float, float], size: float) -> None:
    """Draw a bar of icons below, or a list of them at the side."""
    left, top, right, bottom = box
    sheet.draw.rectangle(box, fill=theme.panel)
    count, below = sheet.count(3, 6), right - left > bottom - top
    chosen = sheet.count(0, count - 1)
    for i in range(count):
        x = (i + 0.5) * (right - left) / count - 0.8 * size if below else 0.6 * size
        y = top + (0.8 * size if below else (1 + 2.4 * i) * size)
        place, fill = (x, y, x + 1.5 * size, y + 1.5 * size), theme.accents[0] if i == chosen else theme.soft
        (sheet.draw.ellipse if sheet.chance(0.5) else sheet.draw.rectangle)(place, fill=fill)
        if not below:
            sheet.text(x + 2 * size, y, draw_name(sheet.item()), size, theme.ink)
