"""Which picture of a group to keep: an ordered list of rules, of which a later one only parts what earlier ones tie."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple

from diptych.errors import DedupeError
from diptych.pictures.file_info import Picture

# These decide where the pixels of two pictures do not: see `settling`. What a camera took has EXIF entries, and a PNG
# that was saved from it has none. A copy that was saved again has fewer bytes as a rule.
DEFAULT = ("resolution", "with-exif", "format", "exif", "largest", "oldest")

# Formats that lose nothing first, then by how much is usually lost: what a telephone took (HEIF) is made a JPEG for
# others, and that something for the web; a GIF has 256 colours.
_FORMATS = ("TIFF", "PNG", "BMP", "HEIF", "JPEG", "AVIF", "WEBP", "GIF")


class Rule(NamedTuple):
    """A rule: the reason in words that follow "kept because of", and a value, of which the lowest is preferred."""

    reason: str
    value: Callable[[Picture], Any]


RULES = {
    "resolution": Rule("more pixels", lambda picture: -picture.width * picture.height),
    "with-exif": Rule("its EXIF entries", lambda picture: not picture.exif),
    "format": Rule("a better format", lambda picture: _format_rank(picture.format)),
    "exif": Rule("more EXIF entries", lambda picture: -picture.exif),
    "oldest": Rule("an earlier date", lambda picture: (_date_key(picture.time), _date_key(picture.changed))),
    "newest": Rule("a later date", lambda picture: (_date_key(picture.time, -1), _date_key(picture.changed, -1))),
    "largest": Rule("more bytes", lambda picture: -_size_in_twentieths(picture.bytes)),
    "shortest": Rule("a shorter path", lambda picture: len(picture.path)),
    "first-dir": Rule("a folder that was named earlier", lambda picture: picture.root),
}
_REFERENCE = Rule("its reference folder", lambda picture: not picture.reference)
_PATH = Rule("its path, the first in the alphabet", lambda picture: picture.path)


def checked_rules(names: str | Sequence[str]) -> tuple[str, ...]:
    """The rules of these names, or of the one. Raises DedupeError for a name that is none."""
    names = (names,) if isinstance(names, str) else tuple(names)
    for name in names:
        if name not in RULES:
            close = get_close_matches(name, RULES, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise DedupeError(f"{name!r} is not a rule for what to keep; expected some of {', '.join(RULES)}{hint}")
    return names


def preference_order(pictures: Sequence[Picture], rules: Sequence[str] = DEFAULT) -> list[int]:
    """The places of the pictures, the one to keep first; ties by the shorter path, and then by the alphabet. The same
    order however they are given.

    Those in reference folders come before any rule. Raises DedupeError for a rule that is none.
    """
    deciding = _all_rules(rules)
    keys = [tuple(rule.value(picture) for rule in deciding) for picture in pictures]
    return sorted(range(len(pictures)), key=keys.__getitem__)


def preferred_reason(kept: Picture, other: Picture, rules: Sequence[str] = DEFAULT) -> str | None:
    """The reason for which `kept` is preferred to another picture; None where the rules prefer the other one."""
    for rule in _all_rules(rules):
        values = rule.value(kept), rule.value(other)
        if values[0] != values[1]:
            return rule.reason if values[0] < values[1] else None
    return None


def _all_rules(rules: Sequence[str]) -> list[Rule]:
    return [_REFERENCE, *(RULES[name] for name in checked_rules(rules)), RULES["shortest"], _PATH]


def _date_key(time: float | None, sign: int = 1) -> tuple[bool, float]:
    """The earlier time first, or with a `sign` of -1 the later one; where none is known last."""
    return time is None, sign * (time or 0)


def _size_in_twentieths(bytes: int) -> int:
    """The size of a file in steps of a twentieth: a few bytes more say nothing of two that were saved alike."""
    return round(math.log(max(bytes, 1)) / math.log(1.05))


def _format_rank(format: str) -> int:
    return _FORMATS.index(format) if format in _FORMATS else len(_FORMATS)
