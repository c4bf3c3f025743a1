"""Expressions for Milvus, which say of a condition on metadata as much as Milvus understands.

Versions of Milvus differ in what `not`, `!=`, `exists` and null mean for a field that is not there. So an expression
only ever says what pictures that meet the condition have for certain; who asks then looks at the metadata themselves.
"""

from __future__ import annotations

import json
import re
from typing import Any

from diptych.store.filters import Comparison, Condition, Filter, Junction, parse_filter

FIELD = "facets"

_PLAIN = re.compile(r"[A-Za-z0-9_ -]+(\.[A-Za-z0-9_ -]+)*")
_SAFE = 2**53  # whole numbers to here are the same in all of Milvus's kinds of numbers
_FAR = 1e300  # stands for those beyond, of which an expression only asks on which side they are


def list_facets(metadata: dict[str, Any]) -> dict[str, Any]:
    """The values that expressions search, by dotted path: the texts, numbers, true and false under plain names."""
    found: dict[str, Any] = {}
    level = [("", metadata)]
    while level:
        path, inside = level.pop()
        for name, value in inside.items():
            here = f"{path}{name}"
            if "." in name or not _PLAIN.fullmatch(here):
                continue
            if isinstance(value, dict):
                level.append((f"{here}.", value))
            elif isinstance(value, str | bool):
                found[here] = value
            elif isinstance(value, int | float):
                found[here] = value if abs(value) <= _SAFE else _FAR if value > 0 else -_FAR
    return found


def write_expression(condition: Filter) -> str:
    """An expression that every picture that meets the condition meets too; empty if there is none.

    Raises ArgumentError for what is no condition.
    """
    return _write_part(parse_filter(condition))


def _write_part(part: Condition) -> str:
    match part:
        case Junction(word, parts):
            known = [text for text in map(_write_part, parts) if text]
            if not known or (word == "OR" and len(known) < len(parts)):
                return ""
            return known[0] if len(known) == 1 else f"({f' {word.lower()} '.join(known)})"
        case Comparison(field, sign, value) if sign != "exists" and _PLAIN.fullmatch(field) and _is_sayable(value):
            asked = "==" if sign == "=" else sign
            return f"{FIELD}[{json.dumps(field)}] {asked} {json.dumps(value, ensure_ascii=False)}"
    return ""


def _is_sayable(value: Any) -> bool:
    """True if a value means the same in an expression for all versions of Milvus."""
    if isinstance(value, str):
        return value.isprintable() and not set(value) & {'"', "\\", "{", "}"}
    if isinstance(value, bool):
        return True
    return isinstance(value, int | float) and abs(value) <= _SAFE
