"""Files and folders that are wholly there or not there at all, after Ctrl-C or on a full disk too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """A path beside `path`, with the same ending: the file written there takes its place if all goes well."""
    unfinished = path.with_name(f".{os.getpid()}-{path.name}")
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, which is not there or empty, and whose place it takes if all goes well."""
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary:
        fresh = Path(temporary, "fresh")
        fresh.mkdir()
        yield fresh
        fresh.replace(path)
