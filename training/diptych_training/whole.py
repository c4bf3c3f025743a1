"""Files and folders that are wholly there or not there at all, after Ctrl-C or on a full disk too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from diptych_training.errors import DataError


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
    """A new folder beside `path`, which is not there or empty, and whose place it takes if all goes well.

    Raises DataError where nothing can take the place of `path`, as a disk is mounted there.
    """
    path = path.resolve()
    if path.is_mount():
        raise DataError(f"{path} is where a disk is mounted, and is filled whole or not at all; name a folder in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary:
        fresh = Path(temporary, "fresh")
        fresh.mkdir()
        yield fresh
        fresh.replace(path)
