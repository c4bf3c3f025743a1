"""Conditions on metadata, decided exactly here, and foreseen by an expression for Milvus as far as it can say them.

Versions of Milvus differ in what `not`, `!=`, `exists` and null mean for a field that is not there. So an expression
only ever says what pictures that meet the condition have for certain; who asks then looks at the metadata themselves.
"""

from __future__ import annotations

import json
import re
from typing import Any

from diptych.store.filters import Filter

FIELD = "facets"

_PLAIN = re.compile(r"[A-Za-z0-9_ -]+(\.[A-Za-z0-9_ -]+)*")
_SAFE = 2**53  # whole numbers to here are the same in all of Milvus's kinds of numbers
_FAR = 1e300  # stands for those beyond, of which an expression only asks on which side they are
_ORDER = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_MISSING = object()


def facets(metadata: dict[str, Any]) -> dict[str, Any]:
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


def necessary(condition: Filter | None) -> str:
    """An expression that every picture that meets the condition meets too; empty if there is none."""
    return _all_of(condition or {}) or ""


def meets(condition: Filter, metadata: dict[str, Any]) -> bool:
    """True if metadata meet a condition, in the sense of `filters`, which has checked it."""
    return all(_meets(key, given, metadata) for key, given in condition.items())


def _all_of(condition: Filter) -> str | None:
    parts = [part for key, given in condition.items() if (part := _part(key, given))]
    return " and ".join(parts) if parts else None


def _part(key: str, given: Any) -> str | None:
    if key == "$not":
        return None
    if key in ("$and", "$or"):
        parts = [_all_of(inner) for inner in given]
        if key == "$or" and not all(parts):
            return None
        return _joined([part for part in parts if part], key[1:])
    if not _PLAIN.fullmatch(key):
        return None
    field = f"{FIELD}[{json.dumps(key)}]"
    return _joined([part for name, wanted in _comparisons(given) if (part := _compared(field, name, wanted))], "and")


def _compared(field: str, name: str, wanted: Any) -> str | None:
    if name == "$in":
        parts = [_compared(field, "$eq", value) for value in wanted]
        return _joined([part for part in parts if part], "or") if all(parts) else None
    sign = "==" if name == "$eq" else _ORDER.get(name)
    if sign is None or not _sayable(wanted):
        return None
    return f"{field} {sign} {json.dumps(wanted, ensure_ascii=False)}"


def _joined(parts: list[str], by: str) -> str | None:
    return f"({f' {by} '.join(parts)})" if parts else None


def _sayable(value: Any) -> bool:
    """True if a value means the same in an expression for all versions of Milvus."""
    if isinstance(value, str):
        return value.isprintable() and not set(value) & {'"', "\\", "{", "}"}
    if isinstance(value, bool):
        return True
    return isinstance(value, int | float) and abs(value) <= _SAFE


def _meets(key: str, given: Any, metadata: dict[str, Any]) -> bool:
    if key == "$and":
        return all(meets(part, metadata) for part in given)
    if key == "$or":
        return any(meets(part, metadata) for part in given)
    if key == "$not":
        return not meets(given, metadata)
    value: Any = metadata
    for step in key.split("."):
        value = value.get(step, _MISSING) if isinstance(value, dict) else _MISSING
    return all(_holds(name, value, wanted) for name, wanted in _comparisons(given))


def _holds(name: str, value: Any, wanted: Any) -> bool:
    match name:
        case "$eq":
            return _equal(value, wanted)
        case "$ne":
            return not _equal(value, wanted)
        case "$in":
            return any(_equal(value, one) for one in wanted)
        case "$nin":
            return not any(_equal(value, one) for one in wanted)
        case "$exists":
            return (value is not _MISSING) == wanted
    a, b = _number(value), _number(wanted)
    if a is None or b is None:
        if not (isinstance(value, str) and isinstance(wanted, str)):
            return False
        a, b = value, wanted  # by code points, which is the order of their UTF-8, as in SQL
    return {"$gt": a > b, "$gte": a >= b, "$lt": a < b, "$lte": a <= b}[name]


def _equal(value: Any, wanted: Any) -> bool:
    if wanted is None or isinstance(wanted, bool):
        return value is wanted
    if isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    a, b = _number(value), _number(wanted)
    return a is not None and a == b


def _number(value: Any) -> Any:
    """A number as the database would have it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if isinstance(value, float) or -(2**63) <= value < 2**63 else float(value)


def _comparisons(given: Any) -> list[tuple[str, Any]]:
    if isinstance(given, dict) and given:
        return list(given.items())
    return [("$eq", given)]
