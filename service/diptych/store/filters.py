"""Conditions on metadata, as document and vector stores write them, and as SQL.

    {"label": "shoe", "price": {"$gte": 10, "$lt": 50}}
    {"$or": [{"maker.name": {"$in": ["a", "b"]}}, {"checked": {"$exists": false}}]}

A bare value means equal. JSON types are kept apart: 1 is neither true nor "1". What a picture's metadata does not have
is unequal to everything, and neither more nor less than anything. A dot leads into a field of an object, so that a name
which has one itself cannot be asked for.
"""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from functools import lru_cache
from typing import Any

from diptych_runtime.errors import ArgumentError
from diptych_runtime.parsing import DEPTH

_COMPARE = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", *_COMPARE, "$in", "$nin", "$exists")
_LOGIC = {"$and": " AND ", "$or": " OR "}
_DEPTH, _TERMS = 16, 256

_VALUE = {
    "anyOf": [
        {"type": ["string", "boolean", "null"]},
        {"type": "integer", "minimum": -(2**63) + 1, "maximum": 2**63 - 1},
        {"type": "number"},
    ]
}
_ORDERED = {"anyOf": [{"type": "string"}, *_VALUE["anyOf"][1:]]}
_VALUES = {"type": "array", "items": _VALUE, "minItems": 1}
_SELF = {"$ref": "#/components/schemas/Filter"}
_PARTS = {"type": "array", "items": _SELF, "minItems": 1}

# The same as JSON Schema, for the OpenAPI document, where it is called Filter.
SCHEMA = {
    "type": "object",
    "title": "Filter",
    "description": f"A condition on metadata, nested {_DEPTH} deep and with {_TERMS} comparisons at most.",
    "properties": {"$and": _PARTS, "$or": _PARTS, "$not": _SELF},
    "patternProperties": {
        r'^[^$."]([^."]|\.[^."])*$': {
            "anyOf": [
                _VALUE,
                {
                    "type": "object",
                    "properties": {
                        **dict.fromkeys(("$eq", "$ne"), _VALUE),
                        **dict.fromkeys(_COMPARE, _ORDERED),
                        **dict.fromkeys(("$in", "$nin"), _VALUES),
                        "$exists": {"type": "boolean"},
                    },
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    },
    "additionalProperties": False,
}

Filter = dict[str, Any]
Condition = tuple[str, list[Any]]
ALWAYS: Condition = ("(1)", [])


def to_sql(condition: Filter) -> Condition:
    """A condition as SQL over the column `metadata`, and the values it takes; an empty one is always true.

    Raises ArgumentError, which says where and what was expected, for what is no condition.
    """
    try:
        json.dumps(condition, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, RecursionError):
        raise ArgumentError(
            "filter: it is nested too deep, or has half of a surrogate pair, which is no text"
        ) from None
    terms = [0]

    def all_of(value: Any, where: str, depth: int) -> Condition:
        if not isinstance(value, dict):
            raise ArgumentError(f"{where}: expected an object of conditions, got {_shown(value)}")
        if depth > _DEPTH:
            raise ArgumentError(f"{where}: at most {_DEPTH} levels are allowed")
        return _joined([one(key, given, f"{where}.{key}", depth) for key, given in value.items()], " AND ")

    def one(key: str, given: Any, where: str, depth: int) -> Condition:
        if key in _LOGIC:
            if not isinstance(given, list) or not given:
                raise ArgumentError(f"{where}: expected a list of conditions, got {_shown(given)}")
            parts = [all_of(part, f"{where}[{place}]", depth + 1) for place, part in enumerate(given)]
            return _joined(parts, _LOGIC[key])
        if key == "$not":
            text, values = all_of(given, where, depth + 1)
            return f"NOT {text}", values
        if key.startswith("$"):
            raise ArgumentError(f"{where}: expected $and, $or, $not or the name of a field")
        path = _path(key, where)
        if not (isinstance(given, dict) and given and all(str(name).startswith("$") for name in given)):
            given = {"$eq": given}
        terms[0] += sum(len(wanted) if isinstance(wanted, list) else 1 for wanted in given.values())
        if terms[0] > _TERMS:
            raise ArgumentError(f"{where}: at most {_TERMS} comparisons are allowed")
        return _joined([_comparison(path, name, wanted, f"{where}.{name}") for name, wanted in given.items()], " AND ")

    return all_of(condition, "filter", 0)


def _comparison(path: str, name: str, wanted: Any, where: str) -> Condition:
    match name:
        case "$eq":
            return _equal(path, wanted, where)
        case "$ne":
            return _negated(_equal(path, wanted, where))
        case "$in" | "$nin":
            if not isinstance(wanted, list) or not wanted:
                raise ArgumentError(f"{where}: expected a list of values, got {_shown(wanted)}")
            found = _joined([_equal(path, value, where) for value in wanted], " OR ")
            return found if name == "$in" else _negated(found)
        case "$exists":
            if not isinstance(wanted, bool):
                raise ArgumentError(f"{where}: expected true or false, got {_shown(wanted)}")
            return f"(json_type(metadata, ?) IS {'NOT ' if wanted else ''}NULL)", [path]
    if name not in _COMPARE:
        raise ArgumentError(f"{where}: expected one of {', '.join(_OPERATORS)}")
    kinds = _kinds(wanted)
    if kinds is None:
        raise ArgumentError(f"{where}: expected a number or a text, got {_shown(wanted)}")
    return _of_kind(path, kinds, _COMPARE[name], wanted)


def _equal(path: str, wanted: Any, where: str) -> Condition:
    if wanted is None or isinstance(wanted, bool):
        return "(json_type(metadata, ?) IS ?)", [path, json.dumps(wanted)]
    kinds = _kinds(wanted)
    if kinds is None:
        raise ArgumentError(f"{where}: expected a number, a text, true, false or null, got {_shown(wanted)}")
    return _of_kind(path, kinds, "=", wanted)


def _of_kind(path: str, kinds: str, operator: str, wanted: Any) -> Condition:
    # NULL, for a field that is not there, would be neither true nor false under NOT.
    text = f"coalesce(json_type(metadata, ?) IN ({kinds}) AND json_extract(metadata, ?) {operator} ?, 0)"
    return text, [path, path, wanted]


def _kinds(value: Any) -> str | None:
    if isinstance(value, str):
        return "'text'"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # SQLite's whole numbers end at 64 bits; a larger one cannot be bound.
    is_taken = abs(value) < 2**63 if isinstance(value, int) else not math.isnan(value)
    return "'integer', 'real'" if is_taken else None


def _path(key: str, where: str) -> str:
    steps = key.split(".")
    # Metadata are stored as `json.dumps` writes them, and SQLite compares names as they are written.
    path = "$" + "".join(f".{json.dumps(step)}" for step in steps)
    if len(steps) > DEPTH or not all(steps) or not _is_found(path, tuple(steps)):
        raise ArgumentError(
            f"{where}: expected the name of a field, or up to {DEPTH} with dots between, without quotes"
        )
    return path


@lru_cache(1024)
def _is_found(path: str, steps: tuple[str, ...]) -> bool:
    """True if the SQLite in use finds a field by its path; versions differ in which names they can."""
    metadata: Any = True
    for step in reversed(steps):
        metadata = {step: metadata}
    with closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute("SELECT json_type(?, ?)", (json.dumps(metadata), path)).fetchone() == ("true",)


def _joined(parts: list[Condition], by: str) -> Condition:
    if not parts:
        return ALWAYS
    return f"({by.join(text for text, _ in parts)})", [value for _, values in parts for value in values]


def _negated(condition: Condition) -> Condition:
    return f"NOT {condition[0]}", condition[1]


def _shown(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:40]}..."
