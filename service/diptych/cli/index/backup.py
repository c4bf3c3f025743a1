"""`diptych index backup` and `restore`: a collection copied, and given the state of a copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from diptych.cli.options import Store, StoreFolder
from diptych.command_tree import Json, Quiet
from diptych.console import Console, byte_size, counted
from diptych.errors import StoreError
from diptych.store.location import Address


def backup(
    store: Store,
    target: Annotated[Path, Argument(metavar="DIR", help="a new folder")],
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Copy a collection while it is in use."""
    from diptych.store.sqlite import backup as archive
    from diptych.store.sqlite.database import Store as Database

    console = Console(as_json, quiet)
    if isinstance(store, Address):
        raise StoreError(f"{store} is backed up by Milvus's own tool; `diptych index export` writes the records")
    with Database.open(store, read_only=True) as database, console.progress(unit="page", desc="copying") as bar:
        size = archive.backup(database, target, _told(bar))
    text = f"{target}: {byte_size(size)}; open it like any collection"
    console.emit({"target": str(target), "bytes": size}, text)
    return 0


def restore(
    copy: Annotated[Path, Argument(metavar="COPY", help="the folder that `diptych index backup` made")],
    store: StoreFolder,
    replace: Annotated[
        bool, Option("--replace", help="even if pictures are lost that the backup does not have")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Give a collection the state of a backup.

    No other process may write to the collection meanwhile.
    """
    from diptych.store.sqlite import backup as archive
    from diptych.store.sqlite.backend import SqliteBackend

    console = Console(as_json, quiet)
    with SqliteBackend.open(copy, read_only=True) as old, console.progress(unit="page", desc="copying") as bar:
        pictures = archive.restore(old, store, replace=replace, progress=_told(bar))
    console.emit({"store": str(store), "pictures": pictures}, f"{store}: {counted(pictures, 'picture')}, as in {copy}")
    return 0


def _told(bar: Any) -> Callable[[int, int], None]:
    """A progress bar's way to be told (done, total)."""

    def tell(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return tell
