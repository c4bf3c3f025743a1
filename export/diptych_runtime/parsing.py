"""JSON and TOML that may come from a stranger: a text that nests too deeply is refused like one that is damaged.

Python's parsers raise RecursionError for such a text, and what they still accept may be too deep for the code behind.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from typing import Any

DEPTH = 128  # levels of lists and objects


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for a text that is not JSON, or that nests deeper than `DEPTH` levels.
    """
    return _parse_checked(json.loads, text)


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; raises ValueError as `parse_json` does."""
    return _parse_checked(tomllib.loads, text)


def _parse_checked(parse: Callable[[Any], Any], text: str | bytes) -> Any:
    try:
        value = parse(text)
    except RecursionError:
        raise _too_deep() from None
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise ValueError for lists and objects that nest deeper than `DEPTH` levels."""
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level for inner in _nested_values(outer)]
        if not level:
            return
    raise _too_deep()


def _nested_values(value: Any) -> list[Any]:
    """The lists and objects in a value."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [inner for inner in inside if isinstance(inner, dict | list)]


def _too_deep() -> ValueError:
    return ValueError(f"lists and objects may nest {DEPTH} levels deep, and these nest deeper")
