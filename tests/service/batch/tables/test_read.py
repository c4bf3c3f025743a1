import datetime
import json
from decimal import Decimal

import pytest

from diptych.batch.tables.read import columns_of, digest, kind_of, open_table, schema_of
from diptych.errors import BatchError


def read(path, **options):
    with open_table(str(path), **options) as table:
        batches = list(table.batches)
    return table.columns, [row for batch in batches for row in batch.plain()], list(map(len, batches))


def test_the_ending_says_what_a_table_is():
    assert [kind_of(name) for name in ("a.CSV", "a.tsv", "a.jsonl", "a.ndjson", "a.parquet", "a.txt", "-")] == [
        *("csv", "tsv", "jsonl", "jsonl", "parquet"),
        *(None, None),
    ]


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes("\ufeffimage_a,image_b\r\n\r\na,b\r\n\r\n".encode())
    assert read(path) == (["image_a", "image_b"], [{"image_a": "a", "image_b": "b"}], [1])


def test_tab_separated_values_keep_their_commas(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text('image_a\timage_b\tnote\na,b\tc\t"x\ty"\n')
    assert read(path)[1] == [{"image_a": "a,b", "image_b": "c", "note": "x\ty"}]


def test_batches_have_the_size_that_was_asked_for_and_the_order_of_the_table(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"image_a": str(n), "image_b": "b"}) + "\n" for n in range(11)))
    _, rows, sizes = read(path, rows=4)
    assert [row["image_a"] for row in rows] == [str(n) for n in range(11)]
    assert sizes == [4, 4, 3]


def test_json_lines_keep_types_and_name_their_columns_as_they_go(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"image_a": "a", "image_b": None, "n": 2**70}, {"image_b": "b", "image_a": "a", "x": {"y": [1.5, None]}}]
    path.write_text("\n\n".join(map(json.dumps, rows)))
    assert read(path) == (["image_a", "image_b", "n", "x"], rows, [2])
    assert columns_of(str(path)) == ["image_a", "image_b", "n", "x"]
    with open_table(str(path)) as table:
        assert [batch.texts("image_b") for batch in table.batches] == [["", "b"]]


def test_the_columns_that_name_the_pictures_may_be_called_otherwise(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("left,right\na,b\n")
    with open_table(str(path), ("left", "right")) as table:
        assert next(table.batches).texts("right") == ["b"]
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
    assert json.loads(json.dumps(rows[0])) == {
        **{"image_a": "a", "image_b": "x", "when": "2026-01-02T03:04:00", "day": "2026-01-02"},
        **{"price": "1.50", "bytes": "AP8=", "many": [{"n": 1}]},
    }
    with open_table(str(tmp_path / "pairs.parquet")) as table:
        assert [text for batch in table.batches for text in batch.texts("image_a")] == ["a", "", "c"]
    assert schema_of(str(tmp_path / "pairs.parquet")).field("price").type == pyarrow.decimal128(3, 2)


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
    schema = schema_of(str(path))
    assert schema.names == ["image_a", "image_b", "n", "none", "more", "late"]
    assert [schema.field(name).type for name in ("n", "none", "late")] == [
        *(pyarrow.float64(), pyarrow.string(), pyarrow.bool_()),
    ]
    with path.open("a") as file:
        file.write('{"image_a": "a", "image_b": "b", "n": "text"}\n')
    with pytest.raises(BatchError, match=r"values of several types .* write JSON lines instead"):
        schema_of(str(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a header with the columns image_a and image_b"),
        (b"image_a,other\n", "lacks image_b among its columns; these are image_a, other"),
        (b"image_a,image_b,x,x\n", "two columns of one name"),
        (b"image_a,image_b,error\n", "already has the column error"),
        (b"image_a,image_b\na,b\na\n", "line 3: 1 fields, the header has 2"),
        (b"image_a,image_b\na,\xff\n", "expected CSV in UTF-8"),
        (b'image_a,image_b\na,"b\n', "expected CSV in UTF-8"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_with_the_reason(tmp_path, content, message):
    path = tmp_path / "pairs.csv"
    path.write_bytes(content)
    with pytest.raises(BatchError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "lacks image_a, image_b among its columns; these are $"),
        (b'{"image_a": "a"}\n', "lacks image_b among its columns; these are image_a"),
        (b'{"image_a": "a", "image_b": "b"}\n{', "line 2: .*; expected one JSON object a line"),
        (b'{"image_a": "a", "image_b": "b"}\n[1]\n', r"line 2: expected a JSON object, got \[1\]"),
        (b'{"image_a": 7, "image_b": "b"}\n', "line 1: image_a is 7; expected the path of a picture as text"),
        (b'{"image_a": "a", "image_b": "b", "raw_score": 1}\n', "already has the column raw_score"),
        (b'{"image_a": "\xff"}\n', "expected JSON lines in UTF-8"),
        (b'{"image_a": ' + b"[" * 100_000, "line 1: .*; expected one JSON object a line"),
    ],
)
def test_json_lines_that_cannot_be_read_are_refused_with_the_line(tmp_path, content, message):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(content)
    with pytest.raises(BatchError, match=message):
        read(path)


def test_a_missing_table_is_refused(tmp_path):
    for name in ("none.csv", "none.jsonl", "none.parquet"):
        if name.endswith("parquet"):
            pytest.importorskip("pyarrow")
        with pytest.raises(BatchError, match=rf"{name} cannot be read: No such file"):
            read(tmp_path / name)
        with pytest.raises(BatchError, match=rf"{name} cannot be read: No such file"):
            digest(tmp_path / name)
