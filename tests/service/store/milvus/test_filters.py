"""Conditions mean on Milvus what they mean in a folder."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conditions import drawn_condition, drawn_metadata, met

from diptych import Collection
from diptych.collection.ingest import Incoming
from diptych.store.milvus.rows import list_facets, write_expression
from diptych_runtime.errors import PictureError

ODD: list[dict[str, Any]] = [
    {"a": 2**70},
    {"a": -(2**63)},
    {"a": 1e300},
    {"a": "x\0y"},
    {"a": 'quote" and \\ and {brace}'},
    {"a.b": 1, "d": {"e.f": 2}},
    {"d": {"e": {"f": [1]}}},
    {"a": 9007199254740993},
    {},
]


def test_what_milvus_understands_in_one_way_only_is_said_and_nothing_else():
    assert write_expression({"label": "shoe"}) == 'facets["label"] == "shoe"'
    assert write_expression({"price": {"$gte": 1, "$lt": 2.5}}) == '(facets["price"] >= 1 and facets["price"] < 2.5)'
    assert write_expression({"a": {"$in": [1, "x"]}}) == '(facets["a"] == 1 or facets["a"] == "x")'
    assert write_expression({"$or": [{"a": 1}, {"b": 2}]}) == '(facets["a"] == 1 or facets["b"] == 2)'
    for unsayable in (
        {"$not": {"a": 1}},
        {"a": {"$ne": 1}},
        {"a": None},
        {"a": {"$exists": False}},
        {"a": 2**60},
        {"a": 'x"'},
        {"ü": 1},
        {"$or": [{"a": 1}, {"b": None}]},
        {"a": {"$in": [1, None]}},
    ):
        assert write_expression(unsayable) == ""
        assert write_expression({"$and": [unsayable, {"c": 1}]}) == 'facets["c"] == 1'


def test_facets_are_the_plain_values_by_their_path():
    assert list_facets(
        {"a": 1, "b": {"c": "x", "d.e": 2}, "f": [1], "g": None, "h": -(2**60), "i": True, "j": 10**400}
    ) == {
        "a": 1,
        "b.c": "x",
        "h": -1e300,
        "j": 1e300,
        "i": True,
    }


def test_a_server_finds_exactly_the_pictures_that_meet_a_condition(address, scorer, photo_bytes):
    rng = random.Random(5)
    rows = [drawn_metadata(rng) for _ in range(40)] + ODD
    with Collection.open(address, scorer, create=True) as collection:
        received = collection.read_new([(photo_bytes(seed), None) for seed in range(len(rows))])
        arrivals = [
            Incoming(content, None, metadata)
            for content, metadata in zip(received, rows, strict=True)
            if not isinstance(content, PictureError)
        ]
        ids = [added.id for added in collection.commit(arrivals)]
        for number in range(60):
            condition = drawn_condition(rng)
            wanted = {id for id, metadata in zip(ids, rows, strict=True) if met(condition, metadata)}
            assert {record.id for record in collection.list(1000, filter=condition)} == wanted, condition
            if number % 4 == 0:
                found = collection.search(photo_bytes(1), top=100, candidates=0, filter=condition)
                assert {match.id for match in found.matches} == wanted, condition


def test_a_rare_condition_that_milvus_cannot_say_is_decided_by_looking_at_all(address, scorer, photo_bytes):
    with Collection.open(address, scorer, create=True) as collection:
        for seed in range(30):
            collection.add(photo_bytes(seed), metadata={"n": seed})
        for top, condition, wanted in [
            (2, {"$not": {"n": {"$ne": 17}}}, [17]),
            (2, {"n": {"$nin": list(range(29))}}, [29]),
            (3, {"n": 5}, [5]),
        ]:
            found = collection.search(photo_bytes(0), top=top, candidates=0, filter=condition)
            assert [match.metadata["n"] for match in found.matches] == wanted
        with pytest.raises(ValueError, match="filter"):
            collection.search(photo_bytes(0), filter={"$near": 1})
