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
# How a document may be made small: the filter, and Pillow's `reducing_gap`.
SQUASHES = (
    (Image.Resampling.LANCZOS, None),
    *[(Image.Resampling.BICUBIC, 2.0)] * 2,
    *[(Image.Resampling.BOX, None)] * 2,
)
# Pictures without things: of two that are nearly the same, nobody could say whether they are copies.
TEXTURES = ("gradient", "noise")

# In the order in which families take turns.
KINDS: dict[str, Callable[[Sheet], None]] = {
    draw.__name__.removeprefix("draw_"): draw
    for draw in (
        *(pages.draw_page, screens.draw_chat, charts.draw_bars, screens.draw_code, pages.draw_table),
        *(graphics.draw_gradient, papers.draw_form, graphics.draw_map, screens.draw_app, pages.draw_slide),
        *(codes.draw_qr, papers.draw_receipt, graphics.draw_logo, charts.draw_curves, screens.draw_terminal),
        *(pages.draw_blank, papers.draw_label, charts.draw_pie, papers.draw_calendar, graphics.draw_noise),
        *(charts.draw_scatter, graphics.draw_music, codes.draw_barcode),
    )
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
    choice = _make_generator(seed, family, 1)
    one_item = choice.random() < ONE_ITEM and kind not in TEXTURES
    base = Content(_make_generator(seed, family, 2))
    seen = [_draw_document(seed, family, kind, size, base)] if one_item else []
    item = int(choice.integers(base.items)) if one_item else 0
    for member in range(members):
        for attempt in counted():
            content = Content(_make_generator(seed, family, 3, member, attempt + 1))
            # An item may lie below the edge, or come out as another member's did: then the next one has its turn.
            if one_item and attempt < base.items:
                own = _make_generator(seed, family, 3, member, attempt + 1)
                content = Content(_make_generator(seed, family, 2), own, (item + attempt) % base.items)
            picture = _draw_document(seed, family, kind, size, content)
            if all((picture != other).any() for other in seen):
                seen.append(picture)
                break
    return seen[-members:]


def _make_generator(*key: int) -> np.random.Generator:
    # No key ends in 0: to numpy it would be the same as the shorter one without it.
    return np.random.default_rng(key)


def _draw_document(seed: int, family: int, kind: str, size: int, content: Content) -> np.ndarray:
    """Draw one document and squash it into a square, as a panel is squashed."""
    sheet = Sheet(_make_generator(seed, family, 4), content, max(2.2 * size, 300))
    KINDS[kind](sheet)
    how, gap = SQUASHES[sheet.style.integers(5)]
    return np.asarray(sheet.image.resize((size, size), how, reducing_gap=gap))
