"""`diptych study limits`: pairs that a program draws and a model errs on, with what it says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from diptych.console import format_table
from diptych_runtime.atomic import replacing_file
from diptych_runtime.decoder import panel_pixels
from diptych_runtime.judgement import question_probabilities
from diptych_runtime.runtime import Runtime
from diptych_training.data.documents import KINDS, MEMBERS, draw_documents
from diptych_training.data.synthetic import draw_pictures

SHOWN = ("page", "chat", "table", "bars", "map", "qr", "receipt", "blank")  # kinds of documents
DRAWN = 384  # pixels a side
CELL, MARGIN, COLUMNS = 150, 10, 2


@dataclass(frozen=True)
class Example:
    """Two pictures uint8 (H, W, 3), and whether one is a copy of the other; `name` describes them."""

    name: str
    a: np.ndarray
    b: np.ndarray
    copies: bool


def draw_examples() -> list[Example]:
    """Draw the pairs that a model errs on, always the same."""
    first = {kind: MEMBERS * list(KINDS).index(kind) for kind in SHOWN}  # the kinds take turns
    documents = draw_documents(max(first.values()) + 2, DRAWN)
    pairs = [Example(f"{kind}: other content", *documents[at : at + 2], copies=False) for kind, at in first.items()]
    (one, other), (ground,) = draw_pictures(2, DRAWN, seed=4), draw_pictures(1, DRAWN)
    part, third = slice(2 * DRAWN // 5, 3 * DRAWN // 5), DRAWN // 3
    pasted = ground.copy()
    pasted[third : 2 * third, third // 2 : third // 2 + third] = _resize_picture(one, third)
    mirrored = Image.fromarray(one[:, ::-1])
    ImageDraw.Draw(mirrored).text((20, DRAWN - 60), "look what I found", "white", ImageFont.load_default(36))
    return [
        *pairs,
        Example("shapes of one style, another picture", one, other, copies=False),
        Example("mirrored, with a caption", one, np.asarray(mirrored), copies=True),
        Example("a crop of a twenty-fifth of the area", one, one[part, part], copies=True),
        Example("pasted into another at a third of its side", one, pasted, copies=True),
    ]


def study_limits(runtime: Runtime, shown: Sequence[Example]) -> dict[str, Any]:
    """The answers of a model for the pairs: `pairs` of name, whether they are copies, and the probability of each
    question, each pair by itself.
    """
    sides = [np.stack([panel_pixels(getattr(pair, side), runtime.panel_size) for pair in shown]) for side in "ab"]
    tokens_a, tokens_b = (runtime.encode(pixels).tokens for pixels in sides)
    answers = question_probabilities(runtime.manifest.questions, runtime.all_logits(tokens_a, tokens_b))
    rows = [
        {"name": pair.name, "copies": pair.copies} | {question: float(p[i]) for question, p in answers.items()}
        for i, pair in enumerate(shown)
    ]
    return {"model": runtime.name, "revision": runtime.revision, "pairs": rows}


def limits_text(result: Mapping[str, Any]) -> str:
    """The probabilities as a table."""
    questions = [key for key in result["pairs"][0] if key not in ("name", "copies")]
    lines = [
        [row["name"], "copies" if row["copies"] else "no copies", *(f"{row[question]:.3f}" for question in questions)]
        for row in result["pairs"]
    ]
    return f"{format_table(['pair', 'they are', *questions], lines)}\nmodel {result['model']} {result['revision']}"


def draw_limits(result: Mapping[str, Any], shown: Sequence[Example], path: Path) -> None:
    """Draw the pairs with their probabilities, as a picture."""
    width, height = 2 * CELL + 240 + MARGIN, CELL + 2 * MARGIN
    rows = -(-len(shown) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width + MARGIN, rows * height + MARGIN), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for number, (pair, row) in enumerate(zip(shown, result["pairs"], strict=True)):
        left, top = MARGIN + number % COLUMNS * width, MARGIN + number // COLUMNS * height
        for place, pixels in enumerate((pair.a, pair.b)):
            sheet.paste(Image.fromarray(_resize_picture(pixels, CELL)), (left + place * (CELL + 4), top))
        said = [f"{name}: {value:.3f}" for name, value in row.items() if name not in ("name", "copies")]
        words = [fill(pair.name, 26), "copies" if pair.copies else "no copies", "", *said]
        draw.multiline_text((left + 2 * CELL + 16, top), "\n".join(words), "black", font, spacing=6)
    with replacing_file(path) as unfinished:
        sheet.save(unfinished, "PNG", optimize=True)


def _resize_picture(pixels: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC, reducing_gap=2.0))
