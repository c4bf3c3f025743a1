"""Tables of pairs, read batch by batch: CSV, TSV, JSON lines and Parquet."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from diptych.batch.tables import arrow
from diptych.batch.tables.scores import RESULTS
from diptych.console import open_text
from diptych.errors import BatchError
from diptych_runtime.own_files import open_own
from diptych_runtime.parsing import parse_json

ROWS = 4096  # of a batch, at most
SIDES = ("image_a", "image_b")

_ENDINGS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_FOUND = "expected a table of pairs as CSV, TSV, JSON lines or Parquet"


# Some rows of a table, in order: dictionaries, or of Parquet a `pyarrow.RecordBatch`, which keeps their types.
Batch = Any


@dataclass
class Table:
    """An open table. JSON lines name their columns as they go: `columns` are then those met so far, in that order."""

    columns: list[str]
    batches: Iterator[Batch]


def kind_of(name: str) -> str | None:
    """The kind of a table by the ending of its file, "csv", "tsv", "jsonl" or "parquet"; None if it is none."""
    return _ENDINGS.get(Path(name).suffix.lower())


@contextmanager
def open_table(name: str, sides: tuple[str, str] = SIDES, rows: int = ROWS) -> Iterator[Table]:
    """A table by its ending, CSV by default, in batches of at most `rows`. Raises BatchError, with the line."""
    kind = kind_of(name) or "csv"
    try:
        if kind == "parquet":
            with arrow.open_parquet(name, rows, sides) as (columns, batches):
                check_columns(columns, sides, name)
                yield Table(columns, iter(batches))
            return
        with open_text(name, newline="" if kind != "jsonl" else None) as file:
            reader = _read_json_lines if kind == "jsonl" else _read_separated
            columns, found = reader(file, name, sides, kind)
            yield Table(columns, iter(lambda: list(islice(found, rows)), []))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise BatchError(f"{name} cannot be read: {error.strerror}; {_FOUND}") from None


def hash_file(name: str | Path) -> str:
    """SHA-256 of a file, in hex digits. Raises BatchError if there is none."""
    try:
        with open_own(name, may_link=True) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise BatchError(f"{name} cannot be read: {error.strerror}; {_FOUND}") from None


def read_schema(name: str, sides: tuple[str, str] = SIDES) -> Any:
    """Read the Arrow schema of a table, one of JSON lines to its end. Raises BatchError."""
    kind = kind_of(name) or "csv"
    with open_table(name, sides) as table:
        if kind == "jsonl":
            return arrow.common_schema((arrow.from_rows(batch).schema for batch in table.batches), name)
    pyarrow, parquet = arrow.import_arrow()
    if kind == "parquet":
        return parquet.read_schema(name)
    return pyarrow.schema([(column, pyarrow.string()) for column in table.columns])


def read_texts(batch: Batch, column: str) -> list[str]:
    """Read the texts of a column; "" where there is none."""
    if isinstance(batch, list):
        return [row.get(column) or "" for row in batch]
    pyarrow, _ = arrow.import_arrow()
    return [text or "" for text in batch.column(column).cast(pyarrow.string()).to_pylist()]


def list_rows(batch: Batch) -> list[dict[str, Any]]:
    """The rows with the values that they have in Python."""
    return batch if isinstance(batch, list) else batch.to_pylist()


def check_columns(columns: list[str], sides: tuple[str, str], name: str) -> None:
    """Raise BatchError unless both `sides` are there, no column twice, and none called as a result is."""
    if missing := [side for side in sides if side not in columns]:
        raise BatchError(f"{name} lacks {', '.join(missing)} among its columns; these are {', '.join(columns)}")
    if len(set(columns)) < len(columns):
        raise BatchError(f"{name} has two columns of one name: {', '.join(columns)}")
    _check_free(columns, name)


def _check_free(columns: Iterable[str], name: str) -> None:
    if taken := sorted(set(columns) & set(RESULTS)):
        raise BatchError(f"{name} already has the column {', '.join(taken)}; rename it, the results go there")


_Read = tuple[list[str], Iterator[dict[str, Any]]]


def _read_separated(file: TextIO, name: str, sides: tuple[str, str], kind: str) -> _Read:
    rows = _read_fields(file, name, kind)
    columns = next(rows, None)
    if columns is None:
        raise BatchError(f"{name} is empty; expected a header with the columns {' and '.join(sides)}")
    check_columns(columns, sides, name)
    return columns, (dict(zip(columns, row, strict=True)) for row in rows)


def _read_fields(file: TextIO, name: str, kind: str) -> Iterator[list[str]]:
    reader = csv.reader(file, strict=True, delimiter="\t" if kind == "tsv" else ",")
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
        raise BatchError(f"{name}, after line {reader.line_num}: {error}; expected {kind.upper()} in UTF-8") from None


def _read_json_lines(file: TextIO, name: str, sides: tuple[str, str], kind: str) -> _Read:
    columns: list[str] = []

    def read_rows() -> Iterator[dict[str, Any]]:
        known: dict[str, None] = {}
        for number, row in _read_objects(file, name):
            if not row.keys() <= known.keys():
                known.update(dict.fromkeys(row))
                columns[:] = known
                _check_free(columns, name)
            for side in sides:
                if not isinstance(row.get(side), str | None):
                    got = json.dumps(row[side])[:80]
                    raise BatchError(f"{name}, line {number}: {side} is {got}; expected the path of a picture as text")
            yield row
        check_columns(columns, sides, name)

    return columns, read_rows()


def _read_objects(file: TextIO, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    number, line = 0, ""
    try:
        for number, line in enumerate(file, 1):
            if line.strip():
                row = parse_json(line)
                if not isinstance(row, dict):
                    raise BatchError(f"{name}, line {number}: expected a JSON object, got {line.strip()[:80]}")
                yield number, row
    except UnicodeDecodeError as error:
        raise BatchError(f"{name}, after line {number}: {error}; expected JSON lines in UTF-8") from None
    except ValueError as error:
        raise BatchError(f"{name}, line {number}: {error}; expected one JSON object a line") from None
