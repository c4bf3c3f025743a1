"""Conditions on metadata, held to a plain reading of them in Python."""

from __future__ import annotations

import json
import random
import sqlite3
from typing import Any

import pytest
from conditions import VALUES, drawn_condition, drawn_metadata, met, selected

from diptych.store.filters import to_sql


@pytest.fixture(scope="module")
def table():
    rng = random.Random(0)
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE pictures (row INTEGER PRIMARY KEY, metadata TEXT NOT NULL)")
    rows = {row: drawn_metadata(rng) for row in range(120)}
    connection.executemany("INSERT INTO pictures VALUES (?, ?)", [(r, json.dumps(m)) for r, m in rows.items()])
    yield connection, rows
    connection.close()


def test_conditions_by_the_hundred_select_what_they_mean(table):
    connection, rows = table
    rng, some, count = random.Random(1), 0, 400
    for _ in range(count):
        condition = drawn_condition(rng)
        expected = {row for row, metadata in rows.items() if met(condition, metadata)}
        assert selected(connection, condition) == expected, condition
        some += 0 < len(expected) < len(rows)
    assert some > count / 3, "many must select some and leave some for this to mean anything"


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
        ({"a": {"$in": []}}, r"filter\.a\.\$in: expected a list of values"),
        ({"a": {"$gt": True}}, r"filter\.a\.\$gt: expected a number or a text, got true"),
        ({"a": {"$lt": float("nan")}}, r"filter\.a\.\$lt: expected a number or a text, got NaN"),
        ({"a": {"$exists": 1}}, "expected true or false"),
        ({"a": 2**63}, "expected a number"),
        ({"a": {"$gt": 10**400}}, "expected a number"),
        ({"$or": []}, "expected a list of conditions"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        ({"$or": [{"a": 1}, 2]}, r"filter\.\$or\[1\]: expected an object"),
        ({'a"b': 1}, "expected the name of a field"),
        ({"a..b": 1}, "expected the name of a field"),
        ({".".join("a" * 129): 1}, "expected the name of a field, or up to 128"),
        ({"a": {"$in": list(range(257))}}, "at most 256 comparisons"),
        ({"$and": [{f"a{i}": 1} for i in range(257)]}, "at most 256 comparisons"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(condition, message):
    with pytest.raises(ValueError, match=message):
        to_sql(condition)


def test_depth_is_bounded_and_the_largest_condition_is_taken(table):
    deep: dict[str, Any] = {"a": 1}
    for _ in range(16):
        deep = {"$not": deep}
    selected(table[0], deep)
    assert selected(table[0], {".".join("a" * 128): {"$exists": True}}) == set()
    with pytest.raises(ValueError, match="at most 16 levels"):
        to_sql({"$not": deep})
    assert selected(table[0], {"a": {"$in": list(range(256))}}) >= selected(table[0], {"a": {"$in": [0, 1, 2]}})
