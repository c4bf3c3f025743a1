import argparse
from pathlib import Path

import pytest

from diptych.cli import options
from diptych.store.location import Address


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (options.number(1, 9), [("1", 1), ("9", 9)], ["0", "10", "1.5", "many", ""]),
        (options.number(3), [("3", 3), ("1000000", 1_000_000)], ["2", "-3"]),
        (options.SECONDS, [("0.5", 0.5), ("60", 60.0)], ["0", "-1", "nan", "inf", "1e7", "soon"]),
        (options.PROBABILITY, [("1", 1.0), ("1e-9", 1e-9)], ["0", "1.01", "nan", "half"]),
        (options.AMOUNT, [("590", 590.0)], ["0", "inf", "nan", "1e13", "$5"]),
        (options.a_place, [("store", Path("store"))], ["milvus://host:0x/a", "milvus://host/"]),
        (options.a_folder, [("store", Path("store"))], ["milvus://host/photos"]),
        (options.a_condition, [('{"a": 1}', {"a": 1})], ['{"$a": 1}', "[1]", "{", "[" * 100_000]),
    ],
)
def test_values_are_read_or_refused_with_what_was_expected(kind, good, bad):
    for text, value in good:
        assert kind(text) == value
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match="expected"):
            kind(text)


def test_a_place_may_be_an_address():
    assert isinstance(options.a_place("milvus://host/photos"), Address)
