import csv
import json
from io import BytesIO

import numpy as np
import pytest

from diptych.errors import BatchError
from diptych.pairs import Scored, make_writer, open_pairs, shortest, survey

ROWS = [Scored(["a", 'ä,\n"b', "x"], 0.25, -1.5, None), Scored(["c", "d", ""], None, None, "image_a: gone")]
COLUMNS = ["image_a", "image_b", "note"]


def written(format: str) -> bytes:
    stream = BytesIO()
    writer = make_writer(format, stream, COLUMNS)
    writer.write(ROWS[:1])
    writer.write(ROWS[1:])
    writer.close()
    return stream.getvalue()


def test_csv_keeps_every_column_and_reads_back(tmp_path):
    (tmp_path / "out.csv").write_bytes(written("csv"))
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        [*COLUMNS, "relevance_score", "raw_score", "error"],
        ["a", 'ä,\n"b', "x", "0.25", "-1.5", ""],
        ["c", "d", "", "", "", "image_a: gone"],
    ]


def test_json_lines_hold_null_where_there_is_nothing():
    first, second = (json.loads(line) for line in written("jsonl").decode().splitlines())
    assert list(first) == [*COLUMNS, "relevance_score", "raw_score", "error"]
    assert list(first.values()) == ["a", 'ä,\n"b', "x", 0.25, -1.5, None]
    assert second["relevance_score"] is None
    assert second["error"] == "image_a: gone"


def test_parquet_has_float32_scores_and_reads_back():
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(BytesIO(written("parquet")))
    assert table.schema.names == [*COLUMNS, "relevance_score", "raw_score", "error"]
    assert str(table.schema.field("raw_score").type) == "float"
    assert table.to_pylist()[0]["image_b"] == 'ä,\n"b'
    assert table.column("error").to_pylist() == [None, "image_a: gone"]


def test_scores_are_written_in_the_fewest_digits_that_mean_the_same_float32():
    for value in np.random.default_rng(0).normal(size=97).astype(np.float32):
        assert np.float32(shortest(value)) == value
        assert len(repr(shortest(value))) <= 16
    assert shortest(np.float32(0.1)) == 0.1


def test_a_byte_order_mark_and_blank_lines_do_no_harm(tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes("\ufeffimage_a,image_b\r\n\r\na,b\r\n\r\n".encode())
    with open_pairs(str(path)) as (columns, rows):
        assert columns == ["image_a", "image_b"]
        assert list(rows) == [["a", "b"]]
    assert survey(str(path)).rows == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a header with the columns image_a and image_b"),
        (b"image_a,other\n", "lacks the column image_b; its columns are image_a, other"),
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
        survey(str(path))


def test_a_missing_table_is_refused(tmp_path):
    with pytest.raises(BatchError, match=r"none.csv cannot be read: No such file"):
        survey(str(tmp_path / "none.csv"))
