"""Files that are either wholly there or not there at all, whatever happens to the power, and the room they take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Replace `path` by `data` in one step that survives a crash: temporary file, fsync, rename, fsync of the folder.

    Only one process may write this path at a time; its temporary file always has the same name, so that a killed one
    leaves nothing behind that the next does not take away.
    Raises OSError, and leaves the old file as it was, if the disk is full or the folder cannot be written.
    """
    with replacing(path, path.with_name(f".{path.name}.tmp")) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, temporary: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of `path`, in one step, if all goes well; it grows in `temporary`."""
    temporary = temporary or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
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


def disk_bytes(folder: Path) -> int:
    """How many bytes the files in a folder have; 0 if somebody took it away."""
    total = 0
    with suppress(FileNotFoundError):
        for file in folder.iterdir():
            with suppress(FileNotFoundError):  # what grows under another name may have got its own meanwhile
                total += file.stat().st_size
    return total
