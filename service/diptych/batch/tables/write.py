"""Tables with their scores: written as CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from io import TextIOWrapper
from typing import IO, Any

from diptych.batch.tables.arrow import import_arrow
from diptych.batch.tables.read import Batch
from diptych.batch.tables.scores import RESULTS, Scores

ROW_GROUP = 64 * 1024


def make_writer(format: str, stream: IO[bytes], columns: Sequence[str], schema: Callable[[], Any]) -> Writer:
    """The writer of a format ("csv", "tsv", "jsonl", "parquet") for rows with these columns and the results.

    `write` takes batches in order with their scores; `close` completes the file and leaves the stream open. `schema`
    gives the table's Arrow schema; only Parquet asks for it.
    """
    if format == "parquet":
        return _Parquet(stream, schema())
    return _JsonLines(stream) if format == "jsonl" else _Separated(stream, columns, "\t" if format == "tsv" else ",")


class _Text:
    def __init__(self, stream: IO[bytes]) -> None:
        # A name need not be UTF-8 where it was escaped in JSON.
        self.text = TextIOWrapper(stream, "utf-8", "backslashreplace", newline="")

    def close(self) -> None:
        self.text.flush()
        self.text.detach()


class _Separated(_Text):
    def __init__(self, stream: IO[bytes], columns: Sequence[str], delimiter: str) -> None:
        super().__init__(stream)
        self.columns = columns
        self.writer = csv.writer(self.text, lineterminator="\n", delimiter=delimiter)
        self.writer.writerow([*columns, *RESULTS])

    def write(self, batch: Batch, scores: Scores) -> None:
        self.writer.writerows(
            [*(_format_cell(row.get(column)) for column in self.columns), *results]
            for row, results in zip(batch.to_json_rows(), scores.list_results(), strict=True)
        )
        self.text.flush()


class _JsonLines(_Text):
    def write(self, batch: Batch, scores: Scores) -> None:
        for row, results in zip(batch.to_json_rows(), scores.list_results(), strict=True):
            full = {**row, **dict(zip(RESULTS, results, strict=True))}
            self.text.write(json.dumps(full, ensure_ascii=False) + "\n")
        self.text.flush()


class _Parquet:
    """Row groups of one size, however the rows arrive."""

    def __init__(self, stream: IO[bytes], schema: Any) -> None:
        self.arrow, parquet = import_arrow()
        kinds = (*[self.arrow.float32()] * 2, *[self.arrow.string()] * 3)
        self.given, self.schema = schema, schema
        for name, kind in zip(RESULTS, kinds, strict=True):
            self.schema = self.schema.append(self.arrow.field(name, kind))
        self.writer: Any = parquet.ParquetWriter(stream, self.schema, compression="zstd")
        self.held: list[Any] = []

    def write(self, batch: Batch, scores: Scores) -> None:
        records = batch.record_batch(self.given)
        columns = zip(*scores.list_results(), strict=True) if len(scores) else ((), (), ())
        results = [
            self.arrow.array(list(column), field.type)
            for column, field in zip(columns, list(self.schema)[-len(RESULTS) :], strict=True)
        ]
        self.held.append(self.arrow.RecordBatch.from_arrays([*records.columns, *results], schema=self.schema))
        if sum(map(len, self.held)) >= ROW_GROUP:
            self._flush_rows(ROW_GROUP)

    def close(self) -> None:
        self._flush_rows(1)
        self.writer.close()

    def _flush_rows(self, least: int) -> None:
        rows = self.arrow.Table.from_batches(self.held, schema=self.schema)
        while len(rows) >= least:
            self.writer.write_table(rows.slice(0, ROW_GROUP), row_group_size=ROW_GROUP)
            rows = rows.slice(ROW_GROUP)
        self.held = rows.to_batches()


Writer = _Separated | _JsonLines | _Parquet


def standard_output() -> IO[bytes]:
    """Standard output as bytes."""
    sys.stdout.flush()
    return sys.stdout.buffer


def _format_cell(value: Any) -> Any:
    """A value as a field of CSV: texts and numbers as they are, nothing as nothing, the rest as JSON."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else value
