"""Which picture of a group to keep: an ordered list of rules, of which a later one only parts what earlier ones tie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture

# A copy that was saved again has fewer bytes as a rule; where a copy was copied along, its time says nothing.
DEFAULT = ("resolution", "format", "exif", "largest", "oldest")

# Formats that lose nothing first, then by how much is usually lost: what a telephone took (HEIF) is made a JPEG for
# others, and that something for the web; a GIF has 256 colours.
_FORMATS = ("TIFF", "PNG", "BMP", "HEIF", "JPEG", "AVIF", "WEBP", "GIF")

RULES: dict[str, tuple[str, Callable[[Picture], Any]]] = {
    "resolution": ("more pixels", lambda picture: -picture.width * picture.height),
    "format": ("TIFF, PNG, BMP, HEIF, JPEG, AVIF, WebP, GIF in this order", lambda picture: _place(picture.format)),
    "exif": ("more EXIF entries", lambda picture: -picture.exif),
    "oldest": ("taken earlier, or else changed earlier", lambda picture: picture.time),
    "newest": ("taken later, or else changed later", lambda picture: -picture.time),
    "largest": ("more bytes", lambda picture: -picture.bytes),
    "shortest": ("a shorter path", lambda picture: len(picture.path)),
    "first-dir": ("from the folder that was named first", lambda picture: picture.root),
}


def checked_rules(names: Sequence[str]) -> tuple[str, ...]:
    """The rules of these names. Raises DedupeError for a name that is none, with what it could have been."""
    for name in names:
        if name not in RULES:
            close = get_close_matches(name, RULES, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise DedupeError(f"{name!r} is not a rule for what to keep; expected some of {', '.join(RULES)}{hint}")
    return tuple(names)


def preference(pictures: Sequence[Picture], rules: Sequence[str] = DEFAULT) -> list[int]:
    """The places of the pictures, the one to keep first; ties by path. The same order however they are given.

    Raises DedupeError for a rule that is none.
    """
    keys = [RULES[name][1] for name in checked_rules(rules)]
    return sorted(
        range(len(pictures)), key=lambda place: (*(key(pictures[place]) for key in keys), pictures[place].path)
    )


def _place(format: str) -> int:
    return _FORMATS.index(format) if format in _FORMATS else len(_FORMATS)
