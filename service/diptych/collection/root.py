"""A folder of collections: which of its folders are some, and how one comes and goes.

What is being made or removed has a name that no collection has. So a kill at any moment leaves a collection whole or
gone, and the next start clears the rest away.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from uuid import uuid4

from diptych.errors import CollectionKeptError, CollectionNameError, StoreError
from diptych.store.lock import LOCK, WriterLock
from diptych.store.sqlite import index_cache
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.atomic import sync_folder
from diptych_runtime.own_calibration import CALIBRATION

NAME = "[a-z0-9][a-z0-9_-]{0,62}"
_HALF = re.compile(rf"\.{NAME}\.(new|removed)-[0-9a-f]{{32}}")
# What Diptych writes into the folder of a collection, with what SQLite and a write that was broken off leave beside it.
NAMES = (DATABASE, index_cache.CACHE, index_cache.MANIFEST, CALIBRATION, "sync.sqlite", "dedupe.sqlite", LOCK)
_OURS = re.compile(rf"\.?({'|'.join(map(re.escape, NAMES))})(-wal|-shm|-journal|\.backup|(\.\d+)?\.tmp)?")

logger = logging.getLogger(__name__)


class Root:
    """The folder and the lock on it: one process at a time may make and remove collections in it."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which is made if it is not there. Raises StoreError if another process has it."""
        self.folder = folder.absolute()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = WriterLock(self.folder / "service.lock", f"the folder {self.folder}")
        except OSError as error:
            raise StoreError(f"{self.folder} cannot be written: {error.strerror}; choose another folder") from None

    def release(self) -> None:
        """Let the next process have the folder; a second call does nothing."""
        self._lock.release()

    def make(self, name: str) -> None:
        """Make an empty collection, on the disk when this returns. Raises StoreError if other things are there."""
        half = self._name_half(name, "new")
        try:
            # It gets its name when it is whole: a kill leaves a half that no name of a collection matches.
            Store.open(half, create=True).move(self.folder / name)
        except OSError as error:
            message = f"the collection {self.folder / name} cannot be made: {error.strerror}; look what is there"
            raise StoreError(message) from None
        finally:
            if half.is_dir():
                _clear_folder(half)

    def check_removable(self, name: str) -> None:
        """Raise CollectionKeptError for a collection whose folder is a link or holds files of others."""
        folder = self.folder / name
        if folder.is_symlink():
            raise CollectionKeptError(
                f"the collection {name} is a link to {folder.resolve()}; remove the link, and the folder if you want to"
            )
        if others := find_strangers(folder):
            raise CollectionKeptError(
                f"the folder of the collection {name} holds what is not Diptych's: {list_names(others)}; nothing was "
                f"removed. Move that out of {folder} and try again"
            )

    def remove(self, name: str, store: Store) -> None:
        """Remove a collection, whose store is no longer in use, file by file: what is not Diptych's is never deleted.

        Raises StoreError, with the store closed and the collection still there, if the folder cannot be changed.
        """
        half = self._name_half(name, "removed")
        try:
            store.move(half)
        except OSError as error:
            raise StoreError(f"the collection {store.directory} cannot be removed: {error.strerror}") from None
        _clear_folder(half)

    def tidy(self) -> None:
        """Clear away folders left half made or half removed when the last process ended."""
        for folder in self.folder.iterdir():
            if _HALF.fullmatch(folder.name) and not folder.is_symlink():
                _clear_folder(folder)

    def _name_half(self, name: str, state: str) -> Path:
        return self.folder / f".{name}.{state}-{uuid4().hex}"


def collections_in(folder: Path) -> list[str]:
    """The names of the subfolders that hold a collection, in alphabetical order. Raises StoreError."""
    if not folder.is_dir():
        raise StoreError(f"expected a folder with the folders of collections, and {folder} is none")
    return sorted(path.parent.name for path in folder.glob(f"*/{DATABASE}") if re.fullmatch(NAME, path.parent.name))


def check_name(name: str) -> None:
    """Raise CollectionNameError for an invalid name of a collection, a path above all."""
    if not re.fullmatch(NAME, name):
        raise CollectionNameError(
            f"{name[:80]!r} is no name for a collection; expected 1 to 63 of a-z, 0-9, - and _, the first a letter or "
            "a digit"
        )


def find_strangers(folder: Path) -> list[str]:
    """The names in the folder of a collection that Diptych did not put there, in alphabetical order."""
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not is_ours(path))


def list_names(names: list[str], shown: int = 5) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def is_ours(path: Path) -> bool:
    """True if a file in the folder of a collection has a name that Diptych writes there."""
    return _OURS.fullmatch(path.name) is not None and not path.is_dir()


def _clear_folder(half: Path) -> None:
    try:
        for path in half.iterdir():
            if is_ours(path):
                path.unlink()
        half.rmdir()
        sync_folder(half.parent)
    except OSError as error:
        logger.warning("%s could not be taken away: %s; the next start tries again", half, error.strerror)
