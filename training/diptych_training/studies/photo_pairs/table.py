"""Finished runs as the rows of a CSV that is kept with the project: whoever runs the study later goes on from it."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from diptych_runtime.atomic import replacing_file
from diptych_training.data.csv import read_table
from diptych_training.errors import DataError
from diptych_training.studies.photo_pairs.run import FIGURES

NAMES = ("study", "variant", "rate", "seed", "steps")
MEASURED = ("parameters", "mflop", "seconds", *FIGURES)
COLUMNS: tuple[str, ...] = (*NAMES, "panel", "settings", *MEASURED, "curve")

Row = dict[str, Any]


class RunTable:
    """The rows of a CSV, which need not exist yet.

    `settings` is a digest of all that a run was given, and `panel` of the released panel part whose tokens it learnt.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = [self._parsed(row) for row in read_table(path, COLUMNS)] if path.exists() else []

    def find(self, settings: str) -> Row | None:
        """The row of the run with these settings, None where it has not been made."""
        return next((row for row in self.rows if row["settings"] == settings), None)

    def require(self, panel: str) -> None:
        """Raise `DataError` where runs are of another panel part: they cannot be laid beside new ones."""
        others = sorted({row["panel"] for row in self.rows} - {panel})
        if others:
            raise DataError(
                f"{self.path} has runs over tokens of another panel part ({', '.join(others)}) than the released one "
                f"({panel}): name another CSV with --runs, or see what is finished with --finished"
            )

    def add(self, row: Mapping[str, Any]) -> None:
        """Write the table with one row more, whole or not at all."""
        self.rows.append({name: row[name] for name in COLUMNS})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing_file(self.path) as unfinished, unfinished.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(row | {"curve": " ".join(map(str, row["curve"]))} for row in self.rows)

    def _parsed(self, row: Mapping[str, str]) -> Row:
        try:
            numbers: Row = {name: float(row[name]) for name in ("rate", *MEASURED)}
            whole = {name: int(row[name]) for name in ("seed", "steps", "parameters")}
            curve = [float(loss) for loss in row["curve"].split()]
        except ValueError as error:
            raise DataError(f"{self.path} is damaged ({error}): mend or remove that row") from None
        return {**row, **numbers, **whole, "curve": curve}
