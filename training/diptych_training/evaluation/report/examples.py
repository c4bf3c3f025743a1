"""Judged pairs as pictures side by side, with the strongest attention from patch to patch drawn between them."""

import math
from base64 import b64encode
from collections.abc import Sequence
from io import BytesIO
from xml.etree.ElementTree import Element

import numpy as np
from PIL import Image

from diptych_runtime.attention_links import strongest_links
from diptych_runtime.decoder import open_picture, panel_pixels
from diptych_runtime.errors import PictureError
from diptych_runtime.runtime import Runtime
from diptych_training.evaluation.report.charts import percent
from diptych_training.evaluation.report.markup import tag
from diptych_training.evaluation.series import Judged

SIDE, GAP, LINKS = 220, 28, 12


def pair_figures(pairs: Sequence[Judged], runtime: Runtime) -> list[Element]:
    """One figure a pair; a picture that cannot be decoded becomes a note."""
    return [_figure(pair, runtime) for pair in pairs]


def _figure(pair: Judged, runtime: Runtime) -> Element:
    try:
        shown = _side_by_side(pair, runtime)
    except PictureError as error:
        shown = [tag("p", f"Not shown: {error}", class_="alert")]
    captions = (tag("span", caption) for caption in (pair.caption_a, pair.caption_b))
    verdict = tag("b", f"{pair.relevance:.4f}"), " probability, raw score " + f"{pair.raw:.2f}".replace("-", "\u2212")
    return tag(
        "figure", *shown, tag("figcaption", tag("p", *captions, class_="names"), tag("p", *verdict)), class_="pair"
    )


def _side_by_side(pair: Judged, runtime: Runtime) -> list[Element]:
    sides = [(pair.picture_a, pair.caption_a), (pair.picture_b, pair.caption_b)]
    pictures = [open_picture(source, name=caption) for source, caption in sides]
    sizes = [_fitted(picture) for picture in pictures]
    height = max(size[1] for size in sizes)
    corners = [(place * (SIDE + GAP) + (SIDE - w) / 2, (height - h) / 2) for place, (w, h) in enumerate(sizes)]
    content, note = [], None
    for picture, (x, y), (w, h) in zip(pictures, corners, sizes, strict=True):
        content.append(tag("image", href=_data_uri(picture), x=x, y=y, width=w, height=h, preserveAspectRatio="none"))
    if runtime.explains:
        pixels = np.stack([panel_pixels(source, runtime.panel_size, name=caption) for source, caption in sides])
        tokens = runtime.encode(pixels).tokens
        (attention,) = runtime.attention(tokens[:1], tokens[1:])
        content += _drawn(attention, corners, sizes)
        crossing, most = percent(attention.sum() / len(attention), ".0f"), percent(attention.max(), ".1f")
        text = f"{crossing} of the attention crosses the seam; the strongest line is {most} of a patch's"
        note = tag("p", text, class_="aside")
    label = f"{pair.caption_a} beside {pair.caption_b}"
    box = f"0 0 {2 * SIDE + GAP} {height:.0f}"
    return [
        part for part in (tag("svg", *content, viewBox=box, role="img", aria_label=label), note) if part is not None
    ]


def _drawn(
    attention: np.ndarray,
    corners: Sequence[tuple[float, float]],
    sizes: Sequence[tuple[float, float]],
) -> list[Element]:
    """The links as lines from patch to patch, the strongest on top; a patch is where its part of the picture is."""
    links, side = strongest_links(attention, LINKS), math.isqrt(len(attention))
    most = max(links[0].share, 1e-12)
    marks = []
    for row, column, value in reversed(links):
        ends = []
        for token, (x, y), (w, h) in zip((row, column), corners, sizes, strict=True):
            i, j = divmod(token, side)
            ends.append((x + (j + 0.5) / side * w, y + (i + 0.5) / side * h))
        (x1, y1), (x2, y2) = ends
        thick, place = 0.8 + 2.7 * value / most, {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        marks.append(tag("line", **place, stroke_width=thick + 1.6, class_="halo"))
        marks.append(tag("line", tag("title", f"{value:.4f}"), **place, stroke_width=thick, class_="link"))
        marks += [tag("circle", cx=x, cy=y, r=1.5 + thick / 2, class_="end") for x, y in ends]
    return marks


def _fitted(picture: Image.Image) -> tuple[float, float]:
    """Width and height with the longer side as long as is shown."""
    scale = SIDE / max(picture.size)
    return max(picture.width * scale, 1), max(picture.height * scale, 1)


def _data_uri(picture: Image.Image) -> str:
    small = picture.copy()
    small.thumbnail((SIDE, SIDE))
    buffer = BytesIO()
    small.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + b64encode(buffer.getvalue()).decode()
