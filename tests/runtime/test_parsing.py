"""JSON and TOML of strangers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from diptych_runtime.parsing import DEPTH, parse_json, parse_toml


@pytest.mark.parametrize("depth", [DEPTH + 1, 500, 5000, 200_000])
def test_what_nests_too_deeply_is_a_value_error_like_any_other_fault(depth):
    said = f"may nest {DEPTH} levels deep"
    with pytest.raises(ValueError, match=said):
        parse_json("[" * depth + "]" * depth)
    with pytest.raises(ValueError, match=said):
        parse_json(b'{"a": ' * depth + b"1" + b"}" * depth)
    with pytest.raises(ValueError, match=said):
        parse_toml(f"a = {'[' * depth}{']' * depth}")
    if depth < 10_000:  # a parser of dotted keys takes the square of their number
        with pytest.raises(ValueError, match=said):
            parse_toml(f"{'.'.join('a' * depth)} = 1")


def test_what_nests_less_and_what_is_no_json_are_read_and_refused_as_ever():
    deep = "[" * DEPTH + "1" + "]" * DEPTH
    assert json.dumps(parse_json(deep)) == deep
    assert parse_toml("a = [[1], {b = 2}]") == {"a": [[1], {"b": 2}]}
    cases: list[tuple[Callable[[Any], Any], object, str]] = [
        (parse_json, "", "Expecting value"),
        (parse_json, "{", "Expecting property name"),
        (parse_json, b"\xff", "can't decode"),
        (parse_toml, "a =", "Invalid value"),
    ]
    for parse, wrong, said in cases:
        with pytest.raises(ValueError, match=said):
            parse(wrong)
