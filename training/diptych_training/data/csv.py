"""Tables that people bring, read with errors that name the file and its fault."""

import csv
from collections.abc import Sequence
from pathlib import Path

from diptych_training.errors import DataError

LABELS = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Read a CSV (UTF-8) with at least these columns; others are kept."""
    if not path.is_file():
        raise DataError(f"expected a CSV with the columns {', '.join(columns)} at {path}, which is no file")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not set(columns) <= set(reader.fieldnames or ()):
                raise DataError(
                    f"{path} needs the columns {', '.join(columns)}; it has {', '.join(reader.fieldnames or ())}"
                )
            rows = list(reader)
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    for number, row in enumerate(rows, 2):
        if any(row[column] is None for column in columns):
            raise DataError(f"{path}, line {number}: expected {len(reader.fieldnames or ())} fields, got fewer")
    return rows


def read_column(path: Path, column: str) -> list[str]:
    """Read one column of a CSV."""
    return [row[column] for row in read_table(path, [column])]
