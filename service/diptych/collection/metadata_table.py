"""A table of metadata for picture files that are added: a line for each, by path."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diptych.collection.ingest import checked_metadata
from diptych.console import open_text
from diptych.pictures.walk import full_path
from diptych_runtime.errors import ArgumentError
from diptych_runtime.parsing import parse_json
from diptych_runtime.paths import existing_form

ENDINGS = (".csv", ".jsonl")
PATH = ("path", "file_name")  # the second is what the ImageFolder of Hugging Face's datasets reads
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_WORDS = {"true": True, "false": False}

Metadata = dict[str, Any]


def read_metadata(table: Path) -> dict[str, Metadata]:
    """The metadata of picture files by full path, from a CSV with a header or from a JSON object a line (.jsonl).

    `path`, or `file_name`, names the file; a relative one begins at the folder of the table. All else is metadata. In a
    CSV a number is a number, true and false are truth values, and an empty cell is left out. An object with `metadata`
    has them there, as `diptych index export` writes it, and one whose path is null is passed over.

    Raises ArgumentError, with the number of the line, and OSError.
    """
    if table.suffix.lower() not in ENDINGS:
        raise ArgumentError(f"expected a table of metadata that ends in {' or '.join(ENDINGS)}, got {table}")
    read = _read_csv if table.suffix.lower() == ".csv" else _read_json_lines
    found: dict[str, Metadata] = {}
    try:
        for number, name, metadata in read(table):
            if name is None:
                continue
            path = existing_form(full_path(table.absolute().parent / name))
            if path in found:
                raise ArgumentError(f"{table}, line {number}: {name} is named twice")
            try:
                found[path] = checked_metadata(metadata)
            except ArgumentError as error:
                raise ArgumentError(f"{table}, line {number}: {error}") from None
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{table} is not UTF-8 ({error}); save it as such") from None
    return found


def _read_csv(table: Path) -> Iterator[tuple[int, str, Metadata]]:
    with open_text(str(table), newline="") as stream:
        rows = csv.DictReader(stream, strict=True)
        try:
            column = next((name for name in PATH if name in (rows.fieldnames or ())), None)
            if column is None:
                raise ArgumentError(
                    f"{table} has no column {' or '.join(PATH)}; it has {', '.join(rows.fieldnames or ()) or 'none'}"
                )
            if twice := [name for name, count in Counter(rows.fieldnames).items() if count > 1]:
                raise ArgumentError(
                    f"{table} has more than one column named {', '.join(map(repr, twice))}; rename or remove all "
                    "but one of them"
                )
            for row in rows:
                if None in row:
                    raise ArgumentError(f"{table}, line {rows.line_num}: more cells than the header has columns")
                name = row.pop(column)
                if not name:
                    raise ArgumentError(f"{table}, line {rows.line_num}: no {column}")
                try:
                    values = {key: _parse_cell(cell) for key, cell in row.items() if cell}
                except ValueError as error:  # a whole number of too many digits
                    raise ArgumentError(f"{table}, line {rows.line_num}: a number cannot be read: {error}") from None
                yield rows.line_num, name, values
        except csv.Error as error:
            raise ArgumentError(f"{table}, line {rows.reader.line_num}: {error}") from None


def _parse_cell(cell: str) -> Any:
    return json.loads(cell) if _NUMBER.fullmatch(cell) else _WORDS.get(cell, cell)


def _read_json_lines(table: Path) -> Iterator[tuple[int, str | None, Metadata]]:
    with open_text(str(table)) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = parse_json(line)
            except ValueError as error:
                raise ArgumentError(f"{table}, line {number}: expected a JSON object: {error}") from None
            column = next((name for name in PATH if isinstance(row, dict) and name in row), None)
            if column is None:
                raise ArgumentError(f"{table}, line {number}: expected a JSON object with {' or '.join(PATH)}")
            name = row.pop(column)
            if name is not None and (not isinstance(name, str) or not name):
                raise ArgumentError(f"{table}, line {number}: expected the name of a file in {column}, got {name!r}")
            yield number, name, row.get("metadata", row)
