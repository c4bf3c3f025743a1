"""Folders that change, and what a collection makes of them."""

import os
import time
from pathlib import Path
from typing import Any

from diptych.store.records import Record
from diptych.store.sqlite.database import Store

NAMES = ("new", "changed", "moved", "removed", "unplaced", "refused", "closed")


def put(path: Path, data: bytes, age: float = 3600) -> Path:
    """Write a file that was last changed so many seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def records(store: Path) -> list[Record]:
    """The records of a collection that nobody writes."""
    with Store.open(store, read_only=True) as opened:
        return opened.page(10_000)


def held(store: Path) -> dict[str, str | None]:
    """The path of every picture of a collection by its id."""
    return {record.id: record.path for record in records(store)}


def names(store: Path, folder: Path) -> list[str]:
    """Where the pictures of a collection lie, relative to a folder where they lie below it; "" for no path."""
    return sorted((path or "").removeprefix(f"{folder}/") for path in held(store).values())


def counts(result: Any) -> dict[str, int]:
    """How many of each kind `diptych index sync --json` said, those left out that are none."""
    found = {name: len(result.json[name]) for name in NAMES}
    found |= {name: result.json[name] for name in ("unchanged", "copies")}
    return {name: number for name, number in found.items() if number}
