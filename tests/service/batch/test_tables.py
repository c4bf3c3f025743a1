"""Tables of pairs: read with the kinds of all values, and written with the scores beside them."""

import csv
import datetime
import json
import sys
from decimal import Decimal
from io import BytesIO

import numpy as np
import pytest

from diptych.batch.tables.arrow import common_schema, from_rows, import_arrow, open_parquet
from diptych.batch.tables.read import hash_file, kind_of, list_rows, open_table, read_schema, read_texts
from diptych.batch.tables.scores import Result, Scores, shorten_float
from diptych.batch.tables.write import ROW_GROUP, make_writer
from diptych.errors import BatchError
from diptych_runtime.judgement import Judgement


def read(path, **options):
    with open_table(str(path), **options) as table:
        batches = list(table.batches)
    return table.columns, [row for batch in batches for row in list_rows(batch)], list(map(len, batches))


def test_the_ending_says_what_a_table_is():
    names = ("a.CSV", "a.tsv", "a.jsonl", "a.ndjson", "a.parquet", "a.txt", "-")
    assert [kind_of(name) for name in names] == ["csv", "tsv", "jsonl", "jsonl", "parquet", None, None]


def test_separated_values_keep_their_commas_and_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path):
    (tmp_path / "a.csv").write_bytes("\ufeffimage_a,image_b\r\n\r\na,b\r\n\r\n".encode())
    assert read(tmp_path / "a.csv") == (["image_a", "image_b"], [{"image_a": "a", "image_b": "b"}], [1])
    (tmp_path / "a.tsv").write_text('image_a\timage_b\tnote\na,b\tc\t"x\ty"\n')
    assert read(tmp_path / "a.tsv")[1] == [{"image_a": "a,b", "image_b": "c", "note": "x\ty"}]


def test_json_lines_keep_types_and_order_and_name_their_columns_as_they_go(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"image_a": "a", "image_b": None, "n": 2**70}, {"image_b": "b", "image_a": "a", "x": {"y": [1.5, None]}}]
    rows += [{"image_a": str(n), "image_b": "b"} for n in range(9)]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    assert read(path, rows=4) == (["image_a", "image_b", "n", "x"], rows, [4, 4, 3])
    with open_table(str(path), rows=2) as table:
        assert read_texts(next(table.batches), "image_b") == ["", "b"]


def test_the_columns_that_name_the_pictures_may_be_called_otherwise(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right\na,b\n")
    with open_table(str(path), ("left", "right")) as table:
        assert read_texts(next(table.batches), "right") == ["b"]
    with pytest.raises(BatchError, match="lacks image_a, image_b among its columns; these are left, right"):
        read(path)


def test_parquet_gives_its_rows_in_batches_with_the_kinds_that_json_has(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    values = {
        "image_a": pyarrow.array(["a", None, "c"]).dictionary_encode(),
        "image_b": pyarrow.array(["x", "y", "z"], pyarrow.large_string()),
        "when": [datetime.datetime(2026, 1, 2, 3, 4), None, datetime.datetime(2026, 1, 2)],
        "day": [datetime.date(2026, 1, 2)] * 3,
        "price": [Decimal("1.50")] * 3,
        "bytes": [b"\x00\xff"] * 3,
        "many": [[{"n": 1}]] * 3,
    }
    parquet.write_table(pyarrow.table(values), tmp_path / "pairs.parquet", row_group_size=2)
    columns, rows, sizes = read(tmp_path / "pairs.parquet", rows=2)
    assert (columns, sum(sizes)) == (list(values), 3)
    assert max(sizes) <= 2
    plain = {
        **{"image_a": "a", "image_b": "x", "when": "2026-01-02T03:04:00", "day": "2026-01-02"},
        **{"price": "1.50", "bytes": "AP8=", "many": [{"n": 1}]},
    }
    written = json.loads(as_bytes("jsonl", rows[:1]))
    assert {name: written[name] for name in plain} == plain
    ((_, cells),) = [list(csv.reader(as_bytes("csv", rows[:1], columns).decode().splitlines()))]
    assert cells[: len(plain)] == [*list(plain.values())[:-1], '[{"n": 1}]']
    with open_table(str(tmp_path / "pairs.parquet")) as table:
        assert [text for batch in table.batches for text in read_texts(batch, "image_a")] == ["a", "", "c"]
    assert read_schema(str(tmp_path / "pairs.parquet")).field("price").type == pyarrow.decimal128(3, 2)


def test_what_is_no_parquet_or_names_pictures_by_number_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "pairs.parquet"
    path.write_bytes(b"no such thing")
    with pytest.raises(BatchError, match=r"pairs.parquet cannot be read as Parquet: "):
        read(path)
    parquet.write_table(pyarrow.table({"image_a": [1], "image_b": ["b"]}), path)
    with pytest.raises(BatchError, match="image_a holds int64; expected the paths of pictures as text"):
        read(path)
    parquet.write_table(pyarrow.table({"image_a": ["a"], "image_b": ["b"], "error": [1]}), path)
    with pytest.raises(BatchError, match="already has the column error"):
        read(path)


def test_json_lines_get_one_type_a_column_for_parquet_or_are_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "pairs.jsonl"
    rows = [{"n": 1, "none": None}, {"n": 2.5, "more": [1]}, *[{}] * 5000, {"late": True}]
    path.write_text("".join(json.dumps({"image_a": "a", "image_b": "b", **row}) + "\n" for row in rows))
    schema = read_schema(str(path))
    assert schema.names == ["image_a", "image_b", "n", "none", "more", "late"]
    assert [schema.field(name).type for name in ("n", "none", "late")] == [
        *(pyarrow.float64(), pyarrow.string(), pyarrow.bool_()),
    ]
    with open_table(str(path), rows=1000) as opened:
        table = pyarrow.Table.from_batches([from_rows(batch, schema) for batch in opened.batches])
    assert [table.column(name).to_pylist()[:2] for name in ("n", "more")] == [[1.0, 2.5], [None, [1]]]


@pytest.mark.parametrize(
    ("kind", "content", "message"),
    [
        ("csv", b"", "is empty; expected a header with the columns image_a and image_b"),
        ("csv", b"image_a,other\n", "lacks image_b among its columns; these are image_a, other"),
        ("csv", b"image_a,image_b,x,x\n", "two columns of one name"),
        ("csv", b"image_a,image_b,error\n", "already has the column error"),
        ("csv", b"image_a,image_b\na,b\na\n", "line 3: 1 fields, the header has 2"),
        ("csv", b"image_a,image_b\na,\xff\n", "expected CSV in UTF-8"),
        ("csv", b'image_a,image_b\na,"b\n', "expected CSV in UTF-8"),
        ("jsonl", b"", "lacks image_a, image_b among its columns; these are $"),
        ("jsonl", b'{"image_a": "a", "image_b": "b"}\n{', "line 2: .*; expected one JSON object a line"),
        ("jsonl", b'{"image_a": "a", "image_b": "b"}\n[1]\n', r"line 2: expected a JSON object, got \[1\]"),
        ("jsonl", b'{"image_a": 7, "image_b": "b"}\n', "line 1: image_a is 7; expected the path of a picture as text"),
        ("jsonl", b'{"image_a": "a", "image_b": "b", "raw_score": 1}\n', "already has the column raw_score"),
        ("jsonl", b'{"image_a": "\xff"}\n', "expected JSON lines in UTF-8"),
        ("jsonl", b'{"image_a": ' + b"[" * 100_000, "line 1: .*; expected one JSON object a line"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_reason(tmp_path, kind, content, message):
    path = tmp_path / f"pairs.{kind}"
    path.write_bytes(content)
    with pytest.raises(BatchError, match=message):
        read(path)


def test_a_parquet_table_with_two_columns_of_one_name_is_refused(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [pyarrow.array([text]) for text in ("a.jpg", "b.jpg", "c.jpg")]
    table = pyarrow.Table.from_arrays(columns, names=["image_a", "image_b", "image_a"])
    parquet.write_table(table, tmp_path / "pairs.parquet")
    with pytest.raises(BatchError, match="two columns of one name"):
        read(tmp_path / "pairs.parquet")


def test_a_missing_table_is_refused(tmp_path):
    for name in ("none.csv", "none.jsonl", "none.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        with pytest.raises(BatchError, match=rf"{name} cannot be read: No such file"):
            read(tmp_path / name)
        with pytest.raises(BatchError, match=rf"{name} cannot be read: No such file"):
            hash_file(tmp_path / name)


def test_without_pyarrow_the_error_has_the_line_that_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(BatchError, match=r"Parquet needs pyarrow; install it with `pip install 'diptych\[parquet\]'`"):
        import_arrow()


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
        texts = [text for batch in found for text in read_texts(batch, "a")]
        assert texts == [f"{number}.jpg" for number in range(200)]
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


ONE = Scores.from_judgements(
    [
        Judgement(0.1, 1, "different"),
        None,
        Judgement(0.3, 3, "likely", "taken"),
        Judgement(0.2, 2, "unsure", "not taken"),
    ],
    {1: "image_a: gone"},
)


def test_scores_are_written_in_the_fewest_digits_that_mean_the_same_float32():
    for value in np.random.default_rng(0).normal(size=97).astype(np.float32):
        assert np.float32(shorten_float(value)) == value
        assert len(repr(shorten_float(value))) <= 16
    assert shorten_float(np.float32(0.1)) == 0.1


def test_the_file_reads_back_with_the_same_bytes_and_one_cut_off_is_refused_by_name(tmp_path):
    path = tmp_path / "part"
    path.write_bytes(ONE.to_bytes())
    assert list(Scores.load(path).list_results()) == [
        (0.1, 1.0, "different", None, None),
        (None, None, None, None, "image_a: gone"),
        (0.3, 3.0, "likely", "taken", None),
        (0.2, 2.0, "unsure", "not taken", None),
    ]
    assert Scores.load(path).to_bytes() == ONE.to_bytes()
    for size in (0, 7, 130, -1):
        path.write_bytes(ONE.to_bytes()[:size])
        with pytest.raises(BatchError, match=r"part is damaged .*; remove it and go on with --resume"):
            Scores.load(path)


COLUMNS = ["image_a", "image_b", "note"]
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in (["a", 'ä,\n"b', "x"], ["c", "d", ""])]
SCORES = [Result(0.25, -1.5, "likely", "taken", None), Result(None, None, None, None, "image_a: gone")]
RESULTS = ["relevance_score", "raw_score", "verdict", "closer_look", "error"]


def as_bytes(format: str, rows=ROWS, columns=COLUMNS, schema=None) -> bytes:
    stream = BytesIO()
    writer = make_writer(format, stream, columns, schema)
    for place, row in enumerate(rows):
        writer.write([row], SCORES[place % 2 : place % 2 + 1])
    writer.close()
    return stream.getvalue()


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_separated_values_keep_every_column_and_hold_what_is_nested_as_json(tmp_path, format, delimiter):
    (tmp_path / "out").write_bytes(as_bytes(format))
    with (tmp_path / "out").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    assert rows == [
        [*COLUMNS, *RESULTS],
        ["a", 'ä,\n"b', "x", "0.25", "-1.5", "likely", "taken", ""],
        ["c", "d", "", "", "", "", "", "image_a: gone"],
    ]
    rows = [{"image_a": "a", "image_b": "b", "n": True, "x": {"ä": [1]}}, {"image_a": "a", "image_b": "b"}]
    first, second = list(csv.reader(as_bytes("csv", rows, ["image_a", "image_b", "n", "x"]).decode().splitlines()))[1:]
    assert first[2:4] == ["true", '{"ä": [1]}']
    assert second[2:4] == ["", ""]


def test_json_lines_keep_the_values_of_the_table_and_hold_null_where_there_is_nothing():
    rows = [{**ROWS[0], "n": 2**70, "x": [1.5, None]}, ROWS[1], {"image_a": "\ud800", "image_b": "b"}]
    first, second, third = (json.loads(line) for line in as_bytes("jsonl", rows).decode().splitlines())
    assert list(first) == [*COLUMNS, "n", "x", *RESULTS]
    assert list(first.values()) == ["a", 'ä,\n"b', "x", 2**70, [1.5, None], 0.25, -1.5, "likely", "taken", None]
    assert second["relevance_score"] is None
    assert second["error"] == "image_a: gone"
    assert third["image_a"] == "\ud800"


def test_parquet_keeps_the_types_of_every_column_and_has_float32_scores(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    given = pyarrow.table(
        {
            "image_a": pyarrow.array(["a", "b"]).dictionary_encode(),
            "image_b": ["c", "d"],
            "when": pyarrow.array([datetime.datetime(2026, 1, 2), None], pyarrow.timestamp("ms", "UTC")),
            "n": pyarrow.array([1, None], pyarrow.int16()),
            "vector": pyarrow.array([[1.0, 2.0], None], pyarrow.list_(pyarrow.float32())),
        }
    ).replace_schema_metadata({"made": "by hand"})
    parquet.write_table(given, tmp_path / "pairs.parquet")
    schema, stream = read_schema(str(tmp_path / "pairs.parquet")), BytesIO()
    writer = make_writer("parquet", stream, given.column_names, schema)
    with open_table(str(tmp_path / "pairs.parquet")) as table:
        for batch in table.batches:
            writer.write(batch, SCORES)
    writer.close()
    table = parquet.read_table(stream)
    assert table.column_names == [*given.column_names, *RESULTS]
    assert table.select(given.column_names).equals(given)
    assert table.schema.metadata[b"made"] == b"by hand"
    assert str(table.schema.field("raw_score").type) == "float"
    assert table.column("error").to_pylist() == [None, "image_a: gone"]
    assert table.column("raw_score").to_pylist() == [-1.5, None]
    assert table.column("verdict").to_pylist() == ["likely", None]
    assert table.column("closer_look").to_pylist() == ["taken", None]


def test_row_groups_have_one_size_however_the_rows_arrive():
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    schema = pyarrow.schema([(column, pyarrow.string()) for column in COLUMNS])

    def whole(size: int) -> bytes:
        stream = BytesIO()
        writer = make_writer("parquet", stream, COLUMNS, schema)
        for start in range(0, ROW_GROUP + 99, size):
            count = min(size, ROW_GROUP + 99 - start)
            rows = [{**ROWS[0], "note": str(row)} for row in range(start, start + count)]
            writer.write(rows, [Result(row / 2, row, "different", None, None) for row in range(start, start + count)])
        writer.close()
        return stream.getvalue()

    file = parquet.ParquetFile(BytesIO(whole(4096)))
    assert [file.metadata.row_group(number).num_rows for number in range(2)] == [ROW_GROUP, 99]
    assert whole(1009) == whole(4096)
    assert file.read().column("note").to_pylist() == [str(row) for row in range(ROW_GROUP + 99)]
