"""Pictures of documents, screens and graphics drawn by a program: look-alikes that are not copies.

They come in families: one kind of document with its layout, colours and font sizes, which every member fills with
other content. In every fifth family or so, the members differ in one item only: a number, a bubble, a name.
"""

from collections.abc import Callable, Sequence
from itertools import count as counted

import numpy as np
from PIL import Image

from diptych_training.data.documents import charts, codes, graphics, pages, papers, screens
from diptych_training.data.documents.sheet import Content, Sheet

MEMBERS = 4
ONE_ITEM = 0.2
# Pictures without things: of two that are nearly the same, nobody could say whether they are copies.
TEXTURES = ("gradient", "noise")

KINDS: dict[str, Callable[[Sheet], None]] = {
    "page": pages.draw_page,
    "chat": screens.draw_chat,
    "bars": charts.draw_bars,
    "code": screens.draw_code,
    "table": pages.draw_table,
    "gradient": graphics.draw_gradient,
    "form": papers.draw_form,
    "map": graphics.draw_map,
    "app": screens.draw_app,
    "slide": pages.draw_slide,
    "qr": codes.draw_qr,
    "receipt": papers.draw_receipt,
    "logo": graphics.draw_logo,
    "curves": charts.draw_curves,
    "terminal": screens.draw_terminal,
    "blank": pages.draw_blank,
    "label": papers.draw_label,
    "pie": charts.draw_pie,
    "calendar": papers.draw_calendar,
    "noise": graphics.draw_noise,
    "scatter": charts.draw_scatter,
    "music": graphics.draw_music,
    "barcode": codes.draw_barcode,
}


GROUPS = {
    "pages": ("page", "table", "form", "slide", "receipt", "label", "calendar", "music"),
    "windows": ("chat", "code", "app", "terminal"),
    "charts": ("bars", "curves", "pie", "scatter", "map", "logo"),
    "codes": ("qr", "barcode"),
    "plain": ("gradient", "blank", "noise"),
}


def draw_documents(count: int, size: int, seed: int = 0, kinds: Sequence[str] = tuple(KINDS)) -> np.ndarray:
    """Draw documents, uint8 (count, size, size, 3), each four in a row a family; the same seed, the same pictures."""
    pictures = np.empty((count, size, size, 3), np.uint8)
    for first in range(0, count, MEMBERS):
        members, family = min(MEMBERS, count - first), first // MEMBERS
        pictures[first : first + members] = _draw_family(seed, family, kind_of(family, seed, kinds), members, size)
    return pictures


def kind_of(family: int, seed: int = 0, kinds: Sequence[str] = tuple(KINDS)) -> str:
    """Return the kind of a family, one of `kinds`, which take turns."""
    return kinds[(family + seed) % len(kinds)]


def _draw_family(seed: int, family: int, kind: str, members: int, size: int) -> list[np.ndarray]:
    """Draw the first members of a family, no two of them the same."""
    choice = _random(seed, family, 1)
    one_item = choice.random() < ONE_ITEM and kind not in TEXTURES
    base = Content(_random(seed, family, 2))
    seen = [_draw(seed, family, kind, size, base)] if one_item else []
    item = int(choice.integers(base.items)) if one_item else 0
    for member in range(members):
        for attempt in counted():
            content = Content(_random(seed, family, 3, member, attempt + 1))
            # An item may lie below the edge, or come out as another member's did: then the next one has its turn.
            if one_item and attempt < base.items:
                own = _random(seed, family, 3, member, attempt + 1)
                content = Content(_random(seed, family, 2), own, (item + attempt) % base.items)
            picture = _draw(seed, family, kind, size, content)
            if all((picture != other).any() for other in seen):
                seen.append(picture)
                break
    return seen[-members:]


def _random(*key: int) -> np.random.Generator:
    # No key ends in 0: to numpy it would be the same as the shorter one without it.
    return np.random.default_rng(key)


def _draw(seed: int, family: int, kind: str, size: int, content: Content) -> np.ndarray:
    """Draw one document and squash it into a square, as a panel is squashed."""
    sheet = Sheet(_random(seed, family, 4), content, max(2.2 * size, 300))
    KINDS[kind](sheet)
    match int(sheet.style.integers(5)):
        case 0:
            small = sheet.image.resize((size, size), Image.Resampling.LANCZOS)
        case 1 | 2:
            small = sheet.image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=2.0)
        case _:
            small = sheet.image.resize((size, size), Image.Resampling.BOX)
    return np.asarray(small)
