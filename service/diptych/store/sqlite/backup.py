"""Taking a collection out, while it is in use: its records as lines, or all of it as a copy that can be opened."""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from diptych.console import format_count
from diptych.errors import StoreError
from diptych.store.sqlite import index_cache
from diptych.store.sqlite.backend import SqliteBackend
from diptych.store.sqlite.database import Store
from diptych.store.sqlite.schema import DATABASE, prepare_tables
from diptych_runtime.atomic import sync_folder, write_atomic
from diptych_runtime.own_calibration import CALIBRATION
from diptych_runtime.own_files import open_own

_RECORDS = 1000  # read at a time
_PAGES = 256  # of the database, copied before others get a turn


def back_up_collection(
    store: Store, target: Path, progress: Callable[[int, int], None] = lambda done, total: None
) -> int:
    """Copy the database, as it is at one moment, and the own calibration into a new folder; return its size in bytes.

    The index is no part of it: who opens the copy makes it anew. The copy appears as a whole or not at all. Raises
    StoreError for a target that has a collection, and where it cannot be written.
    """
    final, growing = target / DATABASE, target / f".{DATABASE}.backup"
    if final.exists():
        raise StoreError(f"{target} holds a collection already; choose another folder")
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        growing.unlink(missing_ok=True)
        growing.touch(mode=0o600)
    except OSError as error:
        raise StoreError(f"the backup {target} cannot be written: {error.strerror}; choose another folder") from None
    try:
        with store.reading() as source, closing(sqlite3.connect(growing)) as copy:
            copy.execute("PRAGMA synchronous=FULL")
            _copy_database(source, copy, progress)
            (found,) = copy.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(f"the collection is damaged ({found}); see `diptych index verify`")
        if (own := _read_calibration(store.directory)) is not None:
            write_atomic(target / CALIBRATION, own)
        growing.replace(final)  # last, as who finds a database there takes the backup for whole
        sync_folder(target)
    except (OSError, sqlite3.Error) as error:
        growing.unlink(missing_ok=True)
        raise StoreError(f"the backup {target} cannot be written: {error}; nothing is left of it") from None
    except BaseException:
        growing.unlink(missing_ok=True)
        raise
    return final.stat().st_size


def restore_collection(
    copy: SqliteBackend,
    target: Path,
    *,
    replace: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Give the collection in a folder, or a new one, the state of a backup; return how many pictures it has.

    Its calibration comes along, if it has one. Until all is written the old state stays, also for readers. Raises
    StoreError for a damaged backup, where another process writes to the folder, and if pictures, their kept
    files or metadata, labels or a calibration would be lost that the backup has not, unless `replace` is set.
    """
    if (target / DATABASE).exists() and (target / DATABASE).samefile(copy.path):
        raise StoreError(f"{target} is the backup itself; name the folder of the collection with --store")
    if damage := copy.find_damage():
        raise StoreError(f"the backup {copy.directory} is damaged ({damage[0]}); nothing was changed")
    with SqliteBackend.open(target, create=True) as store:
        if not replace and (lost := _find_losses(store, copy)):
            raise StoreError(
                f"{target} holds {lost} that the backup {copy.directory} does not have; nothing was changed. Make "
                "a backup of them with `diptych index backup`, and then use --replace"
            )
        try:
            with copy.reading() as source, store.reading() as connection:
                try:
                    _copy_database(source, connection, progress)
                    prepare_tables(connection, store.path, create=False)  # a backup of an earlier version
                finally:
                    # Whoever knows the old state, as a reader with its index does, is to see that this is another.
                    connection.execute("UPDATE facts SET value=? WHERE key='identity'", (uuid.uuid4().hex,))
            # A kill before these are gone is no harm: they are of the identity before.
            for name in (index_cache.MANIFEST, index_cache.CACHE):
                (target / name).unlink(missing_ok=True)
            if (own := _read_calibration(copy.directory)) is not None:
                write_atomic(target / CALIBRATION, own)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}; restore it again") from None
        return store.count()


def _find_losses(store: SqliteBackend, copy: SqliteBackend) -> str | None:
    """What a store has that its backup lacks or would replace, in numbers; None if there is nothing."""
    here, there = ({(*one.pair, one.question, one.answer) for one in each.labels()} for each in (store, copy))
    numbers = {"picture": len(set(store.ids()).difference(copy.ids())), "label": len(here - there)}
    lost = [format_count(number, kind) for kind, number in numbers.items() if number]
    before, after = (_summarise_records(each) for each in (copy, store))
    both = [(before[id], now) for id, now in after.items() if id in before]
    if changed := sum(was[0] != now[0] for was, now in both):
        lost.append(f"the metadata of {format_count(changed, 'picture')}")
    if kept := sum(now[1] and not was[1] for was, now in both):
        lost.append(f"the kept files of {format_count(kept, 'picture')}")
    own, others = _read_calibration(store.directory), _read_calibration(copy.directory)
    if None not in (own, others) and own != others:
        lost.append("a calibration")
    return " and ".join(lost) or None


def _summarise_records(store: SqliteBackend) -> dict[str, tuple[int, bool]]:
    """For every picture by its id a number that tells different metadata apart, and whether its file is kept."""
    return {
        record.id: (hash(json.dumps(record.metadata, sort_keys=True)), record.original_kept)
        for page in store.pages(_RECORDS)
        for record in page
    }


def _read_calibration(folder: Path) -> bytes | None:
    """The collection's own calibration as it is written; None if it has none."""
    try:
        with open_own(folder / CALIBRATION, may_link=True) as file:
            return file.read()
    except FileNotFoundError:
        return None


def _copy_database(
    source: sqlite3.Connection, target: sqlite3.Connection, progress: Callable[[int, int], None]
) -> None:
    source.backup(target, pages=_PAGES, progress=lambda _, left, total: progress(total - left, total))
