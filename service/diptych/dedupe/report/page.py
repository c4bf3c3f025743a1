"""Writes the report: one HTML file that asks no host, in the look of the service's page."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image

from diptych.console import QUIET, Console
from diptych.dedupe.duplicates import Duplicates
from diptych.dedupe.report.table import write_error
from diptych.pictures.sources import picture_limits
from diptych.scoring.threads import map_pictures
from diptych_runtime.atomic import replacing_stream
from diptych_runtime.decoder import PictureLimits, open_picture
from diptych_runtime.errors import PictureError
from diptych_runtime.session import thread_count

_HERE = Path(__file__).parent
_PAGE = _HERE.parents[1] / "http" / "page"
SIDE = 192  # pixels of the longer side of a thumbnail
_QUALITY = 55
_BATCH = 64  # thumbnails that are made at a time


def write_page(
    path: Path,
    found: Duplicates,
    roots: Sequence[Path],
    refused: Sequence[Mapping[str, str]] = (),
    console: Console = QUIET,
    *,
    threads: int | None = None,
) -> None:
    """Write the report of the duplicates below some folders; the file appears as a whole. Raises DedupeError.

    The file has the pictures that are in a pair at the bound or have exact copies, about 6 kB each.
    """
    data, shown = page_data(found, roots)
    data |= {
        "told_by": f"Model {found.model}"
        if found.method == "network"
        else f"By digest and perceptual hash, at most {found.max_distance} of 64 bits apart",
        "made": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        "refused": list(refused),
    }
    script = _read_text(_PAGE / "groups.js") + _read_text(_HERE / "report.js")
    theme = _read_text(_PAGE / "theme.js")
    parts = {
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src {_script_hash(theme)} {_script_hash(script)}",
        "style": _read_text(_PAGE / "style.css") + _read_text(_PAGE / "groups.css"),
        "theme": theme,
        "found": _inert_json(data),
        "script": script,
    }
    try:
        with replacing_stream(path) as file, console.progress(total=len(shown), unit="picture", desc="report") as bar:
            thumbnails = make_thumbnails(shown, picture_limits(), threads or thread_count())
            for text in _fill_template(parts, thumbnails, bar.update):
                file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise write_error(path, error) from None


def page_data(found: Duplicates, roots: Sequence[Path]) -> tuple[dict[str, Any], list[str]]:
    """The data that the page groups by, as JSON values, and the path of a file of each content.

    Pictures come in the order of the rules, by which groups are made, and contents are numbered in it; `keepers` are
    the places of those that are kept. Of a content that several reference files have there is one. A picture that goes
    has the place of the one that stands for it, or else -1, and each the reason and what distinguishes it.
    """
    several = {id for a, b, _ in found.pairs for id in (a, b)}
    met: set[str] = set()
    ordered = []
    for picture in (found.pictures[place] for place in found.order):
        if picture.id not in met or not picture.reference:
            (several if picture.id in met else met).add(picture.id)
            ordered.append(picture)
    ordered = [picture for picture in ordered if picture.id in several]
    number: dict[str, int] = {}
    shown, pictures = [], []
    places = {picture.path: place for place, picture in enumerate(ordered)}
    members = {member.picture.path: member for group in found.groups for member in group.others}
    for picture in ordered:
        if picture.id not in number:
            number[picture.id] = len(number)
            shown.append(picture.path)
        root = str(roots[picture.root])
        time = "" if picture.time is None else datetime.fromtimestamp(picture.time).strftime("%Y-%m-%d")
        facts = (picture.bytes, picture.width, picture.height, picture.format, time, number[picture.id])
        name = picture.path[len(root) :].lstrip("/")
        member = members.get(picture.path)
        instead = -1 if member is None or member.replaced_by is None else places.get(member.replaced_by.path, -1)
        told = (instead, member.kept_because, member.edit) if member else (-1, "", "")
        pictures.append((picture.root, name, *facts, picture.reference, *told))
    data = {
        "roots": [str(root).rstrip("/") + "/" for root in roots],
        "pictures": pictures,
        "keepers": [places[group.keeper.path] for group in found.groups if group.keeper.path in places],
        "contents": len(number),
        "pairs": [(number[a], number[b], score) for a, b, score in found.pairs],
        "threshold": found.threshold,
        "bound": found.bound,
        "verdicts": found.verdicts,
        "looked": len(found.pictures),
        "method": found.method,
    }
    return data, shown


def _fill_template(parts: Mapping[str, str], pictures: Iterator[str], tick: Callable[[], object]) -> Iterator[str]:
    """The template with its parts, a thumbnail at a time: they are most of the file."""
    for piece in _read_text(_HERE / "page.html").split("{{"):
        name, mark, rest = piece.partition("}}")
        if not mark:
            yield piece
        elif name == "thumbnails":
            for number, data in enumerate(pictures):
                yield f'<script type="text/plain" id="t{number}">{data}</script>\n'
                tick()
            yield rest
        else:
            yield parts[name] + rest


def _inert_json(data: Mapping[str, Any]) -> str:
    """JSON in which no name of a file can end the script element that it stands in."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _script_hash(script: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _read_text(path: Path) -> str:
    return path.read_text("utf-8")


def make_thumbnails(paths: Sequence[str], limits: PictureLimits, threads: int) -> Iterator[str]:
    """A WebP in base64 for each path, in order; empty where a file cannot be read any more."""
    for start in range(0, len(paths), _BATCH):
        made = map_pictures(partial(make_thumbnail, limits=limits), paths[start : start + _BATCH], threads)
        yield from ("" if isinstance(one, PictureError) else b64encode(one).decode() for one in made)


def make_thumbnail(path: str, limits: PictureLimits) -> bytes:
    """The picture as a WebP whose longer side has at most `SIDE` pixels. Raises PictureError."""
    picture = open_picture(path, limits, least=SIDE)
    picture.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS, reducing_gap=2.0)
    buffer = BytesIO()
    picture.save(buffer, "WEBP", quality=_QUALITY)
    return buffer.getvalue()
