"""Files and folders that are wholly there or not there at all, even after a power cut, and the room they take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

from diptych_runtime.errors import DiptychError


def write_atomic(path: Path, data: bytes | memoryview) -> None:
    """Replace `path` by `data` in one step that survives a crash: temporary file, fsync, rename, fsync of the folder.

    Only one process may write this path at a time; its temporary file always has the same name, so that a killed one
    leaves nothing behind that the next does not take away.
    Raises OSError, and leaves the old file as it was, if the disk is full or the folder cannot be written.
    """
    with replacing_stream(path, temporary_path(path)) as file:
        file.write(data)


def temporary_path(path: Path) -> Path:
    """The file that `write_atomic` writes before it takes the name `path`."""
    return path.with_name(f".{path.name}.tmp")


@contextmanager
def replacing_stream(path: Path, unfinished: Path | None = None) -> Iterator[IO[bytes]]:
    """A stream whose content replaces the file `path` in one step, if all goes well; it grows in `unfinished`."""
    unfinished = unfinished or path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _put_in_place(unfinished, path), _open_new(unfinished) as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """`replacing_stream` for a library that opens its file itself: a path beside `path`, with the same ending."""
    temporary = path.with_name(f".{os.getpid()}-{path.name}")
    with _put_in_place(temporary, path):
        yield temporary
        _sync_path(temporary)


@contextmanager
def replacing_folder(path: Path, *, full: bool = False) -> Iterator[Path]:
    """A new folder beside `path`, whose place it takes if all goes well.

    A folder with something in it is replaced only where `full` says so. Raises DiptychError where nothing can take the
    place of `path`, as a disk is mounted there.
    """
    path = path.resolve()
    if path.is_mount():
        raise DiptychError(f"{path} is where a disk is mounted, and is filled whole or not at all; name a folder in it")
    path.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as temporary:
        fresh = Path(temporary, "fresh")
        fresh.mkdir()
        yield fresh
        os.sync()  # one call for all of them: one for each of 50,000 pictures takes minutes
        old = Path(temporary, "old")
        try:
            if full and path.exists():
                path.replace(old)
            fresh.replace(path)
        except BaseException:  # Ctrl-C between the two
            if old.exists() and not path.exists():
                old.replace(path)
            raise
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in `folder` last."""
    _sync_path(folder)


def disk_bytes(folder: Path) -> int:
    """The size of the files in a folder, in bytes; 0 if the folder was removed meanwhile."""
    total = 0
    with suppress(FileNotFoundError):
        for file in folder.iterdir():
            with suppress(FileNotFoundError):  # what grows under another name may have got its own meanwhile
                total += file.stat().st_size
    return total


def _open_new(unfinished: Path) -> IO[bytes]:
    """A new file opened for writing, never what a link leads to.

    Raises FileNotFoundError with the name of a folder that is missing.
    """
    try:
        return unfinished.open("xb")
    except FileNotFoundError as error:
        error.filename = str(unfinished.parent)
        raise


@contextmanager
def _put_in_place(temporary: Path, path: Path) -> Iterator[None]:
    temporary.unlink(missing_ok=True)  # a killed process left it, or a stranger, as a link to some other file
    try:
        yield
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _sync_path(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
