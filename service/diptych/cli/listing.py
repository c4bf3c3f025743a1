"""`diptych index list`: the pictures of a collection."""

from __future__ import annotations

from dataclasses import asdict
from itertools import chain, islice
from typing import Annotated

from typer import Option

from diptych.cli.options import Filter, Store
from diptych.command_tree import Json, Quiet, number
from diptych.console import Console, table

_PAGE = 1000


def list(
    store: Store,
    limit: Annotated[
        int | None,
        Option("--limit", parser=number(1), metavar="N", help="how many", show_default="all", envvar="DIPTYCH_LIMIT"),
    ] = None,
    filter: Filter = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """List the pictures of a collection.

    They stand in the order in which they were added. Works beside a running writer and needs no model.
    """
    from diptych.store.open import open_store

    console = Console(as_json, quiet)
    with open_store(store, read_only=True) as backend:
        records = [*islice(chain.from_iterable(backend.pages(_PAGE, filter)), limit)]
        total = backend.count()
    rows = [
        (record.id, f"{record.width} x {record.height}", record.added[:10], record.path or "-") for record in records
    ]
    console.emit(
        {"pictures": [asdict(record) for record in records], "total": total},
        table(("id", "pixels", "added", "path"), rows) if rows else "",
    )
    console.remark(f"{len(rows):,} of {total:,} pictures in {store}")
    return 0
