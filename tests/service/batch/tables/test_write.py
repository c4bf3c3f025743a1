import csv
import datetime
import json
from io import BytesIO

import numpy as np
import pytest

from diptych.batch.tables.read import Rows, open_table, schema_of
from diptych.batch.tables.scores import Scores
from diptych.batch.tables.write import ROW_GROUP, make_writer
from diptych_runtime.judgement import Judgement

COLUMNS = ["image_a", "image_b", "note"]
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in (["a", 'ä,\n"b', "x"], ["c", "d", ""])]
SCORES = Scores.of([Judgement(0.25, -1.5, "likely", "taken"), None], {1: "image_a: gone"})
RESULTS = ["relevance_score", "raw_score", "verdict", "closer_look", "error"]


def written(format: str, rows=ROWS, columns=COLUMNS, schema=None) -> bytes:
    stream = BytesIO()
    writer = make_writer(format, stream, columns, lambda: schema)
    for place, row in enumerate(rows):
        writer.write(Rows([row]), SCORES[place % 2 : place % 2 + 1])
    writer.close()
    return stream.getvalue()


@pytest.mark.parametrize(("format", "delimiter"), [("csv", ","), ("tsv", "\t")])
def test_separated_values_keep_every_column_and_read_back(tmp_path, format, delimiter):
    (tmp_path / "out").write_bytes(written(format))
    with (tmp_path / "out").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=delimiter))
    assert rows == [
        [*COLUMNS, *RESULTS],
        ["a", 'ä,\n"b', "x", "0.25", "-1.5", "likely", "taken", ""],
        ["c", "d", "", "", "", "", "", "image_a: gone"],
    ]


def test_separated_values_hold_what_is_nested_as_json_and_what_is_missing_as_nothing():
    rows = [{"image_a": "a", "image_b": "b", "n": True, "x": {"ä": [1]}}, {"image_a": "a", "image_b": "b"}]
    first, second = list(csv.reader(written("csv", rows, ["image_a", "image_b", "n", "x"]).decode().splitlines()))[1:]
    assert first[2:4] == ["true", '{"ä": [1]}']
    assert second[2:4] == ["", ""]


def test_json_lines_keep_the_values_of_the_table_and_hold_null_where_there_is_nothing():
    rows = [{**ROWS[0], "n": 2**70, "x": [1.5, None]}, ROWS[1], {"image_a": "\ud800", "image_b": "b"}]
    first, second, third = (json.loads(line) for line in written("jsonl", rows).decode().splitlines())
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
    schema, stream = schema_of(str(tmp_path / "pairs.parquet")), BytesIO()
    writer = make_writer("parquet", stream, given.column_names, lambda: schema)
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
        writer = make_writer("parquet", stream, COLUMNS, lambda: schema)
        for start in range(0, ROW_GROUP + 99, size):
            count = min(size, ROW_GROUP + 99 - start)
            rows = [{**ROWS[0], "note": str(row)} for row in range(start, start + count)]
            scores = Scores.empty(count, {})
            scores.raw[:] = scores.values["relevance"] = np.arange(start, start + count)
            scores.values["verdict"] = 0
            writer.write(Rows(rows), scores)
        writer.close()
        return stream.getvalue()

    file = parquet.ParquetFile(BytesIO(whole(4096)))
    assert [file.metadata.row_group(number).num_rows for number in range(2)] == [ROW_GROUP, 99]
    assert whole(1009) == whole(4096)
    assert file.read().column("note").to_pylist() == [str(row) for row in range(ROW_GROUP + 99)]
