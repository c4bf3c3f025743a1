"""Taking a collection out, while it is in use: its records as lines, or all of it as a copy that can be opened."""

from __future__ import annotations

import sqlite3
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diptych.errors import StoreError
from diptych.store.backend import Backend
from diptych.store.filters import Filter
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE
from diptych_runtime.atomic import sync_folder

_STEP = 500
_PAGES = 256  # of the database, copied before others get a turn


def lines(store: Backend, where: Filter | None = None, *, embeddings: bool = False) -> Iterator[dict[str, Any]]:
    """A JSON object for every picture that meets a condition, in the order they were added.

    `embedding` is little-endian float32 in base64. What is added meanwhile may be among them.
    """
    for found in store.pages(_STEP, where):
        vectors = store.embeddings_of([record.id for record in found]) if embeddings else {}
        for record in found:
            line = asdict(record)
            if embeddings:
                if record.id not in vectors:  # removed since
                    continue
                line["embedding"] = b64encode(vectors[record.id]).decode()
            yield line


def backup(store: Store, target: Path, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Copy the database, as it is at one moment, into a new folder; return how many bytes that are.

    The index is no part of it: who opens the copy makes it anew. The copy appears as a whole or not at all. Raises
    StoreError for a target that has a collection, and where it cannot be written.
    """
    final, growing = target / DATABASE, target / f".{DATABASE}.backup"
    if final.exists():
        raise StoreError(f"{target} holds a collection already; choose another folder")
    try:
        target.mkdir(parents=True, exist_ok=True)
        growing.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"the backup {target} cannot be written: {error.strerror}; choose another folder") from None
    try:
        with store.reading() as source, closing(sqlite3.connect(growing)) as copy:
            copy.execute("PRAGMA synchronous=FULL")
            source.backup(copy, pages=_PAGES, progress=lambda _, left, total: progress(total - left, total))
        growing.replace(final)
        sync_folder(target)
    except (OSError, sqlite3.Error) as error:
        growing.unlink(missing_ok=True)
        raise StoreError(f"the backup {target} cannot be written: {error}; nothing is left of it") from None
    except BaseException:
        growing.unlink(missing_ok=True)
        raise
    return final.stat().st_size
