"""Conditions and metadata drawn at random, and what a condition means, in a few lines of Python."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

from diptych.store.filters import to_sql

MISSING = object()
KINDS = {bool: "bool", int: "number", float: "number", str: "text", type(None): "null"}


def met(condition: dict[str, Any], metadata: dict[str, Any]) -> bool:
    """What a condition means."""
    return all(_one(key, given, metadata) for key, given in condition.items())


def _one(key: str, given: Any, metadata: dict[str, Any]) -> bool:
    if key == "$and":
        return all(met(part, metadata) for part in given)
    if key == "$or":
        return any(met(part, metadata) for part in given)
    if key == "$not":
        return not met(given, metadata)
    value: Any = metadata
    for step in key.split("."):
        value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
    if not (isinstance(given, dict) and given):
        given = {"$eq": given}
    return all(_compared(name, wanted, value) for name, wanted in given.items())


def _compared(name: str, wanted: Any, value: Any) -> bool:
    def equal(other: Any) -> bool:
        return KINDS.get(type(value)) == KINDS[type(other)] and value == other

    def less(a: Any, b: Any) -> bool:
        return KINDS.get(type(a)) == KINDS.get(type(b)) in ("number", "text") and a < b

    return {
        "$eq": lambda: equal(wanted),
        "$ne": lambda: not equal(wanted),
        "$in": lambda: any(map(equal, wanted)),
        "$nin": lambda: not any(map(equal, wanted)),
        "$exists": lambda: (value is not MISSING) == wanted,
        "$lt": lambda: less(value, wanted),
        "$gt": lambda: less(wanted, value),
        "$lte": lambda: less(value, wanted) or equal(wanted),
        "$gte": lambda: less(wanted, value) or equal(wanted),
    }[name]()


VALUES = [None, True, False, 0, 1, 2, -3, 1.0, 1.5, 2**53 + 1, "", "1", "a", "b", "true", "ü"]
FIELDS = ["a", "b", "c", "d.e", "d", "with space", "x'); DROP TABLE pictures; --"]
FIELDS += ["größe", "名前 😀", "tags[0]", "back\\slash", "two\nlines", "nul\0", "\x7f", "é.名"]


def drawn_metadata(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {field: rng.choice(VALUES) for field in FIELDS if "." not in field and rng.random() < 0.6}
    if rng.random() < 0.5:
        found["d"] = {"e": rng.choice(VALUES)}
    if rng.random() < 0.5:
        found["é"] = {"名": rng.choice(VALUES)}
    if rng.random() < 0.2:
        found["c"] = [1, 2]
    return found


def drawn_condition(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    condition: dict[str, Any] = {}
    for _ in range(rng.randint(0 if depth == 0 else 1, 2)):
        kind = rng.random() if depth < 3 else 1
        if kind < 0.15:
            condition[rng.choice(["$and", "$or"])] = [drawn_condition(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        elif kind < 0.25:
            condition["$not"] = drawn_condition(rng, depth + 1)
        else:
            operators = rng.sample(
                ["$eq", "$ne", "$in", "$nin", "$exists", "$lt", "$gt", "$lte", "$gte"], rng.randint(1, 2)
            )
            condition[rng.choice(FIELDS)] = {name: _operand(rng, name) for name in operators}
    return condition


def _operand(rng: random.Random, name: str) -> Any:
    if name in ("$in", "$nin"):
        return rng.sample(VALUES, rng.randint(1, 4))
    if name == "$exists":
        return rng.random() < 0.5
    usable = VALUES if name in ("$eq", "$ne") else [v for v in VALUES if type(v) in (int, float, str)]
    return rng.choice(usable)


def selected(connection: sqlite3.Connection, condition: dict[str, Any]) -> set[int]:
    text, values = to_sql(condition)
    return {row for (row,) in connection.execute(f"SELECT row FROM pictures WHERE {text}", values)}
