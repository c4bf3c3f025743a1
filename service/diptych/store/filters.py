"""Conditions on metadata, as document and vector stores write them: read into one tree, and decided by SQLite alone.

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
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from diptych_runtime.errors import ArgumentError
from diptych_runtime.parsing import DEPTH

Sign = Literal["=", ">", ">=", "<", "<=", "exists"]

_COMPARE: dict[str, Sign] = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", *_COMPARE, "$in", "$nin", "$exists")
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


@dataclass(frozen=True)
class Comparison:
    """A field beside a value: text, number, true, false or null; `exists` takes none."""

    field: str
    sign: Sign
    value: Any = None


@dataclass(frozen=True)
class Junction:
    """Conditions of which all are to be true, or any; without one, all of none are."""

    word: Literal["AND", "OR"]
    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Negation:
    """A condition that is not to be true."""

    part: Condition


Condition = Comparison | Junction | Negation


def parse_filter(condition: Filter) -> Condition:
    """Read a condition into its tree. Raises ArgumentError, which says where and what was expected."""
    try:
        json.dumps(condition, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, RecursionError):
        raise ArgumentError(
            "filter: it is nested too deep, or has half of a surrogate pair, which is no text"
        ) from None
    terms = 0

    def parse_all(value: Any, where: str, depth: int) -> Condition:
        if not isinstance(value, dict):
            raise ArgumentError(f"{where}: expected an object of conditions, got {_show_value(value)}")
        if depth > _DEPTH:
            raise ArgumentError(f"{where}: at most {_DEPTH} levels are allowed")
        return Junction("AND", tuple(parse_one(key, given, f"{where}.{key}", depth) for key, given in value.items()))

    def parse_one(key: str, given: Any, where: str, depth: int) -> Condition:
        nonlocal terms
        if key in ("$and", "$or"):
            if not isinstance(given, list) or not given:
                raise ArgumentError(f"{where}: expected a list of conditions, got {_show_value(given)}")
            parts = (parse_all(part, f"{where}[{place}]", depth + 1) for place, part in enumerate(given))
            return Junction("AND" if key == "$and" else "OR", tuple(parts))
        if key == "$not":
            return Negation(parse_all(given, where, depth + 1))
        if key.startswith("$"):
            raise ArgumentError(f"{where}: expected $and, $or, $not or the name of a field")
        _check_field(key, where)
        if not (isinstance(given, dict) and given and all(str(name).startswith("$") for name in given)):
            given = {"$eq": given}
        terms += sum(len(wanted) if isinstance(wanted, list) else 1 for wanted in given.values())
        if terms > _TERMS:
            raise ArgumentError(f"{where}: at most {_TERMS} comparisons are allowed")
        return Junction(
            "AND", tuple(_parse_comparison(key, name, one, f"{where}.{name}") for name, one in given.items())
        )

    return parse_all(condition, "filter", 0)


def to_sql(condition: Filter) -> tuple[str, list[Any]]:
    """Make a condition SQL over the column `metadata`, and the values it takes. Raises ArgumentError."""
    values: list[Any] = []

    def write(part: Condition) -> str:
        match part:
            case Junction(word, parts):
                return f"({f' {word} '.join(map(write, parts)) or '1'})"
            case Negation(inner):
                return f"NOT {write(inner)}"
            case Comparison(field, "exists"):
                values.append(_make_path(field))
                return "(json_type(metadata, ?) IS NOT NULL)"
            case Comparison(field, _, None | bool() as value):
                values.extend((_make_path(field), json.dumps(value)))
                return "(json_type(metadata, ?) IS ?)"
            case Comparison(field, sign, value):
                values.extend((_make_path(field), _make_path(field), value))
                kinds = "'text'" if isinstance(value, str) else "'integer', 'real'"
                # NULL, for a field that is not there, would be neither true nor false under NOT.
                return f"coalesce(json_type(metadata, ?) IN ({kinds}) AND json_extract(metadata, ?) {sign} ?, 0)"

    return write(parse_filter(condition)), values


@contextmanager
def open_test(condition: Filter) -> Iterator[Callable[[dict[str, Any]], bool]]:
    """Give a test of metadata by a condition, which SQLite decides. Raises ArgumentError like `parse_filter`."""
    text, values = to_sql(condition)
    query = f"SELECT {text} FROM (SELECT ? AS metadata)"
    with closing(sqlite3.connect(":memory:")) as connection:
        yield lambda metadata: bool(connection.execute(query, (*values, json.dumps(metadata))).fetchone()[0])


def _parse_comparison(field: str, name: str, wanted: Any, where: str) -> Condition:
    match name:
        case "$eq":
            return _parse_equal(field, wanted, where)
        case "$ne":
            return Negation(_parse_equal(field, wanted, where))
        case "$in" | "$nin":
            if not isinstance(wanted, list) or not wanted:
                raise ArgumentError(f"{where}: expected a list of values, got {_show_value(wanted)}")
            found = Junction("OR", tuple(_parse_equal(field, value, where) for value in wanted))
            return found if name == "$in" else Negation(found)
        case "$exists":
            if not isinstance(wanted, bool):
                raise ArgumentError(f"{where}: expected true or false, got {_show_value(wanted)}")
            return Comparison(field, "exists") if wanted else Negation(Comparison(field, "exists"))
    if name not in _COMPARE:
        raise ArgumentError(f"{where}: expected one of {', '.join(_OPERATORS)}")
    if not _is_ordered(wanted):
        raise ArgumentError(f"{where}: expected a number or a text, got {_show_value(wanted)}")
    return Comparison(field, _COMPARE[name], wanted)


def _parse_equal(field: str, wanted: Any, where: str) -> Condition:
    if not (wanted is None or isinstance(wanted, bool) or _is_ordered(wanted)):
        raise ArgumentError(f"{where}: expected a number, a text, true, false or null, got {_show_value(wanted)}")
    return Comparison(field, "=", wanted)


def _is_ordered(value: Any) -> bool:
    """True for a text, and for a number that SQLite has: its whole numbers end at 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return isinstance(value, str)
    return abs(value) < 2**63 if isinstance(value, int) else not math.isnan(value)


def _make_path(field: str) -> str:
    # Metadata are stored as `json.dumps` writes them, and SQLite compares names as they are written.
    return "$" + "".join(f".{json.dumps(step)}" for step in field.split("."))


def _check_field(field: str, where: str) -> None:
    steps = field.split(".")
    if len(steps) > DEPTH or not all(steps) or not _is_found(field):
        raise ArgumentError(
            f"{where}: expected the name of a field, or up to {DEPTH} with dots between, without quotes"
        )


@lru_cache(1024)
def _is_found(field: str) -> bool:
    """True if the SQLite in use finds a field by its path; versions differ in which names they can."""
    metadata: Any = True
    for step in reversed(field.split(".")):
        metadata = {step: metadata}
    with closing(sqlite3.connect(":memory:")) as connection:
        return connection.execute("SELECT json_type(?, ?)", (json.dumps(metadata), _make_path(field))).fetchone() == (
            "true",
        )


def _show_value(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:40]}..."
