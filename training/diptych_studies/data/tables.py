"""The tables of the archives, of which training itself needs the pictures alone."""

import csv
import io
import zipfile
from pathlib import Path

from diptych_training.data.archives import find_archive, read_member


def read_table_of(folder: Path, archive: str, name: str) -> list[dict[str, str]]:
    """Read a table of an archive, such as `grocery/iconic.csv`."""
    with zipfile.ZipFile(find_archive(folder, archive)) as file:
        return list(csv.DictReader(io.StringIO(read_member(file, name).decode(), newline="")))
