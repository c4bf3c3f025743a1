"""Tables with their scores: written as CSV, TSV, JSON lines or Parquet."""

from __future__ import annotations

import base64
import csv
import json
import sys
from collections.abc import Sequence
from datetime import date, time
from io import TextIOWrapper
from typing import IO, Any

from diptych.batch.tables.arrow import from_rows, import_arrow
from diptych.batch.tables.read import Batch, list_rows
from diptych.batch.tables.scores import RESULTS, Result

ROW_GROUP = 64 * 1024


def make_writer(format: str, stream: IO[bytes], columns: Sequence[str], schema: Any = None) -> Writer:
    """The writer of a format for rows with these columns and the results; Parquet needs the table's Arrow `schema`.

    `write` takes batches in order with their results; `close` completes the file and leaves the stream open.
    """
    if format == "parquet":
        return _Parquet(stream, schema)
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

    def write(self, batch: Batch, results: Sequence[Result]) -> None:
        self.writer.writerows(
            [*(_format_cell(row.get(column)) for column in self.columns), *result]
            for row, result in zip(list_rows(batch), results, strict=True)
        )
        self.text.flush()


class _JsonLines(_Text):
    def write(self, batch: Batch, results: Sequence[Result]) -> None:
        for row, result in zip(list_rows(batch), results, strict=True):
            self.text.write(_to_json(row | result._asdict()) + "\n")
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

    def write(self, batch: Batch, results: Sequence[Result]) -> None:
        kinds = list(self.schema)[-len(RESULTS) :]
        records = from_rows(batch, self.given) if isinstance(batch, list) else batch
        columns = [
            self.arrow.array([result[place] for result in results], kind.type) for place, kind in enumerate(kinds)
        ]
        self.held.append(self.arrow.RecordBatch.from_arrays([*records.columns, *columns], schema=self.schema))
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
    """A value as a field of CSV: texts and numbers as they are, nothing as nothing, what is nested as JSON."""
    if isinstance(value, dict | list | bool):
        return _to_json(value)
    return value if value is None or isinstance(value, str | int | float) else _to_plain(value)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_to_plain)


def _to_plain(value: Any) -> str:
    """A value that JSON lacks as text: a date in ISO form, bytes in base64, a decimal in digits."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, date | time) else str(value)
