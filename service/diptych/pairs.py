"""Tables of pairs: read from CSV, written as CSV, JSON lines or Parquet."""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TextIO

import numpy as np

from diptych.errors import BatchError
from diptych_export.commandline import open_text

NEEDED = ("image_a", "image_b")
RESULTS = ("relevance_score", "raw_score", "error")
FORMATS = ("csv", "jsonl", "parquet")


class Scored(NamedTuple):
    """A row of the input with its result: scores as the shortest decimals of float32, or None and an error text."""

    values: list[str]
    relevance_score: float | None
    raw_score: float | None
    error: str | None


@dataclass(frozen=True)
class Survey:
    """What one pass over a table found."""

    columns: list[str]
    rows: int
    sha256: str


def shortest(value: np.float32) -> float:
    """The float whose decimals are the fewest that still mean this float32."""
    return float(str(value))


@contextmanager
def open_pairs(name: str) -> Iterator[tuple[list[str], Iterator[list[str]]]]:
    """Columns and rows of a CSV table, `-` for standard input: `with open_pairs("pairs.csv") as (columns, rows)`.

    Raises BatchError for a missing file or column, text that is not UTF-8, and rows of another length than the header.
    """
    try:
        with open_text(name, newline="") as file:
            yield _parse(file, name)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise BatchError(f"{name} cannot be read: {error.strerror}; expected a CSV file") from None


def survey(name: str) -> Survey:
    """Read a whole table once: its columns, how many rows it has and its digest. Raises BatchError."""
    with open_pairs(name) as (columns, rows):
        count = sum(1 for _ in rows)
    with Path(name).open("rb") as file:
        return Survey(columns, count, hashlib.file_digest(file, "sha256").hexdigest())


def _parse(file: TextIO, name: str) -> tuple[list[str], Iterator[list[str]]]:
    rows = _rows(file, name)
    columns = next(rows, None)
    if columns is None:
        raise BatchError(f"{name} is empty; expected a header with the columns image_a and image_b")
    if missing := [column for column in NEEDED if column not in columns]:
        raise BatchError(f"{name} lacks the column {', '.join(missing)}; its columns are {', '.join(columns)}")
    if len(set(columns)) < len(columns):
        raise BatchError(f"{name} has two columns of one name: {', '.join(columns)}")
    if taken := [column for column in RESULTS if column in columns]:
        raise BatchError(f"{name} already has the column {', '.join(taken)}; rename it, the result goes there")
    return columns, rows


def _rows(file: TextIO, name: str) -> Iterator[list[str]]:
    reader = csv.reader(file, strict=True)
    width = 0
    try:
        for row in reader:
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                raise BatchError(f"{name}, line {reader.line_num}: {len(row)} fields, the header has {width}")
            yield row
    except (csv.Error, UnicodeDecodeError) as error:
        raise BatchError(f"{name}, after line {reader.line_num}: {error}; expected CSV in UTF-8") from None


class Writer(Protocol):
    """Takes rows in order; `close` completes the file but leaves the stream open."""

    def write(self, rows: Sequence[Scored]) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what is still held back."""


def make_writer(format: str, stream: IO[bytes], columns: Sequence[str]) -> Writer:
    """The writer of a format ("csv", "jsonl", "parquet") for rows with these columns and the results."""
    if format == "parquet":
        return _Parquet(stream, columns)
    return (_Csv if format == "csv" else _JsonLines)(stream, columns)


class _Text:
    def __init__(self, stream: IO[bytes], columns: Sequence[str]) -> None:
        self.columns = [*columns, *RESULTS]
        self.text = TextIOWrapper(stream, "utf-8", newline="")

    def close(self) -> None:
        self.text.flush()
        self.text.detach()


class _Csv(_Text):
    def __init__(self, stream: IO[bytes], columns: Sequence[str]) -> None:
        super().__init__(stream, columns)
        self.writer = csv.writer(self.text, lineterminator="\n")
        self.writer.writerow(self.columns)

    def write(self, rows: Sequence[Scored]) -> None:
        self.writer.writerows((*row.values, row.relevance_score, row.raw_score, row.error) for row in rows)
        self.text.flush()


class _JsonLines(_Text):
    def write(self, rows: Sequence[Scored]) -> None:
        for row in rows:
            cells = (*row.values, row.relevance_score, row.raw_score, row.error)
            self.text.write(json.dumps(dict(zip(self.columns, cells, strict=True)), ensure_ascii=False) + "\n")
        self.text.flush()


class _Parquet:
    def __init__(self, stream: IO[bytes], columns: Sequence[str]) -> None:
        self.arrow, parquet = import_parquet()
        arrow = self.arrow
        self.schema: Any = arrow.schema(
            [
                *((column, arrow.string()) for column in columns),
                *(("relevance_score", arrow.float32()), ("raw_score", arrow.float32()), ("error", arrow.string())),
            ]
        )
        self.writer: Any = parquet.ParquetWriter(stream, self.schema, compression="zstd")

    def write(self, rows: Sequence[Scored]) -> None:
        cells = zip(*((*row.values, row.relevance_score, row.raw_score, row.error) for row in rows), strict=True)
        arrays = [self.arrow.array(column, field.type) for column, field in zip(cells, self.schema, strict=True)]
        self.writer.write_table(self.arrow.Table.from_arrays(arrays, schema=self.schema))

    def close(self) -> None:
        self.writer.close()


def import_parquet() -> tuple[Any, Any]:
    """pyarrow and its Parquet part; BatchError with the line that installs them where they are missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BatchError("Parquet needs pyarrow; install it with `pip install 'diptych[parquet]'`") from None
    return pyarrow, pyarrow.parquet


def standard_output() -> IO[bytes]:
    """Standard output as bytes."""
    sys.stdout.flush()
    return sys.stdout.buffer
