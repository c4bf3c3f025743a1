import sys

import pytest

from diptych.batch.tables.arrow import common_schema, from_rows, import_arrow, open_parquet
from diptych.errors import BatchError


def test_without_pyarrow_the_error_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BatchError, match=r"Parquet needs pyarrow; install it with `pip install 'diptych\[parquet\]'`"):
        import_arrow()


def test_batches_that_differ_get_one_schema_that_holds_the_rows_of_all():
    pyarrow = pytest.importorskip("pyarrow")
    batches = [[{"a": None}], [{"a": 1, "b": {"x": 1}}], [{"b": {"y": "z"}, "a": 0.5}], [{"c": None}]]
    schema = common_schema((from_rows(rows).schema for rows in batches), "pairs.jsonl")
    table = pyarrow.Table.from_batches([from_rows(rows, schema) for rows in batches])
    assert schema.names == ["a", "b", "c"]
    assert table.column("a").to_pylist() == [None, 1.0, 0.5, None]
    assert table.column("b").to_pylist() == [None, {"x": 1, "y": None}, {"x": None, "y": "z"}, None]


@pytest.mark.parametrize("values", [(1, "a"), ("a", [1]), (2**70, 1), (True, "a")])
def test_values_of_several_types_in_a_column_are_refused_with_what_to_do(values):
    pytest.importorskip("pyarrow")
    with pytest.raises(BatchError, match=r"values of several types .*; write JSON lines instead"):
        common_schema((from_rows([{"a": value}]).schema for value in values), "pairs.jsonl")
    with pytest.raises(BatchError, match=r"values of several types .*; write JSON lines instead"):
        from_rows([{"a": value} for value in values])


def test_a_small_file_of_long_texts_is_read_in_few_rows_or_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    name, sides = str(tmp_path / "pairs.parquet"), ("a", "b")

    def write(length: int, *, is_dictionary: bool = False) -> None:
        same = pyarrow.DictionaryArray.from_arrays([0] * 200, ["x" * length])
        table = pyarrow.table({"a": [f"{number}.jpg" for number in range(200)], "b": same})
        pyarrow.parquet.write_table(table, name, compression="zstd", store_schema=is_dictionary)

    for length, is_dictionary, most in ((10, False, 100), (1_000_000, False, 64), (1_000_000, True, 64)):
        write(length, is_dictionary=is_dictionary)
        with open_parquet(name, 100, sides) as (_, batches):
            found = list(batches)
        assert max(map(len, found)) <= most
        assert [text for batch in found for text in batch.texts("a")] == [f"{number}.jpg" for number in range(200)]
    write(2_000_000)
    with (
        open_parquet(name, 100, sides) as (_, batches),
        pytest.raises(BatchError, match="b holds a text of more than 1,048,576 bytes"),
    ):
        next(batches)


def test_a_small_file_whose_rows_hold_much_is_refused_before_it_takes_memory(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    name, pairs = str(tmp_path / "pairs.parquet"), {"a": ["a.jpg", "b.jpg"], "b": ["c.jpg", "d.jpg"]}
    texts = pyarrow.DictionaryArray.from_arrays(pyarrow.array([0] * 8000, pyarrow.int32()), ["x" * 2**20])
    lists = pyarrow.ListArray.from_arrays([0, 4000, 8000], texts)
    long = bytes(2_000_000)
    for more, reason in (
        (lists, "2 rows hold more than 67,108,864 bytes; leave columns out"),
        (pyarrow.StructArray.from_arrays([lists], names=["x"]), "2 rows hold more than 67,108,864 bytes"),
        (pyarrow.array([bytes(40_000_000)] * 2).cast(pyarrow.binary(40_000_000)), "2 rows hold more than 67,108,864"),
        (pyarrow.array([long] * 2), "more holds a text of more than 1,048,576 bytes"),
        (pyarrow.array([[("x", long)]] * 2, pyarrow.map_(pyarrow.string(), pyarrow.binary())), "more holds a text"),
    ):
        pyarrow.parquet.write_table(pyarrow.table(pairs | {"more": more}), name, compression="zstd")
        taken = pyarrow.total_allocated_bytes()
        with open_parquet(name, 100, ("a", "b")) as (_, batches), pytest.raises(BatchError, match=reason):
            next(batches)
        assert pyarrow.total_allocated_bytes() - taken < 2**28
