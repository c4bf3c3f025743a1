"""Files that are either wholly there or not there at all, whatever happens to the power."""

from __future__ import annotations

import os
from pathlib import Path


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Replace `path` by `data` in one step that survives a crash: temporary file, fsync, rename, fsync of the folder.

    Only one process may write this path at a time; its temporary file always has the same name, so that a killed one
    leaves nothing behind that the next does not take away.
    Raises OSError, and leaves the old file as it was, if the disk is full or the folder cannot be written.
    """
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
