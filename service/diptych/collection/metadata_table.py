"""A table of metadata for picture files that are added: a line for each, by path."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator
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
    ending = table.suffix.lower()
    if ending not in ENDINGS:
        raise ArgumentError(f"expected a table of metadata that ends in {' or '.join(ENDINGS)}, got {table}")
    found: dict[str, Metadata] = {}
    number = 0

    def read_lines(stream: Iterable[str]) -> Iterator[str]:
        nonlocal number
        for number, line in enumerate(stream, 1):  # noqa: B007 - which the errors name
            yield line

    try:
        with open_text(str(table), newline="") as stream:
            read = _read_csv if ending == ".csv" else _read_json_lines
            for name, metadata in read(read_lines(stream)):
                path = existing_form(full_path(table.absolute().parent / name))
                if path in found:
                    raise ValueError(f"{name} is named twice")
                found[path] = checked_metadata(metadata)
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{table} is not UTF-8 ({error}); save it as such") from None
    except (ArgumentError, ValueError, csv.Error) as error:
        raise ArgumentError(f"{table}, line {number}: {error}") from None
    return found


def _read_csv(lines: Iterator[str]) -> Iterator[tuple[str, Metadata]]:
    rows = csv.DictReader(lines, strict=True)
    header = list(rows.fieldnames or ())
    column = next((name for name in PATH if name in header), None)
    if column is None or len(set(header)) < len(header):
        there = ", ".join(header) or "none"
        raise ValueError(f"expected columns of different names, {' or '.join(PATH)} among them, got {there}")
    for row in rows:
        if None in row:
            raise ValueError("more cells than the header has columns")
        if not (name := row.pop(column)):
            raise ValueError(f"no {column}")
        yield name, {key: _parse_cell(cell) for key, cell in row.items() if cell}


def _parse_cell(cell: str) -> Any:
    return json.loads(cell) if _NUMBER.fullmatch(cell) else _WORDS.get(cell, cell)


def _read_json_lines(lines: Iterator[str]) -> Iterator[tuple[str, Metadata]]:
    for line in lines:
        row: Any = parse_json(line) if line.strip() else {PATH[0]: None}
        column = next((name for name in PATH if isinstance(row, dict) and name in row), None)
        if column is None:
            raise ValueError(f"expected a JSON object with {' or '.join(PATH)}")
        name = row.pop(column)
        if name is not None:
            if not isinstance(name, str) or not name:
                raise ValueError(f"expected the name of a file in {column}, got {name!r}")
            yield name, row.get("metadata", row)
