"""Conditions on metadata, held to a plain reading of them in Python."""

from __future__ import annotations

import json
import random
import sqlite3
from typing import Any

import pytest

from diptych.store.filters import compiled

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


def drawn_metadata(rng: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {field: rng.choice(VALUES) for field in FIELDS if "." not in field and rng.random() < 0.6}
    if rng.random() < 0.5:
        found["d"] = {"e": rng.choice(VALUES)}
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


@pytest.fixture(scope="module")
def table():
    rng = random.Random(0)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE pictures (row INTEGER PRIMARY KEY, metadata TEXT NOT NULL)")
    rows = {row: drawn_metadata(rng) for row in range(120)}
    connection.executemany("INSERT INTO pictures VALUES (?, ?)", [(r, json.dumps(m)) for r, m in rows.items()])
    yield connection, rows
    connection.close()


def selected(connection: sqlite3.Connection, condition: dict[str, Any]) -> set[int]:
    text, values = compiled(condition)
    return {row for (row,) in connection.execute(f"SELECT row FROM pictures WHERE {text}", values)}


def test_three_thousand_conditions_select_what_they_mean(table):
    connection, rows = table
    rng, some = random.Random(1), 0
    for _ in range(3000):
        condition = drawn_condition(rng)
        expected = {row for row, metadata in rows.items() if met(condition, metadata)}
        assert selected(connection, condition) == expected, condition
        some += 0 < len(expected) < len(rows)
    assert some > 1000, "many must select some and leave some for this to mean anything"


def test_a_bare_value_means_equal_and_types_are_kept_apart(table):
    connection, rows = table
    for value in VALUES:
        assert selected(connection, {"a": value}) == selected(connection, {"a": {"$eq": value}})
    assert not selected(connection, {"a": 1}) & selected(connection, {"a": True})
    assert not selected(connection, {"a": 1}) & selected(connection, {"a": "1"})
    assert selected(connection, {"a": 1}) == selected(connection, {"a": 1.0})
    assert selected(connection, {}) == set(rows)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ([], r"filter: expected an object of conditions, got \[\]"),
        ({"a": {"$near": 1}}, r"filter\.a\.\$near: expected one of \$eq, \$ne"),
        ({"$near": 1}, r"filter\.\$near: expected \$and, \$or, \$not or the name of a field"),
        ({"a": {"b": 1}}, r"filter\.a\.\$eq: expected a number, a text, true, false or null"),
        ({"a": [1]}, "expected a number, a text, true, false or null"),
        ({"a": {"$in": []}}, r"filter\.a\.\$in: expected a list of values"),
        ({"a": {"$gt": True}}, r"filter\.a\.\$gt: expected a number or a text, got true"),
        ({"a": {"$exists": 1}}, "expected true or false"),
        ({"a": 2**63}, "expected a number"),
        ({"$or": []}, "expected a list of conditions"),
        ({"a\0b": 1}, "expected the name of a field"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        ({"$\ud800": 1}, "half of a surrogate pair"),
        ({"a": {"$in": ["\ud800"]}}, "half of a surrogate pair"),
        ({"$or": [{"a": 1}, 2]}, r"filter\.\$or\[1\]: expected an object"),
        ({'a"b': 1}, "expected the name of a field"),
        ({"a..b": 1}, "expected the name of a field"),
        ({"": 1}, "expected the name of a field"),
        ({"a": {"$in": list(range(257))}}, "at most 256 comparisons"),
        ({"$and": [{f"a{i}": 1} for i in range(257)]}, "at most 256 comparisons"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(condition, message):
    with pytest.raises(ValueError, match=message):
        compiled(condition)


def test_depth_is_bounded_and_the_largest_condition_is_taken(table):
    deep: dict[str, Any] = {"a": 1}
    for _ in range(16):
        deep = {"$not": deep}
    selected(table[0], deep)
    with pytest.raises(ValueError, match="at most 16 levels"):
        compiled({"$not": deep})
    assert selected(table[0], {"a": {"$in": list(range(256))}}) >= selected(table[0], {"a": {"$in": [0, 1, 2]}})
